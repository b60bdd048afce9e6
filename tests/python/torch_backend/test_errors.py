"""Bad input, ranks that differ, dead ranks, groups that are gone: an exception that says what, and never a wait for ever."""
import datetime
import os

import pytest
import torch
import torch.distributed as dist
from ranks import raises, run

from tutti.torch.group import PYTHON_BACKENDS

SHORT = datetime.timedelta(seconds=2)


def arguments(rank, n):
    with raises(ValueError, "meta", "CPU tensors", "CUDA tensors"):
        dist.all_reduce(torch.ones(3, device="meta"))
    with raises(ValueError, "sparse"):
        dist.broadcast(torch.eye(3).to_sparse(), 0)
    with raises(ValueError, "Cannot use ReduceOp.BAND", "float32"):
        dist.all_reduce(torch.ones(3), dist.ReduceOp.BAND)
    with raises(ValueError, "complex"):
        dist.group.WORLD.allreduce([torch.ones(3, dtype=torch.complex64)], dist.ReduceOp.MAX)
    with raises(ValueError, "Invalid scalar type", "float8_e4m3fnuz"):
        dist.group.WORLD.allreduce([torch.zeros(3).to(torch.float8_e4m3fnuz)])
    with raises(ValueError, "world_size times input", "5 elements", f"{n} ranks"):
        dist.all_gather_into_tensor(torch.empty(5), torch.empty(2))
    with raises(ValueError, "output size times world size"):
        dist.reduce_scatter_tensor(torch.empty(2), torch.empty(5))
    with raises(ValueError, "same type as input", "float64"):
        dist.group.WORLD.all_gather_single(torch.empty(2 * n, dtype=torch.float64), torch.empty(2))
    with raises(ValueError, "does not divide equally"):
        dist.all_to_all_single(torch.empty(n + 1), torch.empty(n + 1))
    with raises(ValueError, "Split sizes", "add up to"):
        dist.all_to_all_single(torch.empty(4), torch.empty(4), [1] * n, [3] + [0] * (n - 1))
    with raises(ValueError, "output tensors"):
        dist.group.WORLD.allgather([[torch.empty(2)]], [torch.empty(2)])
    with raises(ValueError, "there is no rank 7"):
        dist.group.WORLD.send([torch.ones(1)], 7, 0)
    with raises(RuntimeError, "without start_coalescing"):
        dist.group.WORLD._end_coalescing(torch.device("cpu"))
    x = torch.ones(2)
    dist.all_reduce(x)  # nothing of that has begun, so the group is as good as before
    assert x[0] == n


def test_wrong_arguments_are_refused_and_leave_the_group_good():
    run(2, arguments)


def differ(rank, n):
    with raises(dist.DistBackendError, "all_reduce", "rank"):
        dist.all_reduce(torch.ones(3 + rank))
    with raises(dist.DistBackendError, "rank"):  # and stays so
        for _ in range(2):
            dist.all_reduce(torch.ones(3))
    os._exit(0)


def test_ranks_that_differ_in_size_are_told():
    run(2, differ)


def different_calls(rank, n):
    with raises(dist.DistBackendError, "rank"):
        dist.all_reduce(torch.ones(4)) if rank else dist.broadcast(torch.ones(4), 0)
        dist.barrier()
    os._exit(0)


def test_ranks_that_make_different_calls_are_told():
    run(2, different_calls, timeout=datetime.timedelta(seconds=5))


def dies(rank, n):
    dist.barrier()
    if rank == 1:
        os._exit(7)
    for asynchronous in (False, True):
        with raises(dist.DistBackendError, "all_reduce", "rank 1"):
            work = dist.all_reduce(torch.ones(4), async_op=asynchronous)
            if asynchronous:
                work.wait()
    with raises(RuntimeError, "rank 1"):
        dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()
    os._exit(0)


def test_a_dead_rank_ends_calls_and_is_named():
    run(3, dies, expect={1: 7})


