"""Every collective of torch.distributed, on values that are exact in every type.  A wrong one raises AssertionError."""
import torch
import torch.distributed as dist

INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
COUNTS = [1, 1000, 65537]


class Ranks:
    def __init__(self, device, backend):
        self.device, self.nccl = device, backend == "nccl"
        self.rank, self.n = dist.get_rank(), dist.get_world_size()
        self.types = INTEGERS + FLOATS[: 4 if self.nccl else 2]

    def full(self, count, value, dtype=torch.float32):
        return torch.full((count,), value, dtype=dtype, device=self.device)

    def mine(self, count, dtype=torch.float32):
        return self.full(count, self.rank + 1, dtype)

    def each(self, count, dtype=torch.float32):
        """What all ranks have, one after the other."""
        return torch.cat([self.full(count, r + 1, dtype) for r in range(self.n)])


def same(got, want, what):
    assert got.dtype == want.dtype and torch.equal(got, want), f"{what}: got {got.flatten()[:4]}, not {want.flatten()[:4]}"


def reductions(c):
    factorial = 1
    for r in range(c.n):
        factorial *= r + 1
    wanted = {dist.ReduceOp.SUM: c.n * (c.n + 1) // 2, dist.ReduceOp.PRODUCT: factorial, dist.ReduceOp.MIN: 1,
              dist.ReduceOp.MAX: c.n}
    for dtype in c.types:
        for count in COUNTS:
            for op, value in wanted.items():
                x = c.mine(count, dtype)
                dist.all_reduce(x, op)
                same(x, c.full(count, value, dtype), f"all_reduce {op} of {count} {dtype}")
    for root in {0, c.n - 1}:
        x = c.mine(1000)
        dist.reduce(x, root)
        if c.rank == root:
            same(x, c.full(1000, wanted[dist.ReduceOp.SUM]), f"reduce to {root}")


def averages(c):
    if not c.nccl:
        return
    for dtype in FLOATS:
        x = c.full(1000, c.n * (c.rank + 1), dtype)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        same(x, c.full(1000, c.n * (c.n + 1) // 2, dtype), f"average of {dtype}")


def broadcasts(c):
    for root in range(c.n):
        for dtype in c.types + [torch.bool]:
            x = c.full(999, c.rank == root, dtype)
            dist.broadcast(x, root)
            same(x, c.full(999, True, dtype), f"broadcast of {dtype} from {root}")


def gathers(c):
    for count in COUNTS:
        out = c.full(count * c.n, 0)
        dist.all_gather_into_tensor(out, c.mine(count))
        same(out, c.each(count), f"all_gather_into_tensor of {count}")
        parts = [c.full(count, 0) for _ in range(c.n)]
        dist.all_gather(parts, c.mine(count))
        same(torch.cat(parts), c.each(count), f"all_gather of {count}")
    root = c.n - 1
    parts = [c.full(10, 0) for _ in range(c.n)] if c.rank == root else None
    dist.gather(c.mine(10), parts, root)
    if c.rank == root:
        same(torch.cat(parts), c.each(10), "gather")
    blocks = list(c.each(10).chunk(c.n)) if c.rank == root else None
    x = c.full(10, 0)
    dist.scatter(x, blocks, root)
    same(x, c.mine(10), "scatter")


def ragged_gather(c):
    if not c.nccl:
        return
    parts = [c.full(r + 1, 0) for r in range(c.n)]
    dist.all_gather(parts, c.mine(c.rank + 1))
    for r, part in enumerate(parts):
        same(part, c.full(r + 1, r + 1), f"all_gather of unequal parts, from {r}")


def scatters(c):
    total = c.n * (c.n + 1) // 2
    for count in COUNTS:
        out = c.full(count, 0)
        dist.reduce_scatter_tensor(out, c.mine(count * c.n))
        same(out, c.full(count, total), f"reduce_scatter_tensor of {count}")
        if c.nccl:
            dist.reduce_scatter(out, [c.mine(count) for _ in range(c.n)])
            same(out, c.full(count, total), f"reduce_scatter of {count}")


def exchanges(c):
    for count in COUNTS:
        out = c.full(count * c.n, 0)
        dist.all_to_all_single(out, c.mine(count * c.n))
        same(out, c.each(count), f"all_to_all_single of {count}")
    # Rank r sends s + 1 elements to each rank s.
    sent = [s + 1 for s in range(c.n)]
    received = [c.rank + 1] * c.n
    out = c.full(sum(received), 0)
    dist.all_to_all_single(out, c.mine(sum(sent)), received, sent)
    same(out, c.each(c.rank + 1), "all_to_all_single of unequal parts")
    if c.nccl:
        outs = [c.full(c.rank + 1, 0) for _ in range(c.n)]
        dist.all_to_all(outs, [c.mine(s + 1) for s in range(c.n)])
        same(torch.cat(outs), c.each(c.rank + 1), "all_to_all")


def messages(c):
    if c.n == 1:
        return
    to, source = (c.rank + 1) % c.n, (c.rank - 1) % c.n
    x = c.full(5000, 0)
    work = dist.batch_isend_irecv([dist.P2POp(dist.isend, c.mine(5000), to), dist.P2POp(dist.irecv, x, source)])
    for w in work:
        w.wait()
    same(x, c.full(5000, source + 1), "batch_isend_irecv")
    if c.rank == 0:
        dist.send(c.mine(7), 1)
    elif c.rank == 1:
        x = c.full(7, 0)
        dist.recv(x, 0)
        same(x, c.full(7, 1), "send and recv")


def groups(c):
    """Halves of the ranks, each a communicator of its own, at work at the same time."""
    half = [r for r in range(c.n) if r % 2 == c.rank % 2]
    members = [dist.new_group([r for r in range(c.n) if r % 2 == parity]) for parity in range(min(2, c.n))]
    x = c.mine(100)
    dist.all_reduce(x, group=members[c.rank % 2])
    same(x, c.full(100, sum(r + 1 for r in half)), "all_reduce of a group")


def objects(c):
    everything = [None] * c.n
    dist.all_gather_object(everything, {"rank": c.rank, "text": "x" * (100 * c.rank)})
    assert [one["rank"] for one in everything] == list(range(c.n)), "all_gather_object"
    box = [("from", c.rank)]
    dist.broadcast_object_list(box, src=c.n - 1)
    assert box == [("from", c.n - 1)], "broadcast_object_list"


def asynchronous(c):
    xs = [c.mine(1000) for _ in range(20)]
    for work in [dist.all_reduce(x, async_op=True) for x in xs]:
        work.wait()
    for x in xs:
        same(x, c.full(1000, c.n * (c.n + 1) // 2), "asynchronous all_reduce")


def graphs(c):
    """Captured once, replayed on new values."""
    if not c.nccl:
        return
    x, stream = c.mine(1000), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        dist.all_reduce(x.clone())
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(x)
    for value in (1, 2, 3):
        x.fill_(value)
        graph.replay()
        torch.cuda.synchronize()
        same(x, c.full(1000, value * c.n), f"replay {value} of a captured all_reduce")


CHECKS = [reductions, averages, broadcasts, gathers, ragged_gather, scatters, exchanges, messages, groups, objects,
          asynchronous, graphs]


def check_all(device, backend):
    """Runs them; the names of those that ran."""
    c = Ranks(device, backend)
    for check in CHECKS:
        print(check.__name__, flush=True)
        check(c)
        dist.barrier()
    return [check.__name__ for check in CHECKS]
