#!/usr/bin/env python3
"""What ptxas says of the kernels, and what takes room in libraries: kernel_usage.py USAGE... [FATBIN...] [LIBRARY...]

    python3 tests/unit/cuda/kernel_usage.py build/src/*/kernels/*.{usage,fatbin} build/packaging/libtutti.so.0.1.0

Prints a line for each kernel, with the registers for each architecture of the build's option gpu_archs, the sizes of
files of kernels (*.fatbin, compressed, as they are in the library), and a library's largest sections.  Fails if one keeps
anything in local memory, which is slow and shows that an array is indexed by what the compiler does not know: a spilled
register or a stack frame.
"""
import pathlib
import re
import subprocess
import sys


def print_sections(library):
    listed = subprocess.run(['readelf', '-SW', library], capture_output=True, text=True, check=True).stdout
    sections = re.findall(r'\] (\.\S+)\s+\S+\s+\w+ \w+ (\w+)', listed)
    largest = sorted(((int(size, 16), name) for name, size in sections if name != '.bss'), reverse=True)[:6]
    print(f'{pathlib.Path(library).name}: {pathlib.Path(library).stat().st_size} bytes: '
          + ', '.join(f'{name} {size}' for size, name in largest))


rows, bad, empty = [], [], []
usages = [name for name in sys.argv[1:] if name.endswith('.usage')]
for name in usages:
    kernel = arch = None
    frame = (0, 0, 0)
    known = len(rows)
    for line in pathlib.Path(name).read_text().splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            kernel, arch = found.groups()
        elif found := re.search(r'(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads', line):
            frame = tuple(map(int, found.groups()))
        elif found := re.search(r'Used (\d+) registers', line):
            shared = re.search(r'(\d+) bytes smem', line)
            rows.append((kernel, arch, int(found[1]), int(shared[1]) if shared else 0, *frame))
            if any(frame):
                bad.append(kernel)
    if len(rows) == known:
        empty.append(name)
archs = sorted({row[1] for row in rows}, key=lambda arch: int(arch[3:]))
print(f'{"kernel":<33}', *(f'{arch:>6}' for arch in archs), ' shared  stack  spilled')
for kernel in sorted({row[0] for row in rows}):
    of = {row[1]: row[2:] for row in rows if row[0] == kernel}
    _, shared, stack, stores, loads = map(max, zip(*of.values()))
    print(f'{kernel:<33}', *(f'{of[arch][0] if arch in of else "-":>6}' for arch in archs),
          f'{shared:>7} {stack:>6} {stores + loads:>8}')
for name in sys.argv[1:]:
    if name.endswith('.fatbin'):
        print(f'{pathlib.Path(name).name}: {pathlib.Path(name).stat().st_size} bytes')
    elif name not in usages:
        print_sections(name)
if empty or not rows:
    sys.exit('there is nothing about any kernel in ' + (', '.join(empty) or 'what was given'))
if bad:
    sys.exit('in local memory: ' + ', '.join(bad))
