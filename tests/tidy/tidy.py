#!/usr/bin/env python3
"""Reads the tree itself: who includes whom, one README per folder, every algorithm in its table, short files."""
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
MOST_LINES = 450

# What each folder may include, besides itself, src/base and include/tutti.
MAY_INCLUDE = {
    "src/base": set(),
    "src/device": set(),
    "src/schedule": set(),
    "transport": set(),
    "transport/self": {"transport"},
    "transport/shm": {"transport", "src/device"},
    "transport/tcp": {"transport"},
    "transport/sim": {"transport", "src/bootstrap"},
    "transport/cuda": {"transport", "src/device"},
    "algorithms": {"src/schedule", "src/plan"},
    "src/exec": {"src/schedule", "transport", "src/device"},
    "src/bootstrap": {"transport"},
    "src/walk": {"src/schedule"},
    "src/plan": {"algorithms", "src/schedule", "src/topology", "src/exec", "src/walk"},
    "src/topology": set(),
    "src/import": {"src/schedule"},
    "src/sim": {"src/schedule", "src/topology", "algorithms", "src/walk"},
    "src/comm": {"src/bootstrap", "src/plan", "src/exec", "src/schedule", "src/device", "transport", "transport/self",
                 "transport/shm", "transport/tcp", "transport/cuda", "algorithms", "src/topology", "src/import"},
    "src/api": {"src/comm", "src/bootstrap", "src/device"},
    "perf/common": set(),
}
# Parts that are written on the public header alone.
APART = ("perf/micro", "perf/oracle", "perf/ways", "perf/gpu")  # but not these
# ... nor these headers, which declare what others define: of the CUDA driver, and of kernel source.
DECLARATIONS = ("src/device/cuda_abi.hpp", "src/exec/kernels/team.hpp")
PUBLIC_ONLY = ("perf", "examples", "tools/run", "src/parallel", "src/nccl")


def files():
    names = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    return [pathlib.Path(name) for name in names.splitlines() if (TOP / name).exists()]


def folder_of(path):
    parent = str(path.parent)
    while parent not in MAY_INCLUDE and "/" in parent:
        parent = parent.rsplit("/", 1)[0]
    return parent


def check_includes(path, complaints):
    if path.suffix not in (".cpp", ".hpp", ".h", ".c", ".inc"):
        return
    owner = folder_of(path)
    for number, line in enumerate((TOP / path).read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not found:
            continue
        target = found.group(1)
        if target.startswith("tutti/") or target.startswith("hwy/"):
            continue
        if not (TOP / target).exists():
            complaints.append(f"{path}:{number}: includes {target}, which is not a path from the top of the tree")
            continue
        if str(path).startswith(PUBLIC_ONLY) and not str(path).startswith(APART):
            folder = "/".join(path.parts[:2]) + "/"
            own = folder.startswith("src/") and (target.startswith(folder) or target in DECLARATIONS)
            if target.startswith(("src/", "transport/", "algorithms/")) and not own:
                complaints.append(f"{path}:{number}: is written on tutti.h alone and may not include {target}")
            continue
        if owner not in MAY_INCLUDE:
            continue
        goal = folder_of(pathlib.Path(target))
        if goal not in MAY_INCLUDE[owner] | {owner, "src/base"}:
            complaints.append(f"{path}:{number}: {owner} may not include {goal}")


def check_readmes(paths, complaints):
    folders = {path.parent for path in paths if path.suffix in (".cpp", ".hpp", ".h", ".c", ".py")}
    for folder in sorted(folders):
        covered = [folder, *folder.parents]
        depth = 3 if str(folder).startswith("tests") else 2
        if not any((TOP / f / "README.md").exists() for f in covered[:depth] if str(f) != "."):
            complaints.append(f"{folder}: neither it nor the folder above has a README.md")


def check_algorithms(complaints):
    table = (TOP / "algorithms/README.md").read_text()
    registry = (TOP / "algorithms/registry.cpp").read_text()
    for path in sorted((TOP / "algorithms").glob("*.cpp")):
        for name in re.findall(r"^(?:extern )?const Algorithm (k\w+)", path.read_text(), re.M):
            if path.name != "registry.cpp" and f"&{name}" not in registry:
                complaints.append(f"algorithms/{path.name}: {name} is not in registry.cpp")
    for path in sorted((TOP / "algorithms").glob("*_*.cpp")):
        for name in re.findall(r'\.name = "([a-z0-9]+)"', path.read_text()):
            if f"`{name}`" not in table and f"| {name} " not in table:
                complaints.append(f"algorithms/README.md: no row for {name} of {path.name}")


def check_text(path, complaints):
    if path.suffix not in (".cpp", ".hpp", ".h", ".c", ".py") and path.name not in ("meson.build",):
        return
    lines = (TOP / path).read_text().splitlines()
    if len(lines) > MOST_LINES and not str(path).startswith("tests/"):
        complaints.append(f"{path}: {len(lines)} lines; does it hold one idea? (at most {MOST_LINES})")
    for number, line in enumerate(lines, 1):
        if len(line) > 120 and path.suffix != ".py" and path.name != "meson.build":
            complaints.append(f"{path}:{number}: {len(line)} columns")
        if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", line) and path.name != "tidy.py":
            complaints.append(f"{path}:{number}: unfinished work is marked here")


def check_types(paths, complaints):
    """Two types of one name in one namespace share their members' code: the linker keeps one of each.

    In unnamed namespaces each folder has its own: the checks compile several of a folder's sources as one."""
    where = {}
    for path in paths:
        if path.suffix not in (".cpp", ".hpp") or not str(path).startswith(("src/", "algorithms/", "transport/")):
            continue
        namespaces = []
        for line in (TOP / path).read_text().splitlines():
            if found := re.match(r"namespace ([\w:]*) ?\{", line):
                namespaces.append(found[1])
            elif line.startswith("}  // namespace") and namespaces:
                namespaces.pop()
            elif (found := re.match(r"(?:struct|class) (\w+)(?: final)?(?: : .*)? \{", line)):
                folder = f"{path.parent}: " if "" in namespaces else ""
                where.setdefault(folder + "::".join([n for n in namespaces if n] + [found[1]]), set()).add(str(path))
    for name, files in sorted(where.items()):
        if len(files) > 1:
            complaints.append(f"{name} is defined in {' and in '.join(sorted(files))}")


def main():
    complaints = []
    paths = files()
    for path in paths:
        check_includes(path, complaints)
        check_text(path, complaints)
    check_readmes(paths, complaints)
    check_algorithms(complaints)
    check_types(paths, complaints)
    print("\n".join(complaints))
    print(f"{len(paths)} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
