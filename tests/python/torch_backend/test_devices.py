"""Calls on tensors of a device: what waits for what, without a device.

Pretended stands in for torch.cuda: its tensors are marked ones of the host, its streams and events those of Tutti, on which calls
really are under way; it writes down in which order it is used."""
import contextlib
import datetime
import os

import pytest
import torch
import torch.distributed as dist
from ranks import raises, run

import tutti
from tutti._api import core
from tutti.torch.group import PYTHON_BACKENDS


class Pretended:
    kind, memory = "pretended", core.TUTTI_DEVICE_HOST

    def __init__(self):
        self.journal, self.names, self.currents, self.captures = [], {}, {}, False

    def tensor(self, tensor, index=0):
        tensor.pretended = index
        return tensor

    def index_of(self, tensor):
        return getattr(tensor, "pretended", None)

    def available(self):
        return False

    def use(self, index):
        return contextlib.nullcontext()

    def stream(self, index):
        stream = tutti.Stream()
        self.names[stream] = f"own {index}.{len(self.names)}"
        return stream

    def current_stream(self, index):
        if index not in self.currents:
            self.currents[index] = tutti.Stream()
            self.names[self.currents[index]] = f"current {index}"
        return self.currents[index]

    def capturing(self, index):
        return self.captures

    @contextlib.contextmanager
    def entered(self, stream):
        stream.synchronize()  # a copy of the host's is not enqueued, so it comes after what is
        self.journal.append(("enter", self.names[stream]))
        yield

    def handle(self, stream):
        self.journal.append(("call", self.names[stream]))
        return stream.handle

    def record(self, stream):
        event = stream.record()
        self.names[event] = f"event {len(self.names)} of {self.names[stream]}"
        self.journal.append(("record", self.names[stream]))
        return event

    def wait(self, stream, event):
        self.journal.append(("wait", self.names[stream], self.names[event].split(" of ")[1]))
        stream.wait_event(event)

    def done(self, event):
        return event.done()

    def future(self, index):
        return torch.futures.Future()


def pretend():
    device = dist.group.WORLD._engine.devices.device = Pretended()
    return device


def order(rank, n):
    device, store = pretend(), dist.distributed_c10d._get_default_store()
    x = device.tensor(torch.full((4,), float(rank)))
    dist.all_reduce(x)  # on the current stream, on which its result is
    assert device.journal == [("call", "current 0"), ("record", "current 0"), ("wait", "current 0", "current 0")], device.journal
    device.currents[0].synchronize()
    assert x[3] == sum(range(n))
    device.journal.clear()
    x.fill_(1)
    if rank != 0:
        store.wait(["rank 0 goes on"])
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        assert not work.is_completed()
        store.set("rank 0 goes on", "yes")
    own = device.journal[1][1]
    assert own.startswith("own 0")
    assert device.journal == [("record", "current 0"), ("wait", own, "current 0"), ("call", own), ("record", own)], device.journal
    device.journal.clear()
    work.wait()
    assert device.journal == [("wait", "current 0", own)], device.journal
    dist.all_reduce(x)  # the current stream comes to it after the first has ended
    device.currents[0].synchronize()
    assert x.tolist() == [n * n] * 4 and work.is_completed() and work.is_success() and work.exception() is None
    entry = tutti.torch.flight_record()["entries"][-1]
    assert entry["profiling_name"] == "tutti:all_reduce" and entry["state"] == "completed"


@pytest.mark.skipif(not PYTHON_BACKENDS, reason="this torch does not say which calls are asynchronous: all are")
def test_streams_wait_and_callers_go_on():
    run(3, order)


