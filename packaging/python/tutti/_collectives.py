"""The calls of a communicator: collectives, their v forms, and point to point.

Arrays are whatever has the buffer protocol, __array_interface__, DLPack or __cuda_array_interface__, contiguous.  Without
a stream a call has completed when it returns; with one it returns once enqueued, and the stream keeps the arrays."""
import ctypes

from . import _fork
from ._calls import array, collective
from ._library import library
from .errors import InvalidArgument, check, error_of
from .operators import Operator
from .streams import Stream, in_group, keep_in_group, stream_handle
from .types import SUM, Kind

_ALL_REDUCE, _BROADCAST, _REDUCE, _ALL_GATHER = (int(k) for k in (Kind.ALL_REDUCE, Kind.BROADCAST, Kind.REDUCE, Kind.ALL_GATHER))
_REDUCE_SCATTER, _ALL_TO_ALL, _GATHER, _SCATTER = (int(k) for k in (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.GATHER, Kind.SCATTER))
_SEND, _RECV = int(Kind.SEND), int(Kind.RECV)


class _Counts:
    """Counts and displacements of a v form as C takes them; without displacements blocks lie one after the other."""

    def __init__(self, name, counts, displs, n):
        counts = [int(c) for c in counts]
        if displs is None:
            displs, at = [], 0
            for count in counts:
                displs.append(at)
                at += count
        displs = [int(d) for d in displs]
        if len(counts) != n or len(displs) != n:
            raise InvalidArgument(f"{name}: {len(counts)} counts and {len(displs)} displacements for {n} ranks")
        if min(counts + displs) < 0:
            raise InvalidArgument(f"{name}: counts and displacements are not negative, but {min(counts + displs)} is")
        self.name, self.listed, self.offsets = name, counts, displs
        self.counts, self.displs = (ctypes.c_size_t * n)(*counts), (ctypes.c_size_t * n)(*displs)
        self.end = max((d + c for c, d in zip(counts, displs) if c), default=0)

    def check_inside(self, count):
        if self.end > count:
            raise InvalidArgument(f"{self.name}: the blocks reach to element {self.end} of an array of {count}")


