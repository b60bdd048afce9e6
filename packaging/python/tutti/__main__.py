"""python -m tutti --version | --library | --nccl: the version, and where the libraries are."""
import sys

from . import __version__
from ._find import find_library

WHAT = {"--version": lambda: __version__, "--library": lambda: find_library("libtutti.so.0"),
        "--nccl": lambda: find_library("libnccl.so.2")}

if len(sys.argv) != 2 or sys.argv[1] not in WHAT:
    sys.exit(f"usage: python -m tutti {' | '.join(WHAT)}")
print(WHAT[sys.argv[1]]())
