"""The ranks of tools/clients/cupy: threads, which make every call of cupy.cuda.nccl and check what comes out.
usage: cupy_ranks.py RANKS gpu|host LIBRARY     LIBRARY: whose calls they have to be"""
import ctypes
import os
import sys
import threading
import traceback

import numpy
from cupy.cuda import nccl

COUNTS = [1, 1000, 65537]
TYPES = {nccl.NCCL_INT8: numpy.int8, nccl.NCCL_UINT8: numpy.uint8, nccl.NCCL_INT32: numpy.int32,
         nccl.NCCL_UINT32: numpy.uint32, nccl.NCCL_INT64: numpy.int64, nccl.NCCL_UINT64: numpy.uint64,
         nccl.NCCL_FLOAT16: numpy.float16, nccl.NCCL_FLOAT32: numpy.float32, nccl.NCCL_FLOAT64: numpy.float64}


class HostMemory:
    """Calls have completed when they return."""
    stream = 0

    def place(self, values):
        return values.copy()

    def address(self, array):
        return array.ctypes.data

    def fetch(self, array):
        return array


class GpuMemory:
    """Of device 0, with a stream for each rank."""

    def __init__(self):
        import cupy  # where ranks compute on the host there may be no GPU for it
        self.cupy = cupy
        cupy.cuda.Device(0).use()
        self.queue = cupy.cuda.Stream(non_blocking=True)
        self.stream = self.queue.ptr

    def place(self, values):
        array = self.cupy.asarray(values)
        self.cupy.cuda.Device(0).synchronize()
        return array

    def address(self, array):
        return array.data.ptr

    def fetch(self, array):
        self.queue.synchronize()
        return self.cupy.asnumpy(array)


class Rank:
    def __init__(self, memory, comm, rank, n):
        self.memory, self.comm, self.rank, self.n, self.checks = memory, comm, rank, n, 0

    def full(self, count, value, dtype=numpy.float32):
        return self.memory.place(numpy.full(count, value, dtype))

    def each(self, count):
        """What all ranks have, one after the other."""
        return numpy.repeat(numpy.arange(1, self.n + 1), count).astype(numpy.float32)

    def at(self, array, index=0):
        return self.memory.address(array) + index * array.dtype.itemsize

    def same(self, array, wanted, what):
        got = self.memory.fetch(array)
        assert (got == wanted).all(), f"{what} on rank {self.rank}: got {got[:4]}, not {numpy.ravel(wanted)[:4]}"
        self.checks += 1

    @property
    def stream(self):
        return self.memory.stream


def reductions(r):
    factorial = 1
    for k in range(r.n):
        factorial *= k + 1
    total = r.n * (r.n + 1) // 2
    wanted = {nccl.NCCL_SUM: total, nccl.NCCL_PROD: factorial, nccl.NCCL_MAX: r.n, nccl.NCCL_MIN: 1}
    for kind, dtype in TYPES.items():
        for count in COUNTS:
            for op, value in wanted.items():
                x, y = r.full(count, r.rank + 1, dtype), r.full(count, 0, dtype)
                r.comm.allReduce(r.at(x), r.at(y), count, kind, op, r.stream)
                r.same(y, value, f"allReduce {op} of {count} {dtype.__name__}")
    for root in range(r.n):
        x, y = r.full(1000, r.rank + 1), r.full(1000, -1)
        r.comm.reduce(r.at(x), r.at(y), 1000, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, root, r.stream)
        r.same(y, total if r.rank == root else -1, f"reduce to {root}")
    x, y = r.full(100 * r.n, r.rank + 1), r.full(100, 0)
    r.comm.reduceScatter(r.at(x), r.at(y), 100, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, r.stream)
    r.same(y, total, "reduceScatter")


