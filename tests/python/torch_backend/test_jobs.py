"""Whole jobs under torchrun, on Tutti and on Gloo: the same numbers, and on again after a worker has died."""
import re

import pytest
from programs import EXAMPLES, torchrun
from tutti.torch.group import PYTHON_BACKENDS

LAYOUTS = ["ddp", "fsdp2", "tp", "tp-fsdp", "pp-1f1b", "pp-interleaved", "cp"]

pytestmark = pytest.mark.skipif(not PYTHON_BACKENDS, reason="the examples are written for newer torch, which finds the backend itself")


def losses(text):
    return {layout: (float(first), float(last)) for layout, first, last in re.findall(r"^\w+ ([\w-]+): .*? loss ([\d.]+) to ([\d.]+)", text, re.M)}


def test_one_model_under_every_layout_learns_as_on_gloo():
    """The program itself compares every step with one process."""
    on_tutti, on_gloo = (losses(torchrun(EXAMPLES / "torch_gpt.py", "--backend", backend, "--steps", 4)) for backend in ("tutti", "gloo"))
    assert list(on_tutti) == LAYOUTS == list(on_gloo)
    for layout in LAYOUTS:
        assert on_tutti[layout] == pytest.approx(on_gloo[layout], abs=2e-6), layout


def test_a_killed_worker_is_started_again_and_the_job_goes_on(tmp_path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = torchrun(EXAMPLES / "torch_elastic.py", "--folder", tmp_path / "whole")
    killed = torchrun("--max-restarts", 1, EXAMPLES / "torch_elastic.py", "--folder", tmp_path / "killed", "--kill", 2)
    assert "start 0: steps 0 to 8" in whole and "start 1: steps 4 to 8" in killed, (whole, killed)
    assert whole.split("weight")[1] == killed.split("weight")[1]
