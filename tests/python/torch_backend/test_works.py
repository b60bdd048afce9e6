"""Handles on asynchronous calls, their futures, and who gives them to whom."""
import ctypes
import datetime
import gc
import os
import threading
import time

import pytest
import torch
import torch.distributed as dist
from ranks import raises, run

from tutti._api import core
from tutti._library import library
from tutti.torch.group import PYTHON_BACKENDS


def overlap(rank, n):
    """Two collectives are under way at once: the first cannot end before the second has.

    The first has an operator whose function waits for the second."""
    engine, lib, second_ended = dist.group.WORLD._engine, library(), threading.Event()

    def combine(source, target, count, dtype, context):
        assert second_ended.wait(20)
        both = [(ctypes.c_float * count).from_address(address) for address in (source, target)]
        for at in range(count):
            both[1][at] += both[0][at]

    function, operator = core.tuttiRedFunction_t(combine), ctypes.c_int()
    lanes = engine.lanes
    following = (engine.sequence + 1) % len(lanes)  # the lane of the next collective
    other = lanes[(following + 1) % len(lanes)]
    assert lib.tuttiRedOpCreate(ctypes.byref(operator), function, 1, None, other.comm) == 0
    first, second = torch.full((4,), float(rank)), torch.ones(3)
    work = other.enqueue("first", [(lib.tuttiAllReduce, first.data_ptr(), first.data_ptr(), 4, core.tuttiFloat32, operator.value)],
                         [first], 0)
    dist.all_reduce(second, async_op=True).wait()
    assert second[0] == n and not work.is_completed()
    second_ended.set()
    work.wait()
    assert work.is_completed() and first[0] == sum(range(n)), first


def test_several_collectives_are_under_way_at_once():
    run(2, overlap)


def many(rank, n):
    tensors = [torch.full((100,), float(rank + k)) for k in range(50)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for k in reversed(range(50)):
        works[k].wait()
        assert tensors[k][99] == sum(r + k for r in range(n))
        assert works[k].is_completed() and works[k].is_success() and works[k].exception() is None
        assert works[k].result()[0] is tensors[k]


def test_many_calls_at_once_and_waits_in_any_order():
    run(3, many)


def futures(rank, n):
    x = torch.full((4, 3), float(rank)).t()  # its result has to be copied back by whoever comes first
    seen = []
    work = dist.all_reduce(x, async_op=True)
    chained = work.get_future().then(lambda future: seen.append(future.value()) or future.value()[0] * 2)
    assert (chained.wait() == 2 * sum(range(n))).all()
    assert (x == sum(range(n))).all() and len(seen) == 1
    # Nobody waits for this one and nobody keeps its handle.
    y = torch.full((4, 3), float(rank)).t()
    dist.all_reduce(y, async_op=True)
    while y[0, 0] != sum(range(n)) or y[-1, -1] != sum(range(n)):
        time.sleep(0.001)
    ended = dist.group.WORLD.allreduce([torch.ones(1)])
    ended.wait()
    assert ended.get_future().wait()[0] == n


def test_futures_end_by_themselves():
    run(3, futures)


def limits(rank, n):
    if rank == 0:
        x = torch.ones(2)
        work = dist.all_reduce(x, async_op=True)
        with raises(dist.DistBackendError, "all_reduce", "Timed out waiting 150ms"):
            work.wait(datetime.timedelta(milliseconds=150))
        dist.send(torch.ones(1), 1)
        work.wait()  # a wait that was given up leaves the call as it is
        assert x[0] == n
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(torch.ones(2))


def test_a_wait_has_a_limit_of_its_own():
    run(2, limits)


def ddp(rank, n):
    """Torch's C++ calls the group, and waits for its futures."""
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    parallel = torch.nn.parallel.DistributedDataParallel(plain, bucket_cap_mb=0.0001)
    torch.manual_seed(rank)
    data = torch.randn(6, 8)
    parallel(data).sum().backward()
    everybody = [torch.empty_like(data) for _ in range(n)]
    dist.all_gather(everybody, data)
    expected = torch.autograd.grad(sum(plain(part).sum() for part in everybody) / n, list(plain.parameters()))
    for parameter, gradient in zip(plain.parameters(), expected):
        torch.testing.assert_close(parameter.grad, gradient)


def test_distributed_data_parallel():
    run(3, ddp)


def ddp_of_a_dead_rank(rank, n):
    parallel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    loss = parallel(torch.randn(6, 8)).sum()
    dist.barrier()
    if rank == 1:
        os._exit(7)
    with raises(RuntimeError, "DistBackendError", "all_reduce", "rank 1"):
        loss.backward()
    os._exit(0)


def test_distributed_data_parallel_raises_where_a_rank_has_died():
    run(3, ddp_of_a_dead_rank, expect={1: 7})


def functional(rank, n):
    import torch.distributed._functional_collectives as functional_collectives
    gathered = functional_collectives.all_gather_tensor(torch.full((2,), float(rank)), 0, dist.group.WORLD)
    assert gathered.tolist() == [float(r) for r in range(n) for _ in range(2)]
    reduced = functional_collectives.reduce_scatter_tensor(torch.ones(2 * n), "sum", 0, dist.group.WORLD)
    assert reduced.tolist() == [float(n)] * 2


def test_functional_collectives():
    run(2, functional)


def sequence(rank, n):
    group = dist.group.WORLD
    before = group._get_sequence_number_for_group()
    for _ in range(3):
        dist.all_reduce(torch.ones(1))
    dist.all_reduce(torch.ones(1), async_op=True).wait()
    assert group._get_sequence_number_for_group() == before + 4


def waits_late(rank, n):
    """By torch's C++, which alone has the handles, after later calls have found that the operation is over."""
    from torch.distributed import _functional_collectives as functional
    first = functional.all_gather_tensor(torch.full((2,), float(rank)), 0, dist.group.WORLD)
    second = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    for _ in range(20):
        time.sleep(0.01)
        dist.all_reduce(torch.ones(1))
        gc.collect()
    assert first[::2].tolist() == list(range(n)) and second.tolist() == [n] * 3


def test_torch_may_wait_late():
    run(2, waits_late)


def test_sequence_numbers_count_collectives():
    run(2, sequence)


def profiled(rank, n):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        dist.all_reduce(torch.ones(3, 5))
        dist.all_reduce(torch.ones(7), async_op=True).wait()
    shapes = [event.input_shapes for event in profile.events() if event.name == "tutti:all_reduce"]
    assert sorted(shapes) == [[[3, 5]], [[7]]], shapes


@pytest.mark.skipif(not PYTHON_BACKENDS, reason="older torch has no spans with shapes for Python")
def test_the_profiler_shows_calls_with_shapes():
    run(2, profiled)
