#!/usr/bin/env python3
"""Man page and bash completion of a program, from what it says itself.

    manual.py PROGRAM SUMMARY VERSION MAN_PAGE COMPLETION

PROGRAM is run with --help. Its options are the lines of two blanks and a dash; deeper lines go on with the meaning."""
import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"^  (-[^\s,]+(?:, *-[^\s,]+)*)(.*)$")
NAME = re.compile(r"--?[A-Za-z][\w-]*")
CHOICES = re.compile(r"\{([^}]+)\}")
MEANING_COLUMN = 20  # at least; what stands further left begins something new


RANGE = re.compile(r"\b(?:INT|UINT|FLOAT):\w+ in \[(\S+) - (\S+)\]")
TOGETHER = re.compile(r" *\b(Needs|Excludes): ((?:--?[\w-]+ *)+)")


class Option:
    def __init__(self, names, rest):
        self.names = NAME.findall(names)
        value, _, meaning = rest.partition("  ")
        self.meaning = [meaning.strip()] if meaning.strip() else []
        choices = CHOICES.search(value)
        self.choices = choices.group(1).split(",") if choices else []
        self.conditions = [f"{word.lower()} {', '.join(others.split())}" for word, others in TOGETHER.findall(value)]
        self.conditions += [f"{least} to {most}" for least, most in RANGE.findall(value)]
        self.value = self.plain(TOGETHER.sub("", value)).strip()

    @staticmethod
    def plain(value):
        """What stands for the value, without the types of the library that reads command lines."""
        value = re.sub(r"TEXT:\{([^}]+)\}", lambda choices: choices[1].replace(",", "|"), value)
        return re.sub(r"\b(?:INT|UINT|FLOAT)\b", "NUMBER", RANGE.sub("NUMBER", value))

    def text(self):
        meaning = " ".join(self.meaning)
        return meaning + (f" ({'; '.join(self.conditions)})" if self.conditions else "")


def read_help(path, name):
    """The text of --help, what is said before the options, and these."""
    done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0 or not done.stdout.strip():
        sys.exit(f"manual.py: {path} --help ended with {done.returncode} and said '{done.stdout}{done.stderr}'")
    text = re.sub(rf"\S*/{re.escape(name)}\b", name, done.stdout)
    before, options = [], []
    for line in text.splitlines():
        match = OPTION.match(line)
        if match:
            options.append(Option(*match.groups()))
        elif options and len(line) - len(line.lstrip()) >= MEANING_COLUMN:
            options[-1].meaning.append(line.strip())
        elif not options and line.strip() != "Options:":
            before.append(line)
    return text, before, options


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in (".", "'") else text


def as_is(lines):
    return [".nf", *map(roff, lines), ".fi"]


def man_page(name, summary, version, text, before, options):
    page = [f'.TH "{name.upper()}" 1 "" "Tutti {version}" "Tutti"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}"]
    # A program that writes its help as lines of usage alone says everything there.
    lines = [line for line in (before if options else text.splitlines()) if line.strip()]
    usage = [re.sub(r"^usage: *", "", line, flags=re.I) for line in lines if re.match("usage:", line, re.I)]
    described = [line for line in lines if usage and not re.match("usage:", line, re.I)]
    for number, line in enumerate(described):
        if own := re.match(rf"(.*): ({re.escape(name)} .+)", line):  # a better one than the library's
            described[number], usage = own[1], [own[2]]
    page += [".SH SYNOPSIS", *as_is(usage or lines)]
    if described:
        page += [".SH DESCRIPTION", *as_is(described)]
    if options:
        page.append(".SH OPTIONS")
    for option in options:
        names = ", ".join(f"\\fB{roff(one)}\\fR" for one in option.names)
        value = f" \\fI{roff(option.value)}\\fR" if option.value else ""
        page += [".TP", names + value, roff(option.text()) or "\\&"]
    page += [".SH SEE ALSO", "\\fBtutti\\-info \\-\\-config\\fR lists the environment variables.",
             "The documents are in \\fIshare/doc/tutti\\fR."]
    return "\n".join(page) + "\n"


def completion(name, text, options):
    function = "_" + re.sub(r"\W", "_", name)
    names = [one for option in options for one in option.names] or sorted(set(re.findall(r"--[a-z][\w-]+", text)))
    cases = [f'    {"|".join(o.names)}) COMPREPLY=($(compgen -W "{" ".join(o.choices)}" -- "$word")); return ;;'
             for o in options if o.choices]
    lines = [f"# bash completion of {name}", f"{function}() {{",
             "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}"]
    lines += ["  case $before in", *cases, "  esac"] if cases else []
    lines += [f'  [[ $word != -* ]] || COMPREPLY=($(compgen -W "{" ".join(names)}" -- "$word"))', "}",
              f"complete -o default -F {function} {name}"]
    return "\n".join(lines) + "\n"


def main():
    path, summary, version, page, completions = sys.argv[1:]
    name = pathlib.Path(path).name
    text, before, options = read_help(path, name)
    pathlib.Path(page).write_text(man_page(name, summary, version, text, before, options))
    pathlib.Path(completions).write_text(completion(name, text, options))


if __name__ == "__main__":
    main()
