"""Every collective against what it is by definition: all types, odd numbers of ranks, no bytes, memory with gaps."""
import pytest
import torch
import torch.distributed as dist
from ranks import run

import tutti

TYPES = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
         torch.float64, torch.bool, *(getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name))]
COUNTS = [0, 1, 7, 1000]
RANKS = [1, 2, 3, 5]


def value(rank, count, dtype=torch.float32):
    """Small whole numbers, which every type has."""
    return (torch.arange(count) % 5 + rank + 1).to(dtype)


def same(got, expected, what):
    assert torch.equal(got, expected), f"{what}: {got} instead of {expected}"


def all_types(rank, n):
    for dtype in TYPES:
        for count in COUNTS:
            what = f"{dtype} x {count}"
            every = [value(r, count, dtype) for r in range(n)]
            x = value(rank, count, dtype)
            dist.broadcast(x, n - 1)
            same(x, every[n - 1], f"broadcast {what}")
            out = [torch.empty(count, dtype=dtype) for _ in range(n)]
            dist.all_gather(out, value(rank, count, dtype))
            same(torch.cat(out), torch.cat(every), f"all_gather {what}")
            out = torch.empty(count * n, dtype=dtype)
            dist.all_gather_into_tensor(out, value(rank, count, dtype))
            same(out, torch.cat(every), f"all_gather_into_tensor {what}")
            out = torch.empty(count * n, dtype=dtype)
            dist.all_to_all_single(out, torch.cat([value(rank + to, count, dtype) for to in range(n)]))
            same(out, torch.cat([value(r + rank, count, dtype) for r in range(n)]), f"all_to_all_single {what}")


@pytest.mark.parametrize("n_ranks", RANKS)
def test_every_type_is_moved(n_ranks):
    run(n_ranks, all_types)


def all_reductions(rank, n):
    operators = {dist.ReduceOp.SUM: lambda x: x.sum(0), dist.ReduceOp.PRODUCT: lambda x: x.prod(0),
                 dist.ReduceOp.MIN: lambda x: x.amin(0), dist.ReduceOp.MAX: lambda x: x.amax(0)}
    for dtype in TYPES:
        for op, function in operators.items():
            if dtype is torch.bool and op in (dist.ReduceOp.PRODUCT, dist.ReduceOp.SUM):
                continue
            for count in COUNTS:
                what = f"{op} {dtype} x {count}"
                stacked = torch.stack([value(r, count, dtype).double() for r in range(n)])
                expected = function(stacked).to(torch.int64).to(dtype)  # integers wrap, as the library's do
                x = value(rank, count, dtype)
                dist.all_reduce(x, op)
                same(x, expected, f"all_reduce {what}")
                x = value(rank, count, dtype)
                dist.reduce(x, n - 1, op)
                if rank == n - 1:
                    same(x, expected, f"reduce {what}")
                out = torch.empty(count, dtype=dtype)
                dist.reduce_scatter_tensor(out, value(rank, count, dtype).repeat(n), op)
                same(out, expected, f"reduce_scatter_tensor {what}")


@pytest.mark.parametrize("n_ranks", [1, 3])
def test_every_type_is_reduced(n_ranks):
    run(n_ranks, all_reductions)


def other_reductions(rank, n):
    x = torch.tensor([rank + 1, 255], dtype=torch.uint8)
    for op, expected in ((dist.ReduceOp.BAND, 1 & 2 & 3), (dist.ReduceOp.BOR, 1 | 2 | 3), (dist.ReduceOp.BXOR, 1 ^ 2 ^ 3)):
        y = x.clone()
        dist.all_reduce(y, op)
        assert y[0] == expected, (op, y)
    x = torch.full((3,), float(rank))
    dist.all_reduce(x, dist.ReduceOp.AVG)
    same(x, torch.ones(3), "avg")
    x = torch.full((3,), 2.0)
    dist.all_reduce(x, dist._make_nccl_premul_sum(float(rank)))
    same(x, torch.full((3,), 6.0), "premul_sum")
    for name in ("float8_e4m3fn", "float8_e5m2"):
        x = torch.full((5,), float(rank)).to(getattr(torch, name))
        dist.group.WORLD.allreduce(x).wait()
        same(x.float(), torch.full((5,), 3.0), name)
    x = torch.full((2, 3), complex(rank, 1), dtype=torch.complex64)
    dist.all_reduce(x)
    same(x, torch.full((2, 3), complex(3, 3), dtype=torch.complex64), "complex sum")
    conjugate = torch.full((2,), complex(rank, 1), dtype=torch.complex128).conj()
    out = [torch.empty(2, dtype=torch.complex128) for _ in range(n)]
    dist.group.WORLD.allgather(out, conjugate).wait()  # dist.all_gather itself refuses them
    same(torch.stack(out)[:, 0], torch.tensor([complex(r, -1) for r in range(n)], dtype=torch.complex128), "conjugate view")


