#!/usr/bin/env python3
"""Reads the tree itself: who includes whom, one README per folder, every algorithm in its table, short files.

Every check counts what it looked at, and one that found nothing to look at has failed: it no longer knows the tree.
tidy_test.py shows each of them a violation."""
import fnmatch
import pathlib
import re
import subprocess
import sys

MOST_LINES = 450
MOST_COLUMNS = 120

# What each folder may include, besides itself, src/base and include/tutti.
MAY_INCLUDE = {
    "src/base": set(),
    "src/device": set(),
    "src/malloc": set(),
    "src/device/host": {"src/device", "src/malloc"},  # the last for interface.h
    "src/device/cuda": {"src/device"},
    "src/collective": set(),
    "src/schedule": {"src/collective"},
    "transport": {"src/collective", "src/cost", "transport/self", "transport/shm", "transport/tcp", "transport/verbs", "transport/ucx",
                  "transport/ncclnet"},  # the last six: table.cpp
    "transport/self": {"transport"},
    "transport/shm": {"transport", "src/cost", "src/device/host"},
    "transport/tcp": {"transport", "src/collective"},
    "transport/verbs": {"transport", "src/collective"},
    "transport/ucx": {"transport", "src/collective"},
    "transport/ncclnet": {"transport", "src/collective"},
    "transport/cuda": {"transport", "src/collective", "src/device/host", "src/device/cuda"},
    "algorithms": {"src/schedule", "src/cost"},
    "src/exec": {"src/collective", "src/schedule", "src/exec/reduce", "transport"},
    "src/exec/reduce": {"src/collective"},
    "src/exec/cuda": {"src/exec", "src/exec/reduce", "src/exec/kernels", "src/collective", "src/schedule", "transport", "src/device/cuda"},
    "src/exec/kernels": {"src/exec/reduce"},
    "src/membership": set(),
    "src/control": {"src/collective", "src/membership"},  # the machines: they know neither their driver nor who starts ranks
    "src/control/session": {"src/control", "src/collective", "src/membership", "transport"},
    "src/control/launch": {"src/control", "src/control/session"},
    "src/sim": {"src/collective", "src/schedule"},
    "src/cost": {"src/topology"},
    "src/calibrate": {"src/cost", "src/exec", "src/exec/reduce", "transport"},
    "src/plan": {"algorithms", "src/collective", "src/cost", "src/schedule", "src/sim", "src/topology"},
    "src/topology": set(),
    "tools/topology/search": {"src/topology"},
    "tools/topology": {"tools/topology/search", "src/topology"},
    "src/import": {"src/collective", "src/schedule"},
    "tools/export": {"src/collective", "src/schedule", "src/import"},
    "tools/cluster": {"algorithms", "src/collective", "src/cost", "src/schedule", "src/sim", "src/topology", "tools/topology/search"},
    "tools/nccl_model": {"src/collective", "src/sim", "src/topology", "tools/cluster"},
    "src/plugins": set(),
    "src/recorder": {"src/collective"},
    "src/net_plugin": {"transport", "transport/tcp", "transport/verbs", "transport/ncclnet", "src/control", "src/control/session", "src/collective"},
    "src/comm": {"src/plugins", "src/recorder", "src/control", "src/control/session", "src/control/launch", "src/membership", "src/calibrate", "src/collective", "src/cost",
                 "src/plan", "src/exec", "src/exec/reduce", "src/exec/cuda", "src/exec/kernels", "src/schedule", "src/device/host",
                 "src/device/cuda", "transport", "transport/cuda", "algorithms", "src/topology", "src/import"},
    "src/api": {"src/comm", "src/control", "src/control/session", "src/control/launch", "src/device/host", "src/device/cuda"},
}
# Parts that are written on the public header alone.
PUBLIC_ONLY = ("perf", "examples", "tools/run", "src/parallel", "src/nccl")
APART = ("perf/micro", "perf/oracle", "perf/ways", "perf/gpu")  # but not these
# ... nor these headers: of devices and threads, whose sources are linked into those parts, too; and of kernel source.
DECLARATIONS = ("src/device/device.hpp", "src/device/cuda/device.hpp", "src/base/threads.hpp", "src/exec/kernels/team.hpp")
# Folders in which every source belongs to one of the above.
LAYERED = ("src", "transport", "algorithms")
SOURCES = (".cpp", ".hpp", ".h", ".c", ".inc", ".cu")


