#!/usr/bin/env python3
"""What programs rely on of the shared libraries, by their ELF headers.
usage: libraries_test.py LIBRARY...

All symbols are bound at load and the library stays loaded; its thread-local variables fit into a process that loads it
late (no STATIC_TLS); it asks for no glibc newer than 2.34 and for no executable stack, and has no text relocations."""
import re
import subprocess
import sys

FLOOR = (2, 34)


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


def complaints(library):
    dynamic = readelf("-d", library)
    flags = " ".join(re.findall(r"\(FLAGS(?:_1)?\)\s+(.*)", dynamic))
    if "STATIC_TLS" in flags:
        yield "has STATIC_TLS: dlopen fails where a process has used up its reserve"
    if not re.search(r"BIND_NOW|\bNOW\b", flags):
        yield "binds symbols late"
    if "NODELETE" not in flags:
        yield "can be unloaded under its threads"
    if "TEXTREL" in dynamic:
        yield "has text relocations"
    if re.search(r"GNU_STACK\s.*RWE", readelf("-l", library)):
        yield "asks for an executable stack"
    newest = max((tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", readelf("-V", library))), default=(2, 0))
    if newest > FLOOR:
        yield f"asks for glibc {newest[0]}.{newest[1]}, newer than {FLOOR[0]}.{FLOOR[1]}"


found = [f"{library}: {complaint}" for library in sys.argv[1:] for complaint in complaints(library)]
print("\n".join(found) or f"{len(sys.argv) - 1} libraries are as programs expect")
sys.exit(1 if found else 0)
