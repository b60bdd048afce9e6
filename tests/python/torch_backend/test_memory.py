"""Memory that peers read where it lies: DistributedDataParallel's buckets, and what fully_shard asks the group for."""
import copy
import gc
import os

import pytest
import torch
import torch.distributed as dist
from ranks import run

import tutti.torch
from tutti.torch import buckets
from tutti.torch.group import PYTHON_BACKENDS
from tutti.torch.pool import Pool

WIDTH = 512  # its weight is 1 MiB


def steps(parallel, plain, rank, n, count=5):
    """Gradients are the mean of those of all ranks, in every step."""
    for step in range(count):
        parallel.zero_grad(set_to_none=False)
        data = [torch.full((2, WIDTH), (r + 1.0) * (step + 1)) for r in range(n)]
        parallel(data[rank]).sum().backward()
        expected = torch.autograd.grad(sum(plain(part).sum() for part in data) / n, list(plain.parameters()))
        for parameter, gradient in zip(parallel.parameters(), expected):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-3, atol=1e-3)


def made(views, group=None):
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    parallel = torch.nn.parallel.DistributedDataParallel(plain, bucket_cap_mb=0.5, gradient_as_bucket_view=views, process_group=group)
    return parallel, plain


def moved(rank, n):
    for views in (False, True):
        parallel, plain = made(views)
        steps(parallel, plain, rank, n)
        assert buckets.placed_bytes() >= 2 * 4 * WIDTH * WIDTH, buckets.placed_bytes()
        del parallel, plain
        gc.collect()
        assert buckets.placed_bytes() == 0


def test_buckets_move_and_give_their_memory_back():
    run(3, moved)


def stay(rank, n):
    group = dist.new_group(pg_options=tutti.torch.Options(shared_buckets=False))
    steps(*made(False, group), rank, n)
    assert buckets.placed_bytes() == 0
    # A user's own tensors have addresses that others may know.
    x = torch.ones(WIDTH * WIDTH)
    for _ in range(5):
        dist.all_reduce(x)
    assert buckets.placed_bytes() == 0
    # So have gradients that somebody holds as numpy's.
    parallel, plain = made(True)
    steps(parallel, plain, rank, n, 2)
    held = [parameter.grad.numpy() for parameter in parallel.parameters()]
    steps(parallel, plain, rank, n, 3)
    assert buckets.placed_bytes() == 0
    assert all((array == parameter.grad.numpy()).all() for array, parameter in zip(held, parallel.parameters()))


def test_memory_that_others_know_stays_where_it_is():
    run(2, stay)


def forked(rank, n):
    parallel, plain = made(True)
    steps(parallel, plain, rank, n)
    gradient = next(parallel.parameters()).grad
    assert buckets.placed_bytes() > 0
    before = gradient.clone()
    child = os.fork()
    if child == 0:
        same = torch.equal(gradient, before)
        gradient.zero_()
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(gradient, before)
    steps(parallel, plain, rank, n, 2)


def test_a_forked_child_has_buckets_of_its_own():
    run(2, forked)


def complex_ones(rank, n):
    weight = torch.nn.Parameter(torch.ones(WIDTH * WIDTH, dtype=torch.complex64))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, factor):
            return (self.weight * factor).abs().sum()

    parallel = torch.nn.parallel.DistributedDataParallel(Model())
    for _ in range(5):
        weight.grad = None
        parallel(rank + 1.0).backward()
        assert weight.grad[-1] == sum(range(1, n + 1)) / n, weight.grad[-1]
    assert buckets.placed_bytes() > 0


def test_buckets_of_complex_numbers():
    run(2, complex_ones)


def sharded(rank, n):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 3))
    weights = [parameter.detach().clone() for parameter in plain.parameters()]
    model = fully_shard(plain, mesh=init_device_mesh("cpu", (n,)))
    model.set_allocate_memory_from_process_group_for_comm(True)
    for step in range(3):
        data = [torch.full((2, WIDTH), (r + 1.0) * (step + 1)) for r in range(n)]
        model.zero_grad()
        model(data[rank]).sum().backward()
        leaves = [weight.clone().requires_grad_() for weight in weights]
        outputs = [torch.nn.functional.linear(torch.nn.functional.linear(part, *leaves[:2]), *leaves[2:]).sum() for part in data]
        expected = torch.autograd.grad(sum(outputs) / n, leaves)
        for parameter, gradient in zip(model.parameters(), expected):
            torch.testing.assert_close(parameter.grad.full_tensor(), gradient, rtol=1e-3, atol=1e-3)
    pool = dist.group.WORLD._engine.pool
    assert pool._most_used >= 4 * WIDTH * WIDTH, pool._most_used


@pytest.mark.skipif(not PYTHON_BACKENDS, reason="this torch does not ask groups for memory")
def test_fully_shard_takes_memory_from_the_group():
    run(3, sharded)


def flat(rank, n):
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision
    for options in (None, tutti.torch.Options(shared_buckets=False)):
        before = buckets.placed_bytes()  # torch's hooks keep a model's parameters for longer than the model
        group = dist.new_group(pg_options=options)
        torch.manual_seed(0)
        plain = torch.nn.Sequential(torch.nn.Linear(2 * WIDTH, WIDTH), torch.nn.Linear(WIDTH, 3))
        model = FullyShardedDataParallel(copy.deepcopy(plain), process_group=group, device_id=torch.device("cpu"))
        rate = 1e-4
        optimizers = [torch.optim.SGD(net.parameters(), rate) for net in (model, plain)]
        for step in range(6):
            data = [torch.full((2, 2 * WIDTH), (r + 1.0) * (step + 1) / 100) for r in range(n)]
            model(data[rank]).sum().backward()
            (sum(plain(part).sum() for part in data) / n).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            torch.testing.assert_close(model(data[0]), plain(data[0]), rtol=1e-3, atol=1e-3)
        shard = 4 * 2 * WIDTH * WIDTH // n
        placed = buckets.placed_bytes() - before
        assert placed >= shard if options is None else placed == 0, placed
        with FullyShardedDataParallel.summon_full_params(model):
            torch.testing.assert_close(model[0].weight, plain[0].weight, rtol=1e-3, atol=1e-3)
    # What is gathered in another precision is a copy, of which torch lets go.
    model = FullyShardedDataParallel(copy.deepcopy(plain), device_id=torch.device("cpu"), mixed_precision=MixedPrecision(param_dtype=torch.bfloat16))
    for _ in range(5):
        model(torch.ones(2, 2 * WIDTH)).sum().backward()
    assert buckets.placed_bytes() == before


def test_flat_parameters_move():
    run(2, flat)


def test_a_pool_keeps_what_comes_back_and_no_more_than_was_in_use():
    pool = Pool()
    first = pool.tensor(1000, torch.float32)
    address = first.data_ptr()
    part = first[10:].zero_()
    del first
    assert pool.tensor(1000, torch.float32).data_ptr() != address  # a view still has it
    del part
    again = pool.tensor(1000, torch.float32)
    assert pool._used_bytes == 4096 and pool._free_bytes == 4096
    several = [pool.tensor(2000, torch.int64) for _ in range(3)]
    del several, again
    assert pool._used_bytes == 0 and pool._free_bytes <= pool._most_used
    assert pool.tensor(0, torch.float32).numel() == 0
    pool.close()
    assert pool._free_bytes == 0
    last = pool.tensor(5, torch.float32)
    last.fill_(2)
    del last
    assert pool._free_bytes == 0