def deadline(rank, n):
    if rank == 1:
        # It makes no call at all until the other has given up.
        dist.distributed_c10d._get_default_store().wait(["given up"], datetime.timedelta(seconds=60))
        os._exit(0)
    with raises(dist.DistBackendError, "barrier", "Timed out", "rank 1"):
        dist.barrier()
    dist.distributed_c10d._get_default_store().set("given up", "yes")
    os._exit(0)


def test_a_silent_rank_is_named_at_the_deadline():
    run(2, deadline, timeout=SHORT)


def own_deadline(rank, n):
    dist.group.WORLD.set_timeout(datetime.timedelta(minutes=5))
    store = dist.distributed_c10d._get_default_store()
    if rank == 1:
        store.wait(["given up"], datetime.timedelta(seconds=60))
        os._exit(0)
    options = dist.AllreduceOptions()
    options.timeout = datetime.timedelta(milliseconds=300)
    with raises(dist.DistBackendError, "all_reduce", "Timed out"):
        dist.group.WORLD.allreduce([torch.ones(1)], options).wait()
    if PYTHON_BACKENDS:  # older torch has no such option
        options.asyncOp = False
        with raises(dist.DistBackendError, "all_reduce", "Timed out"):
            dist.group.WORLD.allreduce([torch.ones(1)], options)
    store.set("given up", "yes")
    os._exit(0)


def test_a_call_has_a_deadline_of_its_own():
    run(2, own_deadline)


def aborted(rank, n):
    work = dist.all_reduce(torch.ones(1), async_op=True) if rank == 0 else None
    got = torch.empty(1)
    receive = dist.irecv(got, 1 - rank)
    if rank == 0:
        dist.group.WORLD.abort()
        with raises(dist.DistBackendError, "all_reduce"):
            work.wait()
    with raises(dist.DistBackendError, "recv"):
        receive.wait()
    with raises(dist.DistBackendError):
        dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def test_abort_ends_everything_on_every_rank():
    run(2, aborted, destroy=False)


def destroyed(rank, n):
    group = dist.new_group(list(range(n)))
    dist.all_reduce(torch.ones(1), group=group)
    dist.destroy_process_group(group)
    for call in (lambda: group.allreduce([torch.ones(1)]), lambda: group.send([torch.ones(1)], 1 - rank, 0), group.barrier):
        with raises(dist.DistBackendError, "has been destroyed"):
            call()
    dist.all_reduce(torch.ones(1))


@pytest.mark.skipif(not PYTHON_BACKENDS, reason="older torch does not tell its groups that they are destroyed")
def test_a_destroyed_group_says_so():
    run(2, destroyed)


def forked(rank, n):
    dist.all_reduce(torch.ones(1))
    child = os.fork()
    if child == 0:
        try:
            for call in (lambda: dist.all_reduce(torch.ones(1)), lambda: dist.send(torch.ones(1), 1 - rank), dist.barrier):
                with raises(RuntimeError, "forked after init_process_group"):
                    call()
            dist.destroy_process_group()  # of the child alone
            os._exit(5)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x[0] == n


def test_a_forked_child_is_refused_and_does_no_harm():
    run(2, forked)


def barrier_names(rank, n):
    group = dist.group.WORLD  # dist.monitored_barrier of older torch asks for Gloo by name
    group.monitored_barrier()
    if rank == 2:
        return
    words = ["Rank 2 failed to pass monitoredBarrier in 300 ms"]
    if rank == 1:
        words.append("Rank 1 successfully reached monitoredBarrier")
    with raises(dist.DistBackendError, *words):
        group.monitored_barrier(datetime.timedelta(milliseconds=300 if rank == 0 else 20000))


def test_monitored_barrier_names_who_does_not_come():
    run(3, barrier_names)


def test_options_of_another_backend_are_refused():
    def never(rank, n):
        raise AssertionError("the group came up")
    with pytest.raises(AssertionError, match="takes tutti.torch.Options"):
        run(1, never, pg_options=object())
