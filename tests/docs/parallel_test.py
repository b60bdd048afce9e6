#!/usr/bin/env python3
"""Compiles and runs the examples of docs/parallel inside parallel_examples.c, each as it stands on its page.
usage: parallel_test.py PROGRAM_C DOCS_DIR TUTTI_RUN INCLUDE_DIR LIBRARY PARALLEL_LIBRARY [CC...]

Block number k of PAGE.md becomes PAGE_k.inc; checked.h makes every call of the library that occurs end the program if it
fails.  Exit status 0: every example is used, compiles, and does what the program expects of it.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```c\n(.*?)^```$", re.M | re.S)
RETURNS_RESULT = re.compile(r"TUTTI_API tuttiResult_t (tutti\w+)\(")


def main():
    program, docs, run, include, library, parallel, *cc = sys.argv[1:]
    with open(program) as f:
        text = f.read()
    with tempfile.TemporaryDirectory() as folder:
        unused = 0
        for page in sorted(glob.glob(os.path.join(docs, "*.md"))):
            name = os.path.splitext(os.path.basename(page))[0]
            with open(page) as f:
                blocks = BLOCK.findall(f.read())
            if not blocks and name != "README":
                print(f"{name}.md has no example")
                unused += 1
            for number, block in enumerate(blocks, 1):
                part = f"{name}_{number}.inc"
                if f'<{part}>' not in text:
                    print(f"{part} is not used")
                    unused += 1
                with open(os.path.join(folder, part), "w") as f:
                    f.write(block)
        names = set()
        for header in glob.glob(os.path.join(include, "tutti", "parallel", "*.h")):
            with open(header) as f:
                names.update(RETURNS_RESULT.findall(f.read()))
        with open(os.path.join(folder, "checked.h"), "w") as f:
            f.writelines(f'#define {n}(...) must((&{n})(__VA_ARGS__), "{n}")\n' for n in sorted(names))
        binary = os.path.join(folder, "examples")
        paths = [f"-Wl,-rpath,{os.path.dirname(os.path.abspath(path))}" for path in (library, parallel)]
        subprocess.run([*(cc or ["cc"]), "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-Wno-maybe-uninitialized", "-pthread",
                        "-I", include, "-I", folder, program, "-o", binary, parallel, library, *paths, "-lm"], check=True)
        subprocess.run([run, "-n", "4", binary], check=True, timeout=240, env=dict(os.environ, TUTTI_TIMEOUT_MS="60000"))
        return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