class Tree:
    """Some text files, by their paths from the top."""

    def __init__(self, top, paths):
        self.top, self.paths, self.texts = top, [pathlib.Path(path) for path in paths], {}

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = (self.top / path).read_text()
        return self.texts[path]

    def lines(self, path):
        return enumerate(self.text(path).splitlines(), 1)

    def has(self, path):
        return (self.top / path).exists()

    def sources(self, *folders):
        return [path for path in self.paths if path.suffix in SOURCES and (not folders or within(path, folders))]

    def includes(self):
        """(file, line number, what it includes in quotes), the headers that every file may include left out."""
        for path in self.sources():
            for number, line in self.lines(path):
                found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
                if found and not found[1].startswith(("tutti/", "hwy/")):
                    yield path, number, found[1]


class Report:
    """What the checks looked at, and what is wrong."""

    def __init__(self):
        self.complaints, self.looked = [], 0

    def looks(self, wrong, complaint):
        self.looked += 1
        if wrong:
            self.complaints.append(complaint)


def within(path, folders):
    """Whether the path is in one of the folders, or is one of them."""
    return any(str(path) == folder or str(path).startswith(folder + "/") for folder in folders)


def folder_of(path):
    parent = str(path.parent)
    while parent not in MAY_INCLUDE and "/" in parent:
        parent = parent.rsplit("/", 1)[0]
    return parent


def is_public_only(path):
    return within(path, PUBLIC_ONLY) and not within(path, APART)


def check_include_paths(tree, report):
    for path, number, target in tree.includes():
        report.looks(not tree.has(target),
                     f"{path}:{number}: includes {target}, which is not a path from the top of the tree")


def check_public_only(tree, report):
    for path, number, target in tree.includes():
        if is_public_only(path) and within(target, LAYERED):
            folder = "/".join(path.parts[:2])
            own = within(folder, LAYERED) and (within(target, [folder]) or target in DECLARATIONS)
            report.looks(not own, f"{path}:{number}: is written on tutti.h alone and may not include {target}")


def check_layers(tree, report):
    for path, number, target in tree.includes():
        owner = folder_of(path)
        if is_public_only(path) or owner not in MAY_INCLUDE or not tree.has(target):
            continue
        goal = folder_of(pathlib.Path(target))
        report.looks(goal not in MAY_INCLUDE[owner] | {owner, "src/base"}, f"{path}:{number}: {owner} may not include {goal}")


def check_owners(tree, report):
    """Every source of the library is in a folder of the tables above, and every line there is about some source."""
    for path in tree.sources(*LAYERED):
        report.looks(folder_of(path) not in MAY_INCLUDE and not is_public_only(path),
                     f"{path}: tests/tidy/tidy.py does not say what its folder may include")
    owners = {folder_of(path) for path in tree.sources() if not is_public_only(path)}
    for name in sorted({*MAY_INCLUDE, *set().union(*MAY_INCLUDE.values())}):
        report.looks(name not in owners, f"tests/tidy/tidy.py: no file goes by its rule for {name}")
    for name in (*PUBLIC_ONLY, *APART, *DECLARATIONS):
        report.looks(not tree.sources(name), f"tests/tidy/tidy.py: there is no source in {name}, which it names")


def check_readmes(tree, report):
    folders = {path.parent for path in tree.paths if path.suffix in (*SOURCES, ".py")}
    for folder in sorted(folders):
        covered = [folder, *folder.parents]
        depth = 3 if str(folder).startswith("tests") else 2
        report.looks(not any(tree.has(f / "README.md") for f in covered[:depth] if str(f) != "."),
                     f"{folder}: neither it nor the folder above has a README.md")