class Collectives:
    """Mixed into Communicator, which has handle, rank, nranks and device."""

    def all_reduce(self, sendbuf, recvbuf=None, op=SUM, stream=None):
        """Reduce over all ranks into everybody's recvbuf, as large as sendbuf; without recvbuf in place."""
        if stream is None:
            result = collective(_ALL_REDUCE, self.handle, 0, self.nranks, self.rank, self.device, sendbuf, recvbuf, op, 0)
            if result or op.__class__ is Operator:
                self._ended(result, op)
        else:
            self._enqueue(_ALL_REDUCE, sendbuf, recvbuf, op, 0, stream)

    def broadcast(self, buffer, root=0, recvbuf=None, stream=None):
        """Copy root's buffer to everybody's recvbuf; without recvbuf to everybody's buffer."""
        send, recv = (None, buffer) if recvbuf is None else (buffer, recvbuf)
        self._run(_BROADCAST, send, recv, 0, root, stream)

    def reduce(self, sendbuf, recvbuf=None, op=SUM, root=0, stream=None):
        """Reduce over all ranks into root's recvbuf, which others need not have; without it root's is in place."""
        self._run(_REDUCE, sendbuf, recvbuf, op, root, stream)

    def all_gather(self, sendbuf, recvbuf, stream=None):
        """Everybody's sendbuf into everybody's recvbuf of nranks blocks, in rank order; sendbuf None: one's block of
        recvbuf is in place."""
        self._run(_ALL_GATHER, sendbuf, recvbuf, 0, 0, stream)

    def reduce_scatter(self, sendbuf, recvbuf=None, op=SUM, stream=None):
        """Reduce sendbuf of nranks blocks; rank r gets block r.  Without recvbuf it stays in its place in sendbuf."""
        self._run(_REDUCE_SCATTER, sendbuf, recvbuf, op, 0, stream)

    def all_to_all(self, sendbuf, recvbuf=None, stream=None):
        """Block j of sendbuf becomes block `rank` of rank j's recvbuf; without recvbuf in place."""
        self._run(_ALL_TO_ALL, sendbuf, recvbuf, 0, 0, stream)

    def gather(self, sendbuf, recvbuf=None, root=0, stream=None):
        """Everybody's sendbuf into root's recvbuf of nranks blocks; sendbuf None on root: its block is in place."""
        self._run(_GATHER, sendbuf, recvbuf, 0, root, stream)

    def scatter(self, sendbuf, recvbuf=None, root=0, stream=None):
        """Block j of root's sendbuf to rank j's recvbuf; without recvbuf on root its block stays where it is."""
        self._run(_SCATTER, sendbuf, recvbuf, 0, root, stream)

    def barrier(self, stream=None):
        """No rank returns (no stream passes) before every rank has come here."""
        handle = _fork.alive(self)
        check(library().tuttiBarrier(handle, None if stream is None else stream_handle(stream)), handle)

    def send(self, buffer, peer, stream=None):
        """To a rank that calls recv with as many elements.  What depends on each other goes into a group."""
        self._run(_SEND, buffer, None, 0, peer, stream)

    def recv(self, buffer, peer, stream=None):
        """From a rank that calls send with as many elements."""
        self._run(_RECV, None, buffer, 0, peer, stream)

    # ---- Counts per rank -------------------------------------------------------------------------------------------

    def all_to_all_v(self, sendbuf, sendcounts, recvbuf, recvcounts, sdispls=None, rdispls=None, stream=None):
        """sendcounts[j] elements at sdispls[j] go to rank j.  sendbuf None: in place, with the layout of recvbuf."""
        into = self._counts("recvcounts", recvcounts, rdispls)
        out = into if sendbuf is None else self._counts("sendcounts", sendcounts, sdispls)
        recv = self._array(recvbuf, True, into)
        send = recv if sendbuf is None else self._array(sendbuf, False, out)
        self._same(send, recv)
        self._vector("AllToAllv", (send[0], out.counts, out.displs, recv[0], into.counts, into.displs, recv[2]), sendbuf, recvbuf,
                     stream)

    def all_gather_v(self, sendbuf, recvbuf, recvcounts, displs=None, stream=None):
        """Rank r contributes recvcounts[r] elements, which land at displs[r] of every recvbuf."""
        into = self._counts("recvcounts", recvcounts, displs)
        recv = self._array(recvbuf, True, into)
        send = self._part(sendbuf, False, recv, into)
        self._vector("AllGatherv", (send[0], send[1], recv[0], into.counts, into.displs, recv[2]), sendbuf, recvbuf, stream)

    def reduce_scatter_v(self, sendbuf, recvbuf, recvcounts, displs=None, op=SUM, stream=None):
        """Reduce; rank r keeps the recvcounts[r] elements at displs[r] of sendbuf."""
        parts = self._counts("recvcounts", recvcounts, displs)
        send = self._array(sendbuf, recvbuf is None, parts)
        recv = self._part(recvbuf, True, send, parts)
        self._vector("ReduceScatterv", (send[0], recv[0], parts.counts, parts.displs, send[2], int(op)), sendbuf, recvbuf, stream,
                     op)

    def gather_v(self, sendbuf, recvbuf=None, recvcounts=None, displs=None, root=0, stream=None):
        """Everybody's sendbuf into root's recvbuf; recvcounts and displs matter on root only."""
        if self.rank != root:
            send = self._array(sendbuf, False)
            arguments = (send[0], send[1], None, None, None, send[2], root)
        else:
            into = self._counts("recvcounts", recvcounts, displs)
            recv = self._array(recvbuf, True, into)
            send = self._part(sendbuf, False, recv, into)
            arguments = (send[0], send[1], recv[0], into.counts, into.displs, recv[2], root)
        self._vector("Gatherv", arguments, sendbuf, recvbuf, stream)

    def scatter_v(self, sendbuf, recvbuf=None, sendcounts=None, displs=None, root=0, stream=None):
        """Parts of root's sendbuf into everybody's recvbuf; sendcounts and displs matter on root only."""
        if self.rank != root:
            recv = self._array(recvbuf, True)
            arguments = (None, None, None, recv[0], recv[1], recv[2], root)
        else:
            out = self._counts("sendcounts", sendcounts, displs)
            send = self._array(sendbuf, recvbuf is None, out)
            recv = self._part(recvbuf, True, send, out)
            arguments = (send[0], out.counts, out.displs, recv[0], recv[1], send[2], root)
        self._vector("Scatterv", arguments, sendbuf, recvbuf, stream)

    # ---- Their common parts ----------------------------------------------------------------------------------------

    def _run(self, kind, send, recv, op, root, stream):
        if stream is None:
            result = collective(kind, self.handle, 0, self.nranks, self.rank, self.device, send, recv, op, root)
            if result or op.__class__ is Operator:
                self._ended(result, op)
        else:
            self._enqueue(kind, send, recv, op, root, stream)

    def _enqueue(self, kind, send, recv, op, root, stream):
        result = collective(kind, _fork.alive(self), stream_handle(stream), self.nranks, self.rank, self.device, send, recv, op,
                            root)
        if result or op.__class__ is Operator:
            self._ended(result, op)
        if stream.__class__ is Stream:
            stream._keep(_held(send), _held(recv), op if isinstance(op, Operator) else None)

    def _ended(self, result, op):
        """What comes after a call that failed, or has a function of Python's."""
        handle = _fork.alive(self)
        if in_group():
            keep_in_group(op)
        elif isinstance(op, Operator):
            op.raise_failure()
        if result and result != 7:  # tuttiInProgress
            raise error_of(result, handle)

    def _counts(self, name, counts, displs):
        if counts is None:
            raise InvalidArgument(f"{name} is missing on a rank that needs it (rank {self.rank})")
        return _Counts(name, counts, displs, self.nranks)

    def _array(self, buffer, writable, counts=None):
        if buffer is None:
            raise InvalidArgument(f"an array is missing on a rank that needs it (rank {self.rank})")
        read = array(buffer, writable, self.device)
        if counts is not None:
            counts.check_inside(read[1])
        return read

    def _part(self, buffer, writable, whole, counts):
        """One's own block: an array of just its size, or its place in the whole one."""
        mine = counts.listed[self.rank]
        if buffer is None:
            return whole[0] + counts.offsets[self.rank] * whole[3], mine, *whole[2:]
        part = self._array(buffer, writable)
        self._same(part, whole)
        if part[1] != mine:
            raise InvalidArgument(f"{counts.name}[{self.rank}] is {mine}, but this rank's array has {part[1]} elements")
        return part

    def _same(self, one, other):
        if one[2] != other[2]:
            from .types import DataType
            raise InvalidArgument(f"the arrays differ in dtype: {DataType(one[2]).name.lower()} and "
                                  f"{DataType(other[2]).name.lower()}")

    def _vector(self, name, arguments, sendbuf, recvbuf, stream, op=0):
        handle = _fork.alive(self)
        result = getattr(library(), "tutti" + name)(*arguments, handle, None if stream is None else stream_handle(stream))
        if in_group():
            keep_in_group(_held(sendbuf), _held(recvbuf))
        if stream.__class__ is Stream:
            stream._keep(_held(sendbuf), _held(recvbuf), op if isinstance(op, Operator) else None)
        self._ended(result, op)


def _held(buffer):
    """What keeps an array's memory where it is: bytearrays and arrays can be resized unless somebody has a view."""
    if type(buffer).__module__ in ("builtins", "array") and buffer is not None:
        return memoryview(buffer)
    return buffer
