#!/usr/bin/env python3
"""The calls that vLLM's pynccl makes through ctypes, in its order: an id as a structure passed by value, a warm-up,
collectives, ragged ones as groups, messages, windows.
usage: ctypes_test.py LIBRARY RANKS [cuda]     on host memory, or all ranks on CUDA device 0"""
import ctypes
import os
import re
import sys
import tempfile

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


class HostMemory:
    """Vectors lie where ctypes has them, and calls have completed when they return."""
    stream = None

    def place(self, values):
        return ctypes.addressof(values)

    def fetch(self, values, address):
        pass


class DeviceMemory:
    """Of CUDA device 0, by the driver alone, so that it can be the one of tests/fake_cuda too."""

    def __init__(self):
        self.driver, self.functions = ctypes.CDLL("libcuda.so.1"), {}
        device, context, self.stream = INT(), POINTER(), POINTER()
        self.call("cuInit", 2000, INT(0))
        self.call("cuDeviceGet", 2000, ctypes.byref(device), INT(0))
        self.call("cuDevicePrimaryCtxRetain", 7000, ctypes.byref(context), device)
        self.call("cuCtxPushCurrent", 4000, context)
        self.call("cuStreamCreate", 2000, ctypes.byref(self.stream), INT(1))

    def call(self, name, version, *arguments):
        if name not in self.functions:
            function = POINTER()
            error = self.driver.cuGetProcAddress_v2(name.encode(), ctypes.byref(function), INT(version),
                                                    ctypes.c_uint64(0), None)
            if error != 0 or not function:
                raise RuntimeError(f"the driver has no {name}")
            self.functions[name] = ctypes.CFUNCTYPE(INT)(function.value)
        error = self.functions[name](*arguments)
        if error != 0:
            raise RuntimeError(f"{name} gave {error}")

    def copy(self, to, source, values):
        self.call("cuMemcpyAsync", 4000, ctypes.c_uint64(to), ctypes.c_uint64(source), COUNT(ctypes.sizeof(values)),
                  self.stream)
        self.call("cuStreamSynchronize", 2000, self.stream)

    def place(self, values):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc", 3020, ctypes.byref(address), COUNT(ctypes.sizeof(values)))
        self.copy(address.value, ctypes.addressof(values), values)
        return address.value

    def fetch(self, values, address):
        self.copy(ctypes.addressof(values), address, values)


class Vector:
    """Floats that calls can work on."""

    def __init__(self, memory, values):
        self.memory, self.floats = memory, (ctypes.c_float * len(values))(*values)
        self.base = memory.place(self.floats)

    def at(self, index=0):
        return self.base + 4 * index

    def values(self):
        self.memory.fetch(self.floats, self.base)
        return list(self.floats)

    def __eq__(self, other):
        return self.values() == [float(x) for x in other]