def test_bits_averages_products_and_complex_numbers():
    run(3, other_reductions)


def blocks_of_lists(rank, n):
    gathered = [torch.empty(2, 2) for _ in range(n)] if rank == 1 else None
    dist.gather(torch.full((2, 2), float(rank)), gathered, dst=1)
    if rank == 1:
        same(torch.stack(gathered)[:, 0, 0], torch.arange(float(n)), "gather")
    out = torch.empty(2, 2)
    dist.scatter(out, [torch.full((2, 2), float(r)) for r in range(n)] if rank == 1 else None, src=1)
    same(out, torch.full((2, 2), float(rank)), "scatter")
    out = [torch.empty(r + 1) for r in range(n)]
    dist.all_gather(out, torch.full((rank + 1,), float(rank)))
    same(torch.cat(out), torch.cat([torch.full((r + 1,), float(r)) for r in range(n)]), "uneven all_gather")
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(r)) for r in range(n)])
    same(out, torch.full((rank + 1,), float(rank * n)), "uneven reduce_scatter")
    out = [torch.empty(rank + 1) for _ in range(n)]
    dist.all_to_all(out, [torch.full((r + 1,), float(rank)) for r in range(n)])
    same(torch.stack(out)[:, 0], torch.arange(float(n)), "uneven all_to_all")
    sent = torch.arange(n * (n + 1) / 2) + 100 * rank
    out = torch.empty(n * (rank + 1))
    dist.all_to_all_single(out, sent, [rank + 1] * n, [r + 1 for r in range(n)])
    start = rank * (rank + 1) // 2
    same(out, torch.cat([torch.arange(start, start + rank + 1) + 100.0 * r for r in range(n)]), "uneven all_to_all_single")


@pytest.mark.parametrize("n_ranks", [2, 3, 5])
def test_lists_and_blocks_of_different_sizes(n_ranks):
    run(n_ranks, blocks_of_lists)


def gaps(rank, n):
    """Transposed, strided and expanded memory gives what contiguous memory gives, and keeps its own layout."""
    x = torch.full((4, 6), float(rank)).t()
    strides = x.stride()
    dist.all_reduce(x)
    assert x.stride() == strides
    same(x, torch.full((6, 4), float(sum(range(n)))), "all_reduce")
    buffer = torch.full((10,), -1.0)
    dist.broadcast(buffer[::2] if rank else torch.arange(5.0), 0)
    if rank:
        same(buffer, torch.tensor([0.0, -1, 1, -1, 2, -1, 3, -1, 4, -1]), "broadcast into every second element")
    out = torch.empty(3, n * 2).t()
    dist.all_gather_into_tensor(out, torch.full((3, 2), float(rank)).t())
    same(out[:, 0], torch.arange(float(n)).repeat_interleave(2), "all_gather_into_tensor")
    if rank == 0:
        dist.send(torch.arange(6.0).view(2, 3).t(), 1)
    elif rank == 1:
        got = torch.empty(6)[::2].expand(2, 3).clone().t()
        dist.recv(got, 0)
        same(got, torch.arange(6.0).view(2, 3).t(), "send and recv")


def test_memory_with_gaps():
    run(2, gaps)


def way(rank, turn, x):
    """The tensor as the shortest way takes it, or with gaps, or to be negated, by turns."""
    kind = (rank + turn) % 3
    if kind == 1:
        room = torch.zeros(*x.shape, 2)
        room[..., 0] = x
        return room[..., 0]
    if kind == 2:
        x = torch._neg_view(-x)
        assert x.is_neg() and x.is_contiguous()
    return x


def ways(rank, n):
    every = [value(r, 6) for r in range(n)]
    for turn in range(3):
        x = way(rank, turn, value(rank, 6))
        dist.all_reduce(x)
        same(x, sum(every), f"all_reduce {turn}")
        x = way(rank, turn, value(rank, 6))
        dist.broadcast(x, 1)
        same(x, every[1], f"broadcast {turn}")
        out = way(rank, turn + 1, torch.zeros(6 * n))
        dist.all_gather_into_tensor(out, way(rank, turn, value(rank, 6)))
        same(out, torch.cat(every), f"all_gather_into_tensor {turn}")
        out = way(rank, turn + 1, torch.zeros(2))
        dist.reduce_scatter_tensor(out, way(rank, turn, torch.arange(2.0 * n) + rank))
        same(out, sum(torch.arange(2.0 * n) + r for r in range(n))[2 * rank:2 * rank + 2], f"reduce_scatter_tensor {turn}")
        out = way(rank, turn + 1, torch.zeros(n))
        dist.all_to_all_single(out, way(rank, turn, torch.arange(float(n)) * 10 + rank))
        same(out, torch.tensor([10.0 * rank + r for r in range(n)]), f"all_to_all_single {turn}")
        x = value(rank, 6)
        work = dist.all_reduce(x, async_op=(rank + turn) % 2 == 0)
        if work is not None:
            work.wait()
        same(x, sum(every), f"all_reduce, asynchronous on some ranks {turn}")


