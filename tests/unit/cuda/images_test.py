#!/usr/bin/env python3
"""Every GPU that CUDA 13 knows finds code in the kernels' files: images_test.py ARCHS FATBIN...

By the driver's rules (CUDA C++ Programming Guide, "Binary Compatibility" and "PTX Compatibility"): a binary for X.y serves
X.z with z >= y, and PTX for X.y every later version.
"""
import pathlib
import struct
import sys

# Compute capability and what has it.
GPUS = [(75, 'T4'), (80, 'A100'), (86, 'A10, RTX 30'), (89, 'L4, RTX 40'), (90, 'H100, H200'), (100, 'B200'),
        (103, 'B300'), (110, 'Thor'), (120, 'RTX 50'), (121, 'Spark')]


BINARY, PTX = 2, 1  # kinds of a part


def parts(fatbin):
    """(kind, architecture) of what a file of kernels holds.  A head of 16 bytes with the size of what follows; then parts,
    each with a head that begins with its kind, its own size and that of the code, and has the architecture at byte 28."""
    data = pathlib.Path(fatbin).read_bytes()
    magic, _, head, size = struct.unpack_from('<IHHQ', data)
    if magic != 0xba55ed50 or head + size > len(data):
        sys.exit(f'{fatbin} is no file of kernels')
    at, found = head, []
    while at < head + size:
        kind, _, own, code = struct.unpack_from('<HHIQ', data, at)
        found.append((kind, struct.unpack_from('<I', data, at + 28)[0]))
        at += own + code
    return found


def image(binaries, ptx, gpu):
    own = [arch for arch in binaries if arch // 10 == gpu // 10 and arch <= gpu]
    if own:
        return f'sm_{own[-1]}'
    older = [arch for arch in ptx if arch <= gpu]
    return f'PTX of {older[-1]}' if older else None


archs, *fatbins = sys.argv[1:]
wanted = [int(arch.rstrip('af')) for arch in archs.split(',')]
failed = []
for fatbin in fatbins:
    held = parts(fatbin)
    binaries = sorted(arch for kind, arch in held if kind == BINARY)
    ptx = sorted(arch for kind, arch in held if kind == PTX)
    for arch in wanted:
        if arch not in binaries or arch not in ptx:
            failed.append(f'{fatbin} has not both a binary and PTX for {arch}: {binaries}, {ptx}')
    for gpu, name in GPUS:
        found = image(binaries, ptx, gpu)
        if fatbin == fatbins[0]:
            print(f'{gpu / 10:>5} {name:<12} {found}')
        if found is None and gpu >= min(wanted):
            failed.append(f'{fatbin} has nothing for {name} ({gpu / 10})')
if not fatbins:
    failed.append('there are no kernels to look at')
if failed:
    sys.exit('\n'.join(failed))