class Rank:
    """One rank, and the calls that pynccl makes for it."""

    def __init__(self, path, rank, n, memory, exchange):
        self.nccl, self.rank, self.n = Library(path), rank, n
        self.memory, self.stream = memory, memory.stream
        version, identity, self.comm = INT(), UniqueId(), ctypes.c_void_p()
        self.nccl.GetVersion(ctypes.byref(version))
        assert version.value >= 21700
        if rank == 0:
            self.nccl.GetUniqueId(ctypes.byref(identity))
        exchange(identity)
        self.nccl.CommInitRank(ctypes.byref(self.comm), n, identity, rank)

    def vector(self, values):
        return Vector(self.memory, values)

    def warm_up(self):
        warm = self.vector([0])
        self.nccl.AllReduce(warm.at(), warm.at(), 1, FLOAT, SUM, self.comm, self.stream)
        assert warm == [0]

    def collectives(self):
        nccl, comm, stream, n = self.nccl, self.comm, self.stream, self.n
        mine, out = self.vector([self.rank + 1] * 4), self.vector([0] * 4)
        total = n * (n + 1) / 2
        nccl.AllReduce(mine.at(), out.at(), 4, FLOAT, SUM, comm, stream)
        assert out == [total] * 4, out.values()
        nccl.AllReduce(mine.at(), mine.at(), 4, FLOAT, AVG, comm, stream)
        assert all(abs(x - total / n) < 1e-6 for x in mine.values())
        mine, every, part = self.vector([self.rank] * 2), self.vector([-1] * (2 * n)), self.vector([0] * 2)
        nccl.AllGather(mine.at(), every.at(), 2, FLOAT, comm, stream)
        assert every == [i // 2 for i in range(2 * n)], every.values()
        nccl.ReduceScatter(every.at(), part.at(), 2, FLOAT, SUM, comm, stream)
        assert part == [n * self.rank] * 2
        nccl.Reduce(mine.at(), part.at(), 2, FLOAT, SUM, n - 1, comm, stream)
        if self.rank == n - 1:
            assert part == [n * (n - 1) / 2] * 2
        nccl.Broadcast(mine.at(), mine.at(), 2, FLOAT, n - 1, comm, stream)
        assert mine == [n - 1] * 2

    def ragged(self):
        """Rank r has r + 1 elements: gathered by a broadcast from each, reduced and scattered by a reduce to each."""
        nccl, n = self.nccl, self.n
        starts = [r * (r + 1) // 2 for r in range(n + 1)]
        every, mine = self.vector([-1] * starts[n]), self.vector([self.rank] * (self.rank + 1))
        nccl.GroupStart()
        for root in range(n):
            nccl.Broadcast(mine.at(), every.at(starts[root]), root + 1, FLOAT, root, self.comm, self.stream)
        nccl.GroupEnd()
        assert every == [r for r in range(n) for _ in range(r + 1)], every.values()
        nccl.GroupStart()
        for root in range(n):
            nccl.Reduce(every.at(starts[root]), mine.at(), root + 1, FLOAT, SUM, root, self.comm, self.stream)
        nccl.GroupEnd()
        assert mine == [n * self.rank] * (self.rank + 1), mine.values()

    def messages(self):
        mine, theirs = self.vector([self.rank] * 3), self.vector([-1] * 3)
        if self.rank > 0:
            self.nccl.Recv(theirs.at(), 3, FLOAT, self.rank - 1, self.comm, self.stream)
            assert theirs == [self.rank - 1] * 3
        if self.rank < self.n - 1:
            self.nccl.Send(mine.at(), 3, FLOAT, self.rank + 1, self.comm, self.stream)
            assert mine == [self.rank] * 3  # and it has been sent before it is freed

    def windows(self):
        memory, window = self.vector([0] * 1024), ctypes.c_void_p()
        self.nccl.CommWindowRegister(self.comm, memory.at(), 4096, ctypes.byref(window), 1)
        self.nccl.CommWindowDeregister(self.comm, window)


def serve(path, number, n, memory, exchange):
    rank = Rank(path, number, n, memory, exchange)
    rank.warm_up()
    rank.collectives()
    rank.ragged()
    rank.messages()
    rank.windows()
    rank.nccl.CommDestroy(rank.comm)


def exchange_by(pipes, rank):
    """How an id gets from rank 0 to the others."""
    def exchange(identity):
        if rank == 0:
            for _, write in pipes[1:]:
                os.write(write, bytes(identity.internal))
        else:
            ctypes.memmove(identity.internal, os.read(pipes[rank][0], 128), 128)
    return exchange


def run_ranks(path, n, on_device):
    """Whether one of them failed."""
    pipes = [os.pipe() for _ in range(n)]
    children = []
    for rank in range(n):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                serve(path, rank, n, DeviceMemory() if on_device else HostMemory(), exchange_by(pipes, rank))
                status = 0
            except (OSError, RuntimeError, AssertionError) as error:
                print(f"rank {rank}: {error!r}", flush=True)
            os._exit(status)
        children.append(pid)
    return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)


def check_log(text, n):
    """On a device the log has its number, as NCCL's has.  Returns whether that is wrong."""
    lines = re.findall(r"^\S+:\d+:\d+ \[0\] NCCL INFO ncclCommInitRank .*cudaDev 0 .* - Init COMPLETE$", text, re.M)
    if len(lines) != n:
        print(f"{len(lines)} of {n} ranks say that they are up on device 0:\n{text}")
    return len(lines) != n


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["cuda"]):
        sys.exit(__doc__)
    path, n, on_device = sys.argv[1], int(sys.argv[2]), len(sys.argv) == 4
    if not on_device:
        os.environ["TUTTI_DEVICE"] = "host"
        return run_ranks(path, n, on_device)
    with tempfile.NamedTemporaryFile("r") as log:
        os.environ |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": log.name}
        failed = run_ranks(path, n, on_device)
        return failed or check_log(log.read(), n)


if __name__ == "__main__":
    sys.exit(main())