def test_ranks_meet_whichever_way_their_tensors_take():
    run(3, ways)


def test_a_communicator_refuses_views_that_are_to_be_negated():
    with tutti.Communicator.init(1, 0, tutti.get_unique_id()) as comm:
        x = torch._neg_view(torch.ones(3))
        with pytest.raises(tutti.InvalidArgument, match="resolve_neg"):
            comm.all_reduce(x)
        x = x.resolve_neg()
        comm.all_reduce(x)
        same(x, torch.full((3,), -1.0), "all_reduce")


def sparse(rank, n):
    x = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (n + 2,), check_invariants=True)
    dist.all_reduce(x)
    expected = torch.zeros(n + 2)
    expected[0], expected[1:n + 1] = n, 2.0
    same(x.to_dense(), expected, "sparse")
    empty = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64), torch.empty(0, 2), (4, 2), check_invariants=True)
    if rank == 0:
        empty = torch.sparse_coo_tensor([[3]], [[1.0, 5.0]], (4, 2), check_invariants=True)
    dist.all_reduce(empty)
    same(empty.to_dense()[3], torch.tensor([1.0, 5.0]), "rows of one rank only")


def test_sparse_tensors_are_added():
    run(3, sparse)


def sparse_asynchronously(rank, n):
    """Rank 0 is past its call before any other rank has begun its own."""
    store = dist.distributed_c10d._get_default_store()
    first, second = (torch.sparse_coo_tensor([[0, rank + 1]], [1.0, value], (n + 2,), check_invariants=True) for value in (2.0, 3.0))
    if rank != 0:
        store.wait(["rank 0 goes on"])
    work = dist.all_reduce(first, async_op=True)
    if rank == 0:
        assert not work.is_completed()
        store.set("rank 0 goes on", "yes")
    other = dist.all_reduce(second, async_op=True)
    dense = torch.ones(3)
    dist.all_reduce(dense)
    assert dense[2] == n
    assert other.get_future().wait()[0] is second
    work.wait()
    assert work.is_completed() and work.is_success() and work.result()[0] is first
    for x, value in ((first, 2.0), (second, 3.0)):
        expected = torch.zeros(n + 2)
        expected[0], expected[1:n + 1] = n, value
        same(x.to_dense(), expected, "sparse, asynchronously")
    work = dist.all_reduce(torch.eye(3 + rank).to_sparse(), async_op=True)
    try:
        work.wait()
    except dist.DistBackendError as error:
        assert "has a sparse tensor of shape" in str(error) and work.exception() is error
    else:
        raise AssertionError("shapes that differ were added")


def test_sparse_tensors_are_added_while_the_caller_goes_on():
    run(3, sparse_asynchronously)


def coalesced(rank, n):
    a, b = torch.full((3,), float(rank)), torch.full((2, 2), float(rank))
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(a)
        dist.all_reduce(b)
    manager.wait()
    assert a[0] == b[0, 0] == sum(range(n)), (a, b)
    total, first = torch.ones(2), torch.full((2,), float(rank + 1))
    with dist._coalescing_manager(device=torch.device("cpu")):
        dist.all_reduce(total)
        dist.broadcast(first.view(2, 1)[:, 0], 0)
    assert total[0] == n and first[0] == 1, (total, first)
    outs = [[torch.empty(2), torch.empty(3)] for _ in range(n)]
    dist.group.WORLD.allgather_coalesced(outs, [torch.full((2,), float(rank)), torch.full((3,), float(rank))]).wait()
    assert [out[1][2].item() for out in outs] == list(range(n))


def test_coalesced_calls():
    run(3, coalesced)


def objects(rank, n):
    everything = [None] * n
    dist.all_gather_object(everything, {"rank": rank, "text": "x" * rank})
    assert everything == [{"rank": r, "text": "x" * r} for r in range(n)]
    words = ["one", 2, None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(words, 0)
    assert words == ["one", 2, None]
    mine = [None]
    dist.scatter_object_list(mine, [{"for": r} for r in range(n)] if rank == 1 else None, src=1)
    assert mine == [{"for": rank}]
    gathered = [None] * n if rank == 2 else None
    dist.gather_object(rank, gathered, dst=2)
    assert gathered == (list(range(n)) if rank == 2 else None)
    passed = [f"from {rank}", rank] if rank < 2 else [None] * 2
    if rank == 0:
        dist.send_object_list(passed, dst=2)
    elif rank == 2:
        dist.recv_object_list(passed, src=0)
        assert passed == ["from 0", 0]


def test_objects():
    run(3, objects)
