"""Distributed checkpoints: what ranks have sharded is saved by all, and read by other numbers of ranks."""
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from ranks import run
from torch.distributed.device_mesh import init_device_mesh

try:
    from torch.distributed.tensor import Shard, distribute_tensor
except ImportError:  # before torch 2.5
    from torch.distributed._tensor import Shard, distribute_tensor

ROWS = 13  # more than a multiple of any number of ranks here


def whole():
    return torch.arange(float(ROWS * 3)).reshape(ROWS, 3)


def state(n, content):
    mesh = init_device_mesh("cpu", (n,))
    return {"sharded": distribute_tensor(content, mesh, [Shard(0)]), "same": content[0].clone(), "step": 7}


def save(folder):
    def body(rank, n):
        checkpoint.save(state(n, whole()), checkpoint_id=folder)
    return body


def save_meanwhile(folder):
    def body(rank, n):
        saved = checkpoint.async_save(state(n, whole()), checkpoint_id=folder, process_group=dist.new_group(backend="tutti"))
        x = torch.ones(4)
        dist.all_reduce(x)  # the training goes on
        assert x[0] == n
        saved.result()
    return body


def load(folder):
    def body(rank, n):
        loaded = state(n, torch.zeros(ROWS, 3))
        loaded["step"] = 0
        checkpoint.load(loaded, checkpoint_id=folder)
        assert torch.equal(loaded["sharded"].full_tensor(), whole()), loaded["sharded"]
        assert torch.equal(loaded["same"], whole()[0]) and loaded["step"] == 7
    return body


def test_a_checkpoint_is_read_by_fewer_and_more_ranks():
    with tempfile.TemporaryDirectory() as folder:
        run(4, save(folder))
        for n in (4, 1, 3):
            run(n, load(folder))


def test_a_checkpoint_is_saved_while_training_goes_on():
    with tempfile.TemporaryDirectory() as folder:
        run(3, save_meanwhile(folder))
        run(2, load(folder))
