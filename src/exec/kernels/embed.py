#!/usr/bin/env python3
"""Writes an assembler file that carries fatbins: embed.py OUT.S FATBIN..."""
import pathlib
import sys

out, *images = sys.argv[1:]
lines = ['  .section .rodata']
for number, image in enumerate(images):
    lines += ['  .balign 64', f'.Limage{number}:', f'  .incbin "{pathlib.Path(image).resolve()}"']
lines += ['  .section .data.rel.ro, "aw"', '  .balign 8', '  .globl tutti_cuda_images', '  .hidden tutti_cuda_images',
          '  .type tutti_cuda_images, @object', 'tutti_cuda_images:']
lines += [f'  .quad .Limage{number}' for number in range(len(images))]
lines += ['  .quad 0', '  .size tutti_cuda_images, . - tutti_cuda_images', '  .section .note.GNU-stack, "", @progbits']
pathlib.Path(out).write_text('\n'.join(lines) + '\n')
