"""Point to point: no order of calls that other backends allow stops it."""
import datetime
import os
import time

import torch
import torch.distributed as dist
from ranks import raises, run

LARGE = 300_000  # elements; more than any buffer of the library's holds


def ring(rank, n):
    for count in (0, 1, LARGE):
        got = torch.empty(count)
        work = dist.isend(torch.full((count,), float(rank)), (rank + 1) % n)
        dist.recv(got, (rank - 1) % n)
        work.wait()
        assert (got == (rank - 1) % n).all()


def test_everybody_sends_before_anybody_receives():
    for n_ranks in (2, 5):
        run(n_ranks, ring)


def both_at_once(rank, n):
    other = 1 - rank
    sends = [dist.isend(torch.full((LARGE,), float(k)), other) for k in range(3)]
    outs = [torch.empty(LARGE) for _ in range(3)]
    for work in [dist.irecv(out, other) for out in outs] + sends:
        work.wait()
    assert [out[LARGE - 1].item() for out in outs] == [0, 1, 2]
    assert all(work.is_completed() for work in sends)


def test_two_ranks_send_each_other_much_at_once():
    run(2, both_at_once)


def tags(rank, n):
    if rank == 0:
        works = [dist.isend(torch.full((size,), float(tag)), 1, tag=tag) for tag, size in ((1, LARGE), (2, 5), (3, 1))]
        for work in works:
            work.wait()
        return
    for tag, size in ((3, 1), (2, 5), (1, LARGE)):
        got = torch.empty(size)
        dist.recv(got, 0, tag=tag)
        assert (got == tag).all(), (tag, got)


def test_receives_choose_by_tag():
    run(2, tags)


def any_source(rank, n):
    if rank > 0:
        for k in range(3):
            dist.send(torch.tensor([float(rank), float(k)]), 0)
        return
    seen = {}
    for _ in range(3 * (n - 1)):
        got = torch.empty(2)
        source = dist.recv(got)
        assert source == got[0]
        assert got[1] == seen.get(source, 0), "messages of one rank come in order"
        seen[source] = seen.get(source, 0) + 1
    assert seen == {r: 3 for r in range(1, n)}


def test_receive_from_any_rank():
    run(4, any_source)


def nobody_waits(rank, n):
    """A receive comes to its end by itself, and so does its future."""
    if rank == 0:
        dist.send(torch.ones(LARGE), 1)
        dist.barrier()
        return
    got, ended = torch.zeros(LARGE), []
    work = dist.irecv(got, 0)
    work.get_future().add_done_callback(lambda future: ended.append(future.value()))
    while not work.is_completed():
        time.sleep(0.001)
    assert got.sum() == LARGE
    while not ended:
        time.sleep(0.001)
    dist.barrier()


def test_a_receive_goes_on_while_nobody_waits():
    run(2, nobody_waits)


def batch(rank, n):
    got = torch.empty(3)
    operations = [dist.P2POp(dist.irecv, got, (rank - 1) % n), dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % n)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert got[0] == (rank - 1) % n


def test_a_batch_of_sends_and_receives():
    run(3, batch)


def to_itself(rank, n):
    got = torch.empty(3)
    work = dist.irecv(got, rank, tag=4)
    dist.isend(torch.full((3,), float(rank)), rank, tag=4).wait()
    work.wait()
    assert got[0] == rank


def test_a_rank_sends_to_itself():
    run(2, to_itself)


def wrong_size(rank, n):
    if rank == 0:
        dist.send(torch.ones(4), 1)
        dist.send(torch.full((2,), 7.0), 1)
        return
    with raises(dist.DistBackendError, "rank 0", "16 bytes", "12"):
        dist.recv(torch.empty(3), 0)
    got = torch.empty(2)
    dist.recv(got, 0)  # the connection is as good as before
    assert got[0] == 7


def test_a_message_of_another_size_is_refused():
    run(2, wrong_size)


def too_late(rank, n):
    if rank == 1:
        got = torch.zeros(2)
        with raises(dist.DistBackendError, "recv from rank 0", "Timed out", "tag 9"):
            dist.irecv(got, 0, tag=9).wait(datetime.timedelta(milliseconds=200))
        dist.recv(got, 0)
        assert got[0] == 1, "the next message has its receive"
    else:
        dist.send(torch.ones(2), 1)
    dist.barrier()


def test_a_receive_without_a_message_ends_at_its_deadline():
    run(2, too_late)


def peer_dies(rank, n):
    got = torch.empty(2)
    if rank == 1:
        dist.recv(got, 0)
        os._exit(9)
    if rank == 0:
        dist.send(torch.ones(2), 1)
        with raises(dist.DistBackendError, "rank 1"):
            dist.recv(got, 1)
        os._exit(0)
    with raises(dist.DistBackendError, "rank 1"):
        dist.recv(got)
    os._exit(0)


def test_a_dead_rank_ends_receives():
    run(3, peer_dies, expect={1: 9}, timeout=datetime.timedelta(seconds=60))