def copies(r):
    for count in COUNTS:
        x, y = r.full(count, r.rank + 1), r.full(count * r.n, 0)
        r.comm.allGather(r.at(x), r.at(y), count, nccl.NCCL_FLOAT32, r.stream)
        r.same(y, r.each(count), f"allGather of {count}")
    for root in range(r.n):
        x, y = r.full(500, r.rank), r.full(500, -1)
        r.comm.broadcast(r.at(x), r.at(y), 500, nccl.NCCL_FLOAT32, root, r.stream)
        r.same(y, root, f"broadcast from {root}")
        r.comm.bcast(r.at(x), 500, nccl.NCCL_FLOAT32, root, r.stream)
        r.same(x, root, f"bcast from {root}")


def messages(r):
    """An all-to-all of messages, as cupyx.distributed makes it: a group."""
    x, y = r.full(10 * r.n, r.rank + 1), r.full(10 * r.n, 0)
    nccl.groupStart()
    for peer in range(r.n):
        r.comm.send(r.at(x, 10 * peer), 10, nccl.NCCL_FLOAT32, peer, r.stream)
        r.comm.recv(r.at(y, 10 * peer), 10, nccl.NCCL_FLOAT32, peer, r.stream)
    nccl.groupEnd()
    r.same(y, r.each(10), "send and recv")


def children(r):
    """Pairs of ranks, in reverse order; then a child that is aborted."""
    half = r.comm.commSplit(r.rank // 2, -r.rank)
    size = min(2, r.n - r.rank // 2 * 2)
    assert half.size() == size and half.rank_id() == size - 1 - r.rank % 2, (half.size(), half.rank_id())
    x = r.full(7, 1)
    half.allReduce(r.at(x), r.at(x), 7, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, r.stream)
    r.same(x, size, "allReduce of a child")
    half.destroy()
    config = nccl.NcclConfig(split_share=1)
    other = r.comm.commSplit(0, r.rank, config)
    assert other.size() == r.n and other.rank_id() == r.rank
    other.abort()


def mistakes(r):
    x = r.full(1, 1)
    for wrong in (lambda: r.comm.bcast(r.at(x), 1, nccl.NCCL_FLOAT32, r.n, r.stream),
                  lambda: r.comm.allReduce(r.at(x), r.at(x), 1, 99, nccl.NCCL_SUM, r.stream)):
        try:
            wrong()
        except nccl.NcclError as error:
            assert "NCCL_ERROR_INVALID_ARGUMENT" in str(error), error
            continue
        raise AssertionError("a mistake was not noticed")
    r.comm.check_async_error()


def serve(number, n, memory, identity, totals):
    comm = nccl.NcclCommunicator(n, identity, number)
    assert comm.rank_id() == number and comm.size() == n and comm.device_id() == (-1 if memory.stream == 0 else 0)
    rank = Rank(memory, comm, number, n)
    for part in (reductions, copies, messages, children, mistakes):
        part(rank)
    comm.destroy()
    totals.append(rank.checks)


def library_of_calls():
    """The file whose ncclGetVersion a library gets that looks it up as CuPy's does: first among all that are loaded."""
    address = ctypes.cast(ctypes.CDLL(None).ncclGetVersion, ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if start <= address < end:
                return os.path.realpath(line.split()[-1])
    return "an unknown file"


def main():
    n, where, library = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    if library_of_calls() != library:
        sys.exit(f"calls of NCCL go to {library_of_calls()}, not to {library}: is LD_PRELOAD dropped on the way?")
    identity, totals = nccl.get_unique_id(), []

    def thread(number):
        try:
            serve(number, n, HostMemory() if where == "host" else GpuMemory(), identity, totals)
        except BaseException:  # the other ranks wait for this one
            traceback.print_exc()
            os._exit(1)

    threads = [threading.Thread(target=thread, args=(number,)) for number in range(n)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if where == "host":  # several communicators of one thread; on a GPU one each device, so only where there are several
        for comm in nccl.NcclCommunicator.initAll(n):
            comm.destroy()
    version = nccl.get_version()
    print(f"{sum(totals)} checks, NCCL {version // 10000}.{version // 100 % 100}.{version % 100}, built for "
          f"{nccl.get_build_version()}, {where} memory")


if __name__ == "__main__":
    main()
