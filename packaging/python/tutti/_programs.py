"""The console scripts of the wheel: each becomes the program of its own name."""
import os
import pathlib
import sys

from ._find import find_program


def main():
    name = pathlib.Path(sys.argv[0]).name
    try:
        program = find_program(name)
    except FileNotFoundError as error:
        sys.exit(f"{name}: {error}")
    os.execv(program, [program, *sys.argv[1:]])