def algorithm_files(tree):
    """Files of algorithms are called after their collective, so with an underscore."""
    return [path for path in tree.paths if within(path, ["algorithms"]) and re.fullmatch(r"\w+_\w+\.cpp", path.name)]


def check_registry(tree, report):
    """Every algorithm that is defined is a line of the registry, and the other way round."""
    registry = pathlib.Path("algorithms/registry.cpp")
    listed = set(re.findall(r"^\s*X\((\w+), (k\w+)\)", tree.text(registry), re.M)) if registry in tree.paths else set()
    defined = set()
    for path in algorithm_files(tree):
        names = re.findall(r"\bAlgorithm (k\w+)\s*[={]", tree.text(path))
        report.looks(not names, f"{path}: defines no algorithm")
        for name in names:
            defined.add((path.stem, name))
            report.looks((path.stem, name) not in listed, f"{path}: {name} is not in registry.cpp")
    for stem, name in sorted(listed - defined):
        report.looks(True, f"{registry}: {name} is not defined in {stem}.cpp")


def check_table(tree, report):
    """Every algorithm has its row, under its collective, and every row an algorithm."""
    readme = pathlib.Path("algorithms/README.md")
    rows, collective = set(), ""
    for _, line in tree.lines(readme) if readme in tree.paths else ():
        if found := re.match(r"\| (\w*) ?\| ((?:`\w+`(?:, )?)+) \|", line):
            collective = found[1] or collective
            rows.update((collective, name) for name in re.findall(r"`(\w+)`", found[2]))
    defined = set()
    for path in algorithm_files(tree):
        text = tree.text(path)
        collectives = re.findall(r"\.collective = Collective::(\w+)", text)
        names = re.findall(r'\.name = "(\w+)"', text)
        report.looks(not names or len(names) != len(collectives),
                     f"{path}: algorithms have a .collective and a .name, these {len(collectives)} and {len(names)}")
        for row in zip(collectives, names):
            defined.add(row)
            report.looks(row not in rows, f"{readme}: no row for {row[0]} {row[1]} of {path.name}")
    for collective, name in sorted(rows - defined):
        report.looks(True, f"{readme}: there is no {collective} {name}")


def named_paths(tree, page):
    """(line number, path) of what a page names in backquotes: paths from the top of the tree, sources by their names."""
    tops = {path.parts[0] for path in tree.paths if len(path.parts) > 1}
    for number, line in tree.lines(page):
        for word in re.findall(r"`([\w./{},*-]+)`", line):
            if ("/" in word and word.split("/")[0] in tops) or re.fullmatch(r"[\w{},*-]+\.[hc]pp", word):
                yield number, word


def expand(pattern):
    """src/{a,b}.hpp -> src/a.hpp, src/b.hpp"""
    found = re.match(r"(.*?)\{([^}]*)\}(.*)", pattern)
    return [e for one in found[2].split(",") for e in expand(found[1] + one + found[3])] if found else [pattern]


def check_named_paths(tree, report):
    """What pages name is there."""
    names = {path.name for path in tree.paths}
    known = {str(path) for path in tree.paths} | {str(folder) for path in tree.paths for folder in path.parents}
    for page in (path for path in tree.paths if path.suffix == ".md"):
        for number, word in named_paths(tree, page):
            for name in expand(word.rstrip("/")):
                there = known if "/" in word else names
                report.looks(not fnmatch.filter(there, name) and not fnmatch.filter(there, name + ".*"),
                             f"{page}:{number}: there is no {name}")


def text_files(tree):
    return [path for path in tree.paths if path.suffix in (*SOURCES, ".py") or path.name == "meson.build"]


def check_length(tree, report):
    for path in text_files(tree):
        if not within(path, ["tests"]):
            lines = len(tree.text(path).splitlines())
            report.looks(lines > MOST_LINES, f"{path}: {lines} lines; does it hold one idea? (at most {MOST_LINES})")


def check_width(tree, report):
    for path in tree.sources():
        for number, line in tree.lines(path):
            report.looks(len(line) > MOST_COLUMNS, f"{path}:{number}: {len(line)} columns")


