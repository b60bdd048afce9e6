"""Tests of the backend of torch.distributed; README.md says how they are run."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
