#!/usr/bin/env python3
"""The scripts of tools/clients as far as they go without a GPU: each compiles, `symbols` finds what is missing and nothing
else, and `cupy` passes on host memory, or says why it is skipped.
usage: clients_test.py SOURCE BUILD COMPILER..."""
import os
import subprocess
import sys
import tempfile

MISSING = "int ncclFrobnicate(void); int ncclGetVersion(int*); int f(void) { return ncclFrobnicate() + ncclGetVersion(0); }\n"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    return done.returncode, done.stdout + done.stderr


def check_scripts(folder, complain):
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if not name.endswith(".py") and "python3" not in text.split("\n", 1)[0]:
            continue
        try:
            compile(text, path, "exec")
        except SyntaxError as error:
            complain(f"{path}: {error}")


def check_symbols(symbols, source, build, compiler, complain):
    client = os.path.join(build, "tests/nccl/nccl_torch_client")
    status, said = run(symbols, build, client, os.path.join(source, "tests/nccl/ctypes_test.py"))
    if status != 0 or said.count("missing: none") != 2 or " 0 undefined, 0 looked up" in said:
        complain(f"programs that refer to nothing that is missing: {status}\n{said}")
    with tempfile.TemporaryDirectory() as folder:
        text, library = os.path.join(folder, "client.c"), os.path.join(folder, "client.so")
        with open(text, "w", encoding="utf-8") as file:
            file.write(MISSING)
        subprocess.run([*compiler, "-shared", "-fPIC", "-o", library, text], check=True)
        status, said = run(symbols, build, folder)
        if status != 1 or "2 undefined" not in said or "missing: ncclFrobnicate" not in said:
            complain(f"a program that refers to what is missing: {status}\n{said}")
        if run(symbols, folder, library)[0] != 2:
            complain("a build folder without a library is taken")


def check_cupy(cupy, build, complain):
    status, said = run(sys.executable, cupy, "--build", build, "--memory", "host", "--worlds", "1,3")
    print(said, end="")
    if (status == 77) != said.startswith("skipped cupy: ") or status not in (0, 77):
        complain(f"cupy: {status}\n{said}")


def main():
    source, build, *compiler = sys.argv[1:]
    clients, complaints = os.path.join(source, "tools/clients"), []
    check_scripts(clients, complaints.append)
    check_symbols(os.path.join(clients, "symbols"), source, build, compiler, complaints.append)
    check_cupy(os.path.join(clients, "cupy"), build, complaints.append)
    print("\n".join(complaints))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
