"""Groups: made, split, with options, beside other backends, and found without an import."""
import datetime
import multiprocessing
import pathlib
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from programs import python
from ranks import raises, run

import tutti.torch
from tutti.torch.group import PYTHON_BACKENDS

needs_python_backends = pytest.mark.skipif(not PYTHON_BACKENDS, reason="this torch has no backends in Python")


def subgroups(rank, n):
    members = [[0, 1], [1, 2, 3], list(range(n))]
    groups = [dist.new_group(ranks) for ranks in members]
    for ranks, group in zip(members, groups):
        if rank in ranks:
            x = torch.full((3,), float(rank))
            dist.all_reduce(x, group=group)
            assert x[0] == sum(ranks)
            dist.broadcast(x, ranks[-1], group=group)
    got = torch.empty(1)
    if rank == 3:
        dist.send(torch.ones(1), 1, group=groups[1])
    if rank == 1:
        assert dist.recv(got, group=groups[1]) == 3
    dist.destroy_process_group(groups[2])


def test_groups_of_some_ranks():
    run(4, subgroups)


def halves(rank, n):
    group = dist.split_group(split_ranks=[[0, 2], [1, 3]])
    x = torch.full((2,), float(rank))
    dist.all_reduce(x, group=group)
    assert x[0] == (2 if rank % 2 == 0 else 4), x
    assert dist.get_world_size(group) == 2 and dist.get_backend(group) == "tutti"


@needs_python_backends
def test_split_group():
    run(4, halves)


def beside(rank, n):
    """Through torch's dispatcher, whose handles have wait() and get_future()."""
    x = torch.full((5,), float(rank))
    dist.all_reduce(x)
    assert x[0] == sum(range(n))
    work = dist.all_reduce(x, async_op=True)
    assert work.get_future().wait()[0][0] == n * sum(range(n))
    out = torch.empty(2 * n)
    dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
    dist.reduce_scatter_tensor(torch.empty(2), out)
    dist.all_to_all_single(torch.empty(n), torch.ones(n))
    gathered = [torch.empty(1) for _ in range(n)] if rank == 0 else None
    dist.gather(torch.full((1,), float(rank)), gathered)
    dist.scatter(torch.empty(1), gathered)
    got = torch.empty(1)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((1,), float(rank)), (rank + 1) % n),
                                        dist.P2POp(dist.irecv, got, (rank - 1) % n)]):
        work.wait()
    assert got[0] == (rank - 1) % n
    dist.barrier()
    dist.monitored_barrier()
    half = dist.new_group([0, 1])
    if rank < 2:
        dist.all_reduce(x, group=half)
    with raises(ValueError, "meta"):
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([torch.ones(1, device="meta")])


@needs_python_backends
def test_beside_another_backend():
    run(3, beside, backend="cpu:tutti,cuda:gloo")


def with_options(rank, n):
    dist.all_reduce(torch.ones(1))
    group = dist.group.WORLD
    assert len(group._engine.lanes) == 3 and group._engine.timeout_ms == 30_000
    other = dist.new_group(pg_options=tutti.torch.Options(lanes=1, transports="tcp", reproducible=True, wait="block"),
                           timeout=datetime.timedelta(seconds=7))
    x = torch.ones(1000)
    dist.all_reduce(x, group=other)
    assert x[999] == n and other._engine.timeout_ms == 7000


def test_options_of_one_group():
    run(2, with_options, pg_options=tutti.torch.Options(lanes=3))
    for wrong in ({"lanes": 0}, {"wait": "sometimes"}):
        with pytest.raises(ValueError, match="may be"):
            tutti.torch.Options(**wrong)


def rapid(rank, n):
    for _ in range(5):
        group = dist.new_group()
        dist.all_reduce(torch.ones(1), group=group)
        dist.destroy_process_group(group)


def test_groups_come_and_go():
    run(3, rapid)


def leaves_without_destroying(rank, n):
    """The first is done long before the last has begun to receive."""
    import time
    if rank == n - 1:
        time.sleep(0.5)
    x = torch.full((200_000,), float(rank))
    dist.broadcast(x, 0)
    assert x[-1] == 0


def test_a_rank_that_ends_first_takes_nothing_from_others(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("import os, sys, torch.distributed as dist, tutti.torch\n"
                       f"sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
                       "import test_groups\n"
                       "rank = int(sys.argv[1])\n"
                       f"dist.init_process_group('tutti', init_method='file://{tmp_path}/store', rank=rank, world_size=3)\n"
                       "test_groups.leaves_without_destroying(rank, 3)\n")
    ranks = [subprocess.Popen([sys.executable, str(program), str(rank)], stderr=subprocess.PIPE, text=True) for rank in range(3)]
    for rank in ranks:
        _, errors = rank.communicate(timeout=120)
        assert rank.returncode == 0, errors


def forked_rank(rank, store, fails):
    sys.stderr = open(store.parent / f"errors of {rank}", "w")
    dist.init_process_group("tutti", init_method=f"file://{store}", rank=rank, world_size=3, timeout=datetime.timedelta(seconds=60))
    if not fails:
        leaves_without_destroying(rank, 3)
    elif rank == 1:
        dist.barrier()  # all have joined
        raise ValueError("of its own")
    else:
        with raises(dist.DistBackendError):
            dist.barrier()
            dist.barrier()


@pytest.mark.parametrize("fails", [False, True])
def test_processes_of_multiprocessing_end_as_others_do(tmp_path, fails):
    ranks = [multiprocessing.get_context("fork").Process(target=forked_rank, args=(rank, tmp_path / "store", fails)) for rank in range(3)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(120)
    errors = "".join(path.read_text() for path in tmp_path.glob("errors of *"))
    assert [rank.exitcode for rank in ranks] == [0, int(fails), 0], errors


@needs_python_backends
def test_torch_finds_the_backend_without_an_import(tmp_path):
    """By the entry point of the distribution's metadata, here those of pyproject.toml."""
    program = ("import sys, torch, torch.distributed as dist\n"
               f"dist.init_process_group('tutti', init_method='file://{tmp_path}/store', rank=0, world_size=1)\n"
               "assert 'tutti.torch' in sys.modules\n"
               "dist.all_reduce(torch.ones(1)); print(dist.get_backend()); dist.destroy_process_group()\n")
    assert python("-c", program).strip() == "tutti"
