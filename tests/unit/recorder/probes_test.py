#!/usr/bin/env python3
"""libtutti.so has the USDT probes that docs/diagnosis.md names, with as many arguments: probes_test.py READELF LIBRARY"""
import re
import subprocess
import sys
from pathlib import Path

ARGUMENTS = {"call_begin": 4, "call_end": 3}


def main():
    readelf, library = sys.argv[1:]
    notes = subprocess.run([readelf, "-n", library], capture_output=True, text=True, check=True).stdout
    probes = re.findall(r"Provider: tutti\s+Name: (\w+)\s+Location: [^\n]*\s+Arguments: ([^\n]*)", notes)
    there = {name: len(arguments.split()) for name, arguments in probes}
    told = set(re.findall(r"`tutti:(\w+)`", (Path(__file__).resolve().parents[3] / "docs/diagnosis.md").read_text()))
    wrong = [f"{name}: {there.get(name, 'no')} arguments" for name, n in ARGUMENTS.items() if there.get(name) != n]
    wrong += [f"docs/diagnosis.md does not name {name}" for name in sorted(set(ARGUMENTS) - told)]
    print("\n".join(wrong) or f"{len(probes)} places of {len(there)} probes")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
