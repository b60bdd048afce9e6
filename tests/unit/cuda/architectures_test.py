#!/usr/bin/env python3
"""Which architectures the build option gpu_archs stands for, by what nvcc knows: architectures_test.py ARCHITECTURES.PY"""
import pathlib
import subprocess
import sys
import tempfile

ROWS = [  # what nvcc knows, gpu_archs, what is compiled for, and what is told to be left out
    ('75 80 90 100 120', 'common', '75,80,90,100,120', ''),
    ('75 80 90 100 120', 'ends', '75,120', ''),
    ('50 75 80 86 90', 'common', '75,80,90', '100, 120'),
    ('50 75 80 86 90', 'ends', '75,90', '100, 120'),
    ('120', 'ends', '120', '75, 80, 90, 100'),
    ('75 80', '75,80', '75,80', ''),
]
failed = []
with tempfile.TemporaryDirectory() as folder:
    for known, wanted, kept, left in ROWS:
        nvcc = pathlib.Path(folder) / 'nvcc'
        nvcc.write_text('#!/bin/sh\nprintf "compute_%s\\n" ' + known + '\n')
        nvcc.chmod(0o755)
        said = subprocess.run([sys.executable, sys.argv[1], str(nvcc), wanted], capture_output=True, text=True).stdout
        expected = f"{kept}\n{left + ', which this nvcc does not know' if left else ''}\n"
        if said != expected:
            failed.append(f'{wanted} of an nvcc for {known}: {said!r}, not {expected!r}')
sys.exit('\n'.join(failed) or 0)
