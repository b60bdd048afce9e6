"""Times that no implementation can go below on this machine, from what was measured of it.  No processes, no clock.

S is the message size as nccl-tests counts it, N the ranks, C = min(N, cpus) the cores that work, k = ceil(N / cpus) the
ranks that share a core.  A bound is the largest of its terms; each holds by itself:

  memory     bytes that all ranks together must read and write, though every rank could reach every buffer, divided by
             the fastest that C cores read and write buffers of that total size
  hop        a rank that needs something of every other waits for at least one cache line to cross between two cores
             (N > 1 on more than one cpu)
  switch     ranks that share a core must each run once per operation: k - 1 hand-overs by yield.  With new data ranks
             meet before each call: the first of a core needs what the last of it sends, and the core back: k of them
  sockets    tcp: bytes that must cross between ranks, divided by what two cores push through loopback sockets
  message    tcp: one way of a message between two ranks; for more ranks the processor time of the fewest messages that
             connect all of them, shared by C cores

Broadcast and reduce are called back to back and the root may run ahead, so no hop, switch or single message bounds them.

Beside it, for plain memory on two ranks with a core each (plain_bound):

  crossing   bytes that must cross between the memory of two processes which have mapped none of it, by the faster of the
             two ways that are known: both copy through shared memory at once, or the system copies (process_vm_readv);
             of AllGather and AllToAll with the copy of a rank's own block between
"""
import json

# collective: (bytes read, bytes written by all ranks, bytes across sockets, fewest messages), in units of S; messages
# as a number.  A direct reduction reads every rank's input once and writes each result once.
_MOVED = {
    "allreduce": lambda n: (n, n, 2 * (n - 1), 2 * (n - 1)),
    "allgather": lambda n: (1, n, n - 1, 2 * (n - 1)),
    "reducescatter": lambda n: (n, 1, n - 1, 2 * (n - 1)),
    "alltoall": lambda n: (n, n, n - 1, 2 * (n - 1)),
    "broadcast": lambda n: (1, n - 1, n - 1, n - 1),
    "reduce": lambda n: (n, 1, n - 1, n - 1),
    "barrier": lambda n: (0, 0, 0, 2 * (n - 1)),
    "pingpong": lambda n: (1, 1, 1, 1),
}
_FORMULA = {
    "allreduce": "N S + N S", "allgather": "S + N S", "reducescatter": "N S + S", "alltoall": "N S + N S",
    "broadcast": "S + (N-1) S", "reduce": "N S + S", "barrier": "-", "pingpong": "S + S",
}
# collective on two ranks: what crosses as (form, part of S), one after the other; a list of such ways.
_CROSSING = {
    "allreduce": [[("exchange", 1.0)], [("exchange", 0.5), ("exchange", 0.5)]],
    "allgather": [[("exchange_own", 0.5)]], "reducescatter": [[("exchange", 0.5)]], "alltoall": [[("exchange_own", 0.5)]],
    "broadcast": [[("one_way", 1.0)]], "reduce": [[("one_way", 1.0)]], "pingpong": [[("one_way", 1.0)]],
}
ROOTED = ("broadcast", "reduce")
LEAST_TOLD = 0.01  # us; nothing takes less, and such a bound is one of memory for a few bytes


def formula(op):
    """Bytes read + written by all ranks, as text."""
    return _FORMULA[op]


def read_machine(path):
    """The machine's figures from a file of `limits --json`.  Errors: OSError, ValueError, KeyError."""
    with open(path) as f:
        return json.load(f)["limits"]


def parse_machine(text):
    """The lines of machine_limits: {"cpus": n, "latency": {what: us}, "bandwidth": [...], "socket": [...]}."""
    machine = {"cpus": 1, "latency": {}, "bandwidth": [], "socket": [], "crossing": []}
    for line in text.splitlines():
        kind, *pairs = line.split()
        values = dict(p.split("=", 1) for p in pairs)
        if kind == "machine":
            machine["cpus"] = int(values["cpus"])
        elif kind == "latency":
            machine["latency"][values["what"]] = float(values["us"])
        elif kind == "bandwidth":
            machine["bandwidth"].append({"kernel": values["kernel"], "threads": int(values["threads"]),
                                         "bytes": int(values["bytes"]), "traffic": float(values["traffic"])})
        elif kind == "socket":
            machine["socket"].append({"bytes": int(values["bytes"]), "traffic": float(values["traffic"])})
        elif kind == "crossing":
            machine["crossing"].append(dict(values, bytes=int(values["bytes"]), us=float(values["us"])))
        else:
            raise ValueError(f"machine_limits printed {line!r}")
    return machine


