#!/usr/bin/env python3
"""libnccl.so.2 as a file: its symbols, its name, what it needs, and that it loads where there is no GPU.
usage: library_test.py LIBRARY SYMBOLS_TXT HEADER"""
import collections
import ctypes
import os
import re
import subprocess
import sys

# The C and C++ run time, and Tutti; nothing of CUDA's.
MAY_NEED = re.compile(r"lib(tutti|stdc\+\+|gcc_s|c|m|pthread|dl|rt)\.so\.\d+$|ld-linux.*")


def listed(path):
    names = collections.defaultdict(set)
    for line in open(path, encoding="utf-8"):
        if line.strip() and not line.startswith("#"):
            key, *rest = line.split()
            names[key].update(rest)
    return names


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_symbols(library, names, complain):
    exported = {}
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        exported[name] = kind
    versions = [v for v in names if v[0].isdigit()]
    expected = {"ncclResetDebugInitInternal": "T"}
    for name in set().union(*(names[v] for v in versions)):
        expected["nccl" + name], expected["pnccl" + name] = "W", "T"
    for name in sorted(expected.keys() | exported.keys()):
        if expected.get(name) != exported.get(name):
            complain(f"{name} is {exported.get(name, 'not exported')}, should be {expected.get(name, 'absent')}")
    if 2 * len(names["2.28.9"]) + 1 != 105:
        complain(f"NCCL 2.28.9 has 105 symbols, the list has {2 * len(names['2.28.9']) + 1}")
    for client in names.keys() - set(versions):
        for name in names[client]:
            if "nccl" + name not in exported:
                complain(f"{client} refers to nccl{name}")


def check_header(header, names, complain):
    declared = set(re.findall(r"TUTTI_NCCL_FUNCTION\([^,]+, (\w+),", open(header, encoding="utf-8").read()))
    declared.discard("name")  # of the macro's definition
    in_device_header = {n for n in names["2.28.9"]
                        if n.startswith(("Team", "DevComm", "LLA2A", "LsaBarrier", "GinBarrier"))}
    for name in declared ^ (names["2.28.9"] - in_device_header):
        complain(f"nccl{name}: the header and the list of symbols differ")


def check_needed(library, complain):
    dynamic = run("readelf", "-dW", library)
    soname = re.findall(r"SONAME.*\[(.*)\]", dynamic)
    if soname != ["libnccl.so.2"]:
        complain(f"SONAME is {soname}")
    needed = re.findall(r"NEEDED.*\[(.*)\]", dynamic)
    for name in needed:
        if not MAY_NEED.match(name):
            complain(f"needs {name}")
    if "libtutti.so.0" not in needed:
        complain("does not need libtutti.so.0")


def check_load(library, complain):
    """Without TUTTI_DEVICE=host ranks are on CUDA devices, and there are none: as NCCL says it."""
    os.environ.pop("TUTTI_DEVICE", None)
    nccl = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclGetErrorString.restype = ctypes.c_char_p
    version, identity = ctypes.c_int(), ctypes.create_string_buffer(128)
    if nccl.ncclGetVersion(ctypes.byref(version)) != 0 or version.value != 22809:
        complain(f"ncclGetVersion says {version.value}")
    if nccl.ncclGetUniqueId(identity) != 0:
        complain("ncclGetUniqueId fails without a GPU")
    comm, memory = ctypes.c_void_p(1), ctypes.c_void_p(1)
    for what, result in (("ncclCommInitAll", nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)),
                         ("ncclMemAlloc", nccl.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(64)))):
        text = nccl.ncclGetLastError(None).decode()
        if result != 1 or "CUDA" not in text:
            complain(f"{what} without a GPU gives {result}: {text}")
    if comm.value is not None or memory.value is not None:
        complain("a call that failed has left something")
    for code in range(10):
        if not nccl.ncclGetErrorString(code):
            complain(f"no text for result {code}")


def main():
    library, symbols, header = sys.argv[1:]
    complaints = []
    names = listed(symbols)
    check_symbols(library, names, complaints.append)
    check_header(header, names, complaints.append)
    check_needed(library, complaints.append)
    check_load(library, complaints.append)
    print("\n".join(complaints))
    print(f"{library}: {os.path.getsize(library)} bytes, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
