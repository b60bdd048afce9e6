#!/usr/bin/env python3
"""What a page shows of a program is what it prints.  usage: shown_test.py PROGRAM PAGE [FOLDER]

A line `    $ PROGRAM ...` is run, with those that it goes on in; the lines after it, up to an empty one, must be the first
ones printed.  `...` ends the comparison, at the end of a line that of the line."""
import os
import shlex
import subprocess
import sys


def shown(page, name):
    """Yields (arguments, lines) of every command."""
    lines = open(page, encoding="utf-8").read().splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(f"    $ {name} "):
            continue
        rest = lines[number + 1:]
        while line.endswith("\\"):
            line = line[:-1] + rest.pop(0)
        output = []
        for following in rest:
            if not following.startswith("    ") or following.strip() == "...":
                break
            output.append(following[4:])
        yield shlex.split(line[len(f"    $ {name} "):]), output


def same(shown_line, printed_line):
    if shown_line.endswith("..."):
        return printed_line.startswith(shown_line[:-len("...")])
    return shown_line.rstrip() == printed_line.rstrip()


def main():
    program, page, folder = (sys.argv[1:] + ["."])[:3]
    name = os.path.basename(program)
    commands = list(shown(page, name))
    wrong = 0
    for arguments, expected in commands:
        run = subprocess.run([os.path.abspath(program), *arguments], capture_output=True, text=True, timeout=60, cwd=folder)
        printed = (run.stdout + run.stderr).splitlines()[:len(expected)]
        alike = len(printed) == len(expected) and all(map(same, expected, printed))
        if run.returncode != 0 or not alike or not expected:
            wrong += 1
            print(f"{name} {shlex.join(arguments)} (status {run.returncode})")
            print("  shown:   " + "\n           ".join(expected))
            print("  printed: " + "\n           ".join(printed))
    print(f"{len(commands)} commands of {page}, {wrong} print something else")
    return 1 if wrong or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
