#!/usr/bin/env python3
"""What a page shows of a program is what the program prints.  usage: shown_test.py PROGRAM PAGE [FOLDER]

A line `    $ PROGRAM ...` is run, with the next line if it ends with a backslash.  The lines after it, up to an empty one, must
be the first ones printed.  A line `...` ends the comparison, and `...` at the end of a line leaves out the rest of it."""
import os
import shlex
import subprocess
import sys


def shown(page, name):
    """Yields (arguments, lines) of every command of the program with that name."""
    lines = iter(open(page, encoding="utf-8").read().replace("\\\n    ", "").splitlines())
    for line in lines:
        if not line.startswith(f"    $ {name} "):
            continue
        output = []
        for following in lines:
            if not following.startswith("    ") or following.strip() == "...":
                break
            output.append(following[4:])
        yield shlex.split(line[len(f"    $ {name} "):]), output


def same(printed, expected):
    """Whether the lines are the shown ones."""
    return len(printed) == len(expected) and all(
        line.startswith(shown[:-3]) if shown.endswith("...") else line.rstrip() == shown.rstrip()
        for line, shown in zip(printed, expected))


def main():
    program, page, folder = (sys.argv[1:] + ["."])[:3]
    name = os.path.basename(program)
    commands = list(shown(page, name))
    wrong = 0
    for arguments, expected in commands:
        run = subprocess.run([os.path.abspath(program), *arguments], capture_output=True, text=True, timeout=60, cwd=folder)
        printed = (run.stdout + run.stderr).splitlines()[:len(expected)]
        if run.returncode != 0 or not same(printed, expected) or not expected:
            wrong += 1
            print(f"{name} {shlex.join(arguments)} (status {run.returncode})")
            print("  shown:   " + "\n           ".join(expected))
            print("  printed: " + "\n           ".join(printed))
    print(f"{len(commands)} commands of {page}, {wrong} print something else")
    return 1 if wrong or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
