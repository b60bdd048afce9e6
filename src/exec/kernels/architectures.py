#!/usr/bin/env python3
"""Architectures that kernels are compiled for: architectures.py NVCC WANTED

WANTED is `common`, `ends`, `native` or a list such as 75,80,90.  Prints the list on one line, and on the next what was left out
and why, or nothing.

common  one of each major version from Turing on.  A binary for X.y runs on every X.z with z >= y (CUDA C++ Programming
        Guide, "Binary Compatibility"), so that 80 serves A100, RTX 30, L4 and RTX 40, 100 B200 and B300.
ends    the oldest and the newest of these: what differs between architectures mostly lies between them, and compiling
        for two takes half the time.
native  those of this machine's GPUs, by nvidia-smi.
"""
import subprocess
import sys

COMMON = ['75', '80', '90', '100', '120']


def said_by(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ''


def architectures(nvcc, wanted):
    known = [line.strip().removeprefix('compute_') for line in said_by(nvcc, '--list-gpu-arch').splitlines()]
    ends_only = False
    if wanted == 'native':
        found = said_by('nvidia-smi', '--query-gpu=compute_cap', '--format=csv,noheader').split()
        wanted = sorted({cap.replace('.', '') for cap in found if cap.replace('.', '').isdigit()}, key=int)
        if not wanted:
            sys.exit('gpu_archs=native: nvidia-smi finds no GPU here; name architectures, or take common')
    elif wanted in ('common', 'ends'):
        ends_only, wanted = wanted == 'ends', COMMON
    else:
        wanted = [arch.strip() for arch in wanted.split(',')]
        if not all(arch.rstrip('af').isdigit() for arch in wanted):
            sys.exit(f"gpu_archs={','.join(wanted)} is not common, ends, native or a list such as 75,80,90")
        return wanted, []  # asked for by name: nvcc itself says what it does not know
    kept = [arch for arch in wanted if arch in known or not known]
    if not kept:
        sys.exit(f"this nvcc compiles for none of {', '.join(wanted)}, but for {', '.join(known)}; name some of those")
    left = [arch for arch in wanted if arch not in kept]
    return list(dict.fromkeys([kept[0], kept[-1]])) if ends_only else kept, left


if __name__ == '__main__':
    kept, left = architectures(sys.argv[1], sys.argv[2])
    print(','.join(kept))
    print(f"{', '.join(left)}, which this nvcc does not know" if left else '')
