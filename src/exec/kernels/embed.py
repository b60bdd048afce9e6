#!/usr/bin/env python3
"""Writes an assembler file that carries fatbins: embed.py OUT.S SYMBOL FATBIN..."""
import pathlib
import sys

out, symbol, *images = sys.argv[1:]
lines = ['  .section .rodata']
for number, image in enumerate(images):
    lines += ['  .balign 64', f'.Limage{number}:', f'  .incbin "{pathlib.Path(image).resolve()}"']
lines += ['  .section .data.rel.ro, "aw"', '  .balign 8', f'  .globl {symbol}', f'  .hidden {symbol}',
          f'  .type {symbol}, @object', f'{symbol}:']
lines += [f'  .quad .Limage{number}' for number in range(len(images))]
lines += ['  .quad 0', f'  .size {symbol}, . - {symbol}', '  .section .note.GNU-stack, "", @progbits']
pathlib.Path(out).write_text('\n'.join(lines) + '\n')
