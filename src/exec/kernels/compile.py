#!/usr/bin/env python3
"""Compiles kernels and keeps what ptxas says of them: compile.py USAGE NVCC ARGUMENTS..."""
import pathlib
import subprocess
import sys

usage, *command = sys.argv[1:]
done = subprocess.run(command + ['-Xptxas', '-v'], stderr=subprocess.PIPE, text=True)
said = done.stderr.splitlines()
pathlib.Path(usage).write_text('\n'.join(line for line in said if line.startswith('ptxas info')
                                         or 'bytes stack frame' in line) + '\n')
others = [line for line in said if not line.startswith('ptxas info') and 'bytes stack frame' not in line]
print('\n'.join(others), end='\n' if others else '', file=sys.stderr)
sys.exit(done.returncode)
