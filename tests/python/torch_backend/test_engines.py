"""Programs of the engines that people train with, on Tutti and on Gloo: the same losses and weights to the last digit."""
import os
import re
import shutil
import tempfile

import pytest
from programs import EXAMPLES, environment, python, torchrun
from tutti.torch.group import PYTHON_BACKENDS

pytestmark = pytest.mark.skipif(not PYTHON_BACKENDS, reason="the examples are written for newer torch, which finds the backend itself")


def numbers(text, backend):
    """Three losses, which fall, and the weight, of a program that says on which backend it ran."""
    losses, weight = re.findall(r"^epoch \d: loss (\S+)$", text, re.M), re.findall(rf"^2 .* on {backend}: weight (\S+)$", text, re.M)
    assert len(losses) == 3 and len(weight) == 1, text
    assert float(losses[2]) < float(losses[0]) / 2, text
    return losses + weight


def same_on_both(program):
    on_tutti, on_gloo = (numbers(program(backend), backend) for backend in ("tutti", "gloo"))
    assert on_tutti == on_gloo


def test_accelerate():
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    same_on_both(lambda backend: torchrun(EXAMPLES / "torch_accelerate.py", "--backend", backend, ranks=2))


def test_lightning():
    pytest.importorskip("lightning", reason="lightning is not installed")
    same_on_both(lambda backend: python(EXAMPLES / "torch_lightning.py", "--backend", backend))


@pytest.fixture(scope="module")
def two_nodes():
    """The environment of programs that use a cluster of two nodes, which Tutti takes for two hosts."""
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.train", reason="ray[train] is not installed")
    from ray.cluster_utils import Cluster
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # short, as sockets' names are
    settings = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "RAY_enable_worker_prestart": "0",
                "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0"}
    before = dict(os.environ)
    os.environ.update(environment(**settings))  # Ray's own processes take it from here
    cluster = Cluster()
    try:
        for host in ("first", "second"):
            cluster.add_node(num_cpus=2, include_dashboard=False, env_vars={"TUTTI_HOSTID": host})
        yield {**settings, "RAY_ADDRESS": cluster.address}
    finally:
        cluster.shutdown()
        ray.shutdown()
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def test_ray_train(two_nodes):
    def program(backend):
        text = python(EXAMPLES / "ray_train.py", "--backend", backend, **two_nodes)
        assert "2 workers on 2 nodes" in text, text
        return text
    same_on_both(program)


def test_ray_actors_go_on_when_one_is_killed(two_nodes):
    text = python(EXAMPLES / "ray_actors.py", "--ranks", 4, "--kill", 2, **two_nodes)
    assert "4 actors on 2 nodes" in text, text
    found = dict(re.findall(r"^(\d) ranks: largest eigenvalue (\S+), by numpy alone \2$", text, re.M))
    assert sorted(found) == ["3", "4"], text