def check_marks(tree, report):
    for path in text_files(tree):
        if str(path) == "tests/tidy/tidy.py":
            continue
        for number, line in tree.lines(path):
            report.looks(re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line), f"{path}:{number}: unfinished work is marked here")


def check_types(tree, report):
    """Two types of one name in one namespace share their members' code: the linker keeps one of each.

    In unnamed namespaces each folder has its own: the checks compile several of a folder's sources as one."""
    where = {}
    for path in tree.sources(*LAYERED):
        namespaces = []
        for _, line in tree.lines(path):
            if found := re.match(r"namespace ([\w:]*) ?\{", line):
                namespaces.append(found[1])
            elif line.startswith("}  // namespace") and namespaces:
                namespaces.pop()
            elif found := re.match(r"(?:struct|class) (\w+)(?: final)?(?: : .*)? \{", line):
                folder = f"{path.parent}: " if "" in namespaces else ""
                where.setdefault(folder + "::".join([n for n in namespaces if n] + [found[1]]), set()).add(str(path))
    for name, paths in sorted(where.items()):
        report.looks(len(paths) > 1, f"{name} is defined in {' and in '.join(sorted(paths))}")


TOLD_OF_OTHERS = ("NoMemory",)  # one rank says it of another
ERROR_OF = {"invalidArgument": 4, "invalidUsage": 5, "remoteError": 6, "timeoutError": 8, "internalError": 3, "systemError": 2, "errnoError": 2}


def arguments_at(text, start):
    """What is between the parenthesis before `start` and its partner."""
    depth, quoted, at = 1, False, start
    while depth and at < len(text):
        if text[at] == '"' and text[at - 1] not in "\\'":
            quoted = not quoted
        elif not quoted:
            depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return " ".join(text[start:at - 1].split())


def error_codes(tree):
    return {name: int(number) // 1000 for path in tree.paths if path.suffix == ".def"
            for number, name in re.findall(r"TUTTI_ERROR\(\s*(\d+), (\w+),", tree.text(path))}


def check_error_codes(tree, report):
    """An error names its kind, of the result that it has, or passes on another's text with the code in it."""
    codes = error_codes(tree)
    for path in tree.sources(*LAYERED):
        if path.name in ("status.hpp", "status.cpp") or is_public_only(path):
            continue
        for found in re.finditer(r"(?<![\w.])(" + "|".join(ERROR_OF) + r")\(", tree.text(path)):
            said = arguments_at(tree.text(path), found.end())
            where = f"{path}:{tree.text(path).count(chr(10), 0, found.start()) + 1}"
            kind = re.match(r"(?:\w+(?:\.\w+\(\))?, )?ErrorCode::(\w+)" if found[1] == "errnoError" else r"ErrorCode::(\w+)", said)
            if kind and kind[1] in codes:
                report.looks(codes[kind[1]] != ERROR_OF[found[1]] and kind[1] not in TOLD_OF_OTHERS,
                             f"{where}: {found[1]} has not the result of ErrorCode::{kind[1]}")
            else:
                report.looks(not re.match(r"kind\w*,", said) and ".text()" not in said,
                             f"{where}: {found[1]} names no kind of src/base/errors/*.def")


CHECKS = (check_include_paths, check_public_only, check_layers, check_owners, check_readmes, check_registry, check_table,
          check_named_paths, check_length, check_width, check_marks, check_types, check_error_codes)


def complaints_of(tree, checks=CHECKS):
    complaints = []
    for check in checks:
        report = Report()
        check(tree, report)
        complaints += report.complaints
        if report.looked == 0:
            complaints.append(f"tests/tidy/tidy.py: {check.__name__} found nothing to look at")
    return complaints


def main():
    top = pathlib.Path(__file__).resolve().parents[2]
    names = subprocess.run(["git", "ls-files"], cwd=top, capture_output=True, text=True, check=True).stdout
    tree = Tree(top, [name for name in names.splitlines() if (top / name).exists()])
    complaints = complaints_of(tree)
    print("\n".join(complaints))
    print(f"{len(tree.paths)} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
