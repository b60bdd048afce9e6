#!/usr/bin/env python3
"""What a page shows of tutti-info is what tutti-info prints.  usage: shown_test.py TUTTI_INFO PAGE [FOLDER]

A line `    $ tutti-info ...` is run; the lines after it, up to an empty one, must be the first ones printed, `...` ends
the comparison."""
import os
import shlex
import subprocess
import sys


def shown(page):
    """Yields (arguments, lines) of every command."""
    lines = open(page, encoding="utf-8").read().splitlines()
    for number, line in enumerate(lines):
        if not line.startswith("    $ tutti-info "):
            continue
        output = []
        for following in lines[number + 1:]:
            if not following.startswith("    ") or following.strip() == "...":
                break
            output.append(following[4:])
        yield shlex.split(line[len("    $ tutti-info "):]), output


def main():
    program, page, folder = (sys.argv[1:] + ["."])[:3]
    commands = list(shown(page))
    wrong = 0
    for arguments, expected in commands:
        run = subprocess.run([os.path.abspath(program), *arguments], capture_output=True, text=True, timeout=60, cwd=folder)
        printed = (run.stdout + run.stderr).splitlines()[:len(expected)]
        if run.returncode != 0 or printed != expected or not expected:
            wrong += 1
            print(f"tutti-info {shlex.join(arguments)} (status {run.returncode})")
            print("  shown:   " + "\n           ".join(expected))
            print("  printed: " + "\n           ".join(printed))
    print(f"{len(commands)} commands of {page}, {wrong} print something else")
    return 1 if wrong or not commands else 0


if __name__ == "__main__":
    sys.exit(main())
