#!/usr/bin/env python3
"""The calls that vLLM's pynccl makes through ctypes, in its order, on host memory: an id as a structure passed by value, a
warm-up, collectives, ragged ones as groups, messages, windows.   usage: ctypes_test.py LIBRARY RANKS"""
import ctypes
import os
import sys

FLOAT, SUM, AVG = 7, 0, 4


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


POINTER, COUNT, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
# Arguments of every function; all give an int.
SIGNATURES = {
    "ncclGetVersion": [POINTER],
    "ncclGetUniqueId": [POINTER],
    "ncclCommInitRank": [POINTER, INT, UniqueId, INT],
    "ncclAllReduce": [POINTER, POINTER, COUNT, INT, INT, POINTER, POINTER],
    "ncclReduce": [POINTER, POINTER, COUNT, INT, INT, INT, POINTER, POINTER],
    "ncclAllGather": [POINTER, POINTER, COUNT, INT, POINTER, POINTER],
    "ncclReduceScatter": [POINTER, POINTER, COUNT, INT, INT, POINTER, POINTER],
    "ncclSend": [POINTER, COUNT, INT, INT, POINTER, POINTER],
    "ncclRecv": [POINTER, COUNT, INT, INT, POINTER, POINTER],
    "ncclBroadcast": [POINTER, POINTER, COUNT, INT, INT, POINTER, POINTER],
    "ncclCommDestroy": [POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclCommWindowRegister": [POINTER, POINTER, COUNT, POINTER, INT],
    "ncclCommWindowDeregister": [POINTER, POINTER],
}


class Library:
    def __init__(self, path):
        self.cdll = ctypes.CDLL(path)
        self.cdll.ncclGetErrorString.restype = ctypes.c_char_p
        for name, arguments in SIGNATURES.items():
            function = getattr(self.cdll, name)
            function.restype, function.argtypes = INT, arguments

    def __getattr__(self, name):
        def call(*arguments):
            result = getattr(self.cdll, "nccl" + name)(*arguments)
            if result != 0:
                raise RuntimeError(f"{name}: {self.cdll.ncclGetErrorString(result).decode()}")
        return call


class Vector:
    """Floats, and where each of them lies."""

    def __init__(self, values):
        self.values = (ctypes.c_float * len(values))(*values)

    def at(self, index=0):
        return ctypes.addressof(self.values) + 4 * index

    def __eq__(self, other):
        return list(self.values) == [float(x) for x in other]


def collectives(nccl, comm, rank, n):
    mine = Vector([rank + 1] * 4)
    out = Vector([0] * 4)
    total = n * (n + 1) / 2
    nccl.AllReduce(mine.at(), out.at(), 4, FLOAT, SUM, comm, None)
    assert out == [total] * 4, list(out.values)
    nccl.AllReduce(mine.at(), mine.at(), 4, FLOAT, AVG, comm, None)
    assert all(abs(x - total / n) < 1e-6 for x in mine.values)
    mine = Vector([rank] * 2)
    every = Vector([-1] * (2 * n))
    nccl.AllGather(mine.at(), every.at(), 2, FLOAT, comm, None)
    assert every == [i // 2 for i in range(2 * n)], list(every.values)
    part = Vector([0] * 2)
    nccl.ReduceScatter(every.at(), part.at(), 2, FLOAT, SUM, comm, None)
    assert part == [n * rank] * 2
    nccl.Reduce(mine.at(), part.at(), 2, FLOAT, SUM, n - 1, comm, None)
    if rank == n - 1:
        assert part == [n * (n - 1) / 2] * 2
    nccl.Broadcast(mine.at(), mine.at(), 2, FLOAT, n - 1, comm, None)
    assert mine == [n - 1] * 2


def ragged(nccl, comm, rank, n):
    """Rank r has r + 1 elements: gathered by a broadcast from each, reduced and scattered by a reduce to each."""
    starts = [r * (r + 1) // 2 for r in range(n + 1)]
    every = Vector([-1] * starts[n])
    mine = Vector([rank] * (rank + 1))
    nccl.GroupStart()
    for root in range(n):
        nccl.Broadcast(mine.at(), every.at(starts[root]), root + 1, FLOAT, root, comm, None)
    nccl.GroupEnd()
    assert every == [r for r in range(n) for _ in range(r + 1)], list(every.values)
    nccl.GroupStart()
    for root in range(n):
        nccl.Reduce(every.at(starts[root]), mine.at(), root + 1, FLOAT, SUM, root, comm, None)
    nccl.GroupEnd()
    assert mine == [n * rank] * (rank + 1), list(mine.values)


def messages(nccl, comm, rank, n):
    mine, theirs = Vector([rank] * 3), Vector([-1] * 3)
    if rank > 0:
        nccl.Recv(theirs.at(), 3, FLOAT, rank - 1, comm, None)
        assert theirs == [rank - 1] * 3
    if rank < n - 1:
        nccl.Send(mine.at(), 3, FLOAT, rank + 1, comm, None)


def windows(nccl, comm):
    memory, window = Vector([0] * 1024), ctypes.c_void_p()
    nccl.CommWindowRegister(comm, memory.at(), 4096, ctypes.byref(window), 1)
    nccl.CommWindowDeregister(comm, window)


def serve(path, rank, n, read, writes):
    nccl = Library(path)
    version, identity, comm = INT(), UniqueId(), ctypes.c_void_p()
    nccl.GetVersion(ctypes.byref(version))
    assert version.value >= 21700
    if rank == 0:
        nccl.GetUniqueId(ctypes.byref(identity))
        for pipe in writes:
            os.write(pipe, bytes(identity.internal))
    else:
        ctypes.memmove(identity.internal, os.read(read, 128), 128)
    nccl.CommInitRank(ctypes.byref(comm), n, identity, rank)
    warm = Vector([0])
    nccl.AllReduce(warm.at(), warm.at(), 1, FLOAT, SUM, comm, None)
    collectives(nccl, comm, rank, n)
    ragged(nccl, comm, rank, n)
    messages(nccl, comm, rank, n)
    windows(nccl, comm)
    nccl.CommDestroy(comm)


def main():
    path, n = sys.argv[1], int(sys.argv[2])
    os.environ["TUTTI_DEVICE"] = "host"
    pipes = [os.pipe() for _ in range(n)]
    children = []
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                serve(path, rank, n, pipes[rank][0], [write for _, write in pipes[1:]])
                status = 0
            except (RuntimeError, AssertionError) as error:
                print(f"rank {rank}: {error!r}", flush=True)
            os._exit(status)
        children.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)


if __name__ == "__main__":
    sys.exit(main())