_BUFFERS = {"copy": 2, "copy_nt": 2, "add": 3, "add_nt": 3, "add_in_place": 2}


def traffic(machine, cores, footprint):
    """GB/s that `cores` read and write together: the fastest kernel on buffers of at most `footprint` bytes in total,
    the largest such ones measured; a bound must not be drawn from larger, slower ones."""
    threads = max((b["threads"] for b in machine["bandwidth"] if b["threads"] <= cores), default=0)
    rows = [(b["bytes"] * _BUFFERS[b["kernel"]] * threads, b) for b in machine["bandwidth"] if b["threads"] == threads]
    if not rows:
        return 0.0
    best = 0.0
    for kernel in {b["kernel"] for _, b in rows}:
        of = sorted((f, b["traffic"]) for f, b in rows if b["kernel"] == kernel)
        fitting = [t for f, t in of if f <= footprint] or [of[0][1]]
        best = max(best, fitting[-1])
    return best


def socket_traffic(machine, size):
    rows = sorted((s["bytes"], s["traffic"]) for s in machine["socket"])
    fitting = [t for b, t in rows if b <= size] or [t for _, t in rows[:1]]
    return fitting[-1] if fitting else 0.0


def crossing_us(machine, form, data, size):
    """Microseconds by the faster way, on a straight line between two sizes; None outside of those measured."""
    best = {}
    for row in machine.get("crossing", ()):
        if (row["form"], row["data"]) == (form, data):
            best[row["bytes"]] = min(row["us"], best.get(row["bytes"], row["us"]))
    below = max((b for b in best if b <= size), default=None)
    above = min((b for b in best if b >= size), default=None)
    if below is None or above is None:
        return None
    if below == above:
        return best[below]
    return best[below] + (best[above] - best[below]) * (size - below) / (above - below)


def plain_bound(machine, op, size, ranks, data):
    """Microseconds for plain memory over shared memory; None where nothing is known."""
    if ranks != 2 or machine["cpus"] < 2:
        return None
    ways = [[crossing_us(machine, form, data, size * part) for form, part in way] for way in _CROSSING.get(op, ())]
    return min((sum(way) for way in ways if None not in way), default=None)


def bound(machine, op, size, ranks, transport, data="reused"):
    """(microseconds, {term: microseconds}) for one cell."""
    cores = min(ranks, machine["cpus"])
    sharing = -(-ranks // machine["cpus"])
    latency = machine["latency"]
    read, written, crossing, messages = _MOVED[op](ranks)
    terms = {}
    moved = (read + written) * size
    speed = traffic(machine, cores, moved)
    if moved and speed:
        terms["memory"] = moved / speed / 1e3
    if op not in ROOTED:
        if sharing > 1 and op != "pingpong":
            turns = sharing - 1 if data == "reused" else sharing
            terms["switch"] = turns * latency.get("yield_same_cpu", 0.0)
        if machine["cpus"] > 1 and transport == "shm":
            terms["hop"] = latency.get("line_one_way", 0.0)
    if transport == "tcp":
        push = socket_traffic(machine, size)
        if crossing * size and push:
            terms["sockets"] = crossing * size / push / 1e3
        if ranks == 2 and op not in ROOTED:
            terms["message"] = latency.get("tcp_one_way", 0.0)
        else:
            terms["message"] = messages * latency.get("tcp_message_cpu", 0.0) / cores
    return max(terms.values(), default=0.0), terms


def least_us(machine, op, size, ranks, transport, data):
    """Microseconds for plain memory, by all that is known; 0 where that says nothing."""
    plain = plain_bound(machine, op, size, ranks, data) if transport == "shm" else None
    least = max(bound(machine, op, size, ranks, transport, data)[0], plain or 0.0)
    return least if least >= LEAST_TOLD else 0.0
