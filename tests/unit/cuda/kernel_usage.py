#!/usr/bin/env python3
"""What ptxas says of the kernels: kernel_usage.py USAGE...

Prints a line for each kernel and architecture.  Fails if one keeps anything in local memory, which is slow and shows
that an array is indexed by what the compiler does not know: a spilled register or a stack frame.
"""
import pathlib
import re
import sys

rows, bad = [], []
for name in sys.argv[1:]:
    kernel = arch = None
    frame = (0, 0, 0)
    for line in pathlib.Path(name).read_text().splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            kernel, arch = found.groups()
        elif found := re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', line):
            frame = tuple(map(int, found.groups()))
        elif found := re.search(r'Used (\d+) registers', line):
            rows.append((kernel, arch, int(found[1]), *frame))
            if any(frame):
                bad.append(kernel)
print('kernel                            arch     registers  stack  spilled')
for kernel, arch, registers, stack, stores, loads in sorted(rows):
    print(f'{kernel:<33} {arch:<8} {registers:>9} {stack:>6} {stores + loads:>8}')
if not rows:
    sys.exit('there is nothing about any kernel')
if bad:
    sys.exit('in local memory: ' + ', '.join(bad))