def every_call(rank, n):
    device = pretend()

    def on(*shape, value=0.0, index=0):
        return device.tensor(torch.full(shape, float(value)), index)

    def finish(index=0):
        device.current_stream(index).synchronize()

    whole, parts = on(n * 2), [on(2) for _ in range(n)]
    dist.all_gather_into_tensor(whole, on(2, value=rank), async_op=True).wait()
    dist.all_gather(parts, on(2, value=rank))
    piece, first = on(3), on(5, value=rank)
    dist.reduce_scatter_tensor(piece, on(3 * n, value=1))
    dist.broadcast(first, n - 1, async_op=True).get_future().wait()
    swapped = on(n)
    dist.all_to_all_single(swapped, on(n, value=rank))
    gappy = device.tensor(torch.full((3, 4), float(rank)).t())
    dist.all_reduce(gappy, async_op=True).wait()
    finish()
    dist.group.WORLD._engine.devices.poll()
    assert whole.tolist() == [float(r) for r in range(n) for _ in range(2)] and parts[1].tolist() == [1, 1]
    assert piece.tolist() == [n] * 3 and swapped.tolist() == list(range(n)) and (gappy == sum(range(n))).all()
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        a, b = on(2, value=1), on(3, value=2)
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    other = on(2, value=rank, index=1)  # another communicator
    dist.all_reduce(other)
    finish(), finish(1)
    assert a[1] == n and b[2] == 2 * n and other[0] == sum(range(n))
    assert len(dist.group.WORLD._engine.devices.all_lanes()) == 2
    host = torch.ones(2)
    dist.all_reduce(host)  # host tensors go on as before
    assert host[0] == n
    with raises(ValueError, "pretended:0", "the CPU", "one device"):
        dist.all_gather_into_tensor(on(2 * n), torch.ones(2))
    with raises(ValueError, "pretended:0", "pretended:1"):
        dist.all_reduce_coalesced([on(2), on(2, index=1)])
    dist.barrier()


def test_every_call_on_devices():
    run(3, every_call)


def ring(rank, n):
    device = pretend()
    got, sent = device.tensor(torch.zeros(6)), device.tensor(torch.full((6,), float(rank)))
    for _ in range(2):
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, (rank + 1) % n), dist.P2POp(dist.irecv, got, (rank - 1) % n)])
        for work in works:
            work.wait()
        device.currents[0].synchronize()
        assert got[5] == (rank - 1) % n
        got.zero_()
    if rank < 2:
        (dist.send if rank == 0 else dist.recv)(sent if rank == 0 else got, 1 - rank)
        device.currents[0].synchronize()
        assert rank == 0 or got.tolist() == [0.0] * 6
    with raises(ValueError, "a rank that the call names"):
        dist.recv(got)
    with raises(ValueError, "go to other ranks"):
        dist.group.WORLD.send([sent], rank, 0)
    dist.barrier()


@pytest.mark.skipif(not PYTHON_BACKENDS, reason="this torch batches messages of CUDA tensors alone")
def test_messages_go_by_pairs():
    run(3, ring)


def kinds_differ(rank, n):
    device = pretend()
    x = torch.ones(3)
    with raises((dist.DistBackendError, ValueError), "all_reduce", *(["pretended:0", "together"] if rank == 0 else ["rank 0"])):
        dist.all_reduce(device.tensor(x) if rank == 0 else x)
    os._exit(0)


def test_ranks_on_different_kinds_of_device_are_told():
    run(2, kinds_differ)


def deadlines(rank, n):
    device = pretend()
    x = device.tensor(torch.ones(3))
    dist.all_reduce(x)
    store = dist.distributed_c10d._get_default_store()
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        with raises(dist.DistBackendError, "Timed out waiting 200ms"):
            work.wait(datetime.timedelta(milliseconds=200))
        assert not work.is_completed()
        store.set("late", "yes")
        work.wait()
    else:
        store.wait(["late"])
        dist.all_reduce(x, async_op=True).wait()
    device.currents[0].synchronize()
    assert x[0] == n * n
    work = dist.all_reduce(x, async_op=True) if rank == 0 else None
    if rank == 0:
        dist.group.WORLD.abort()
        with raises(dist.DistBackendError, "all_reduce"):
            while not work.is_completed():
                pass
            work.wait()
        with raises(dist.DistBackendError, "aborted"):
            dist.all_reduce(x)
    os._exit(0)


def test_waits_have_limits_and_an_abort_ends_them():
    run(2, deadlines)


def death(rank, n):
    device = pretend()
    x = device.tensor(torch.ones(3))
    dist.all_reduce(x)
    device.currents[0].synchronize()
    if rank == 1:
        os._exit(7)
    work = dist.all_reduce(x, async_op=True)
    with raises(dist.DistBackendError, "all_reduce", "rank 1"):
        while not work.is_completed():
            pass
        work.wait()
    assert not work.is_success()
    os._exit(0)


def test_a_rank_that_has_died_is_named():
    run(3, death, expect={1: 7})
