"""Calls on arrays: tutti._core where it can be loaded, else the same by ctypes, some microseconds slower.

  collective(kind, comm, stream, nRanks, rank, device, send, recv, op, root) -> result code; root is the peer of SEND, RECV
  call(kind, comm, stream, send address, recv address, count, dtype, op, root) -> result code; checks nothing
  array(object, writable, device) -> (address, count, dtype, bytes per item)
  plain(tensor) -> the same of one of torch's on the host; None: it has to be copied, or is refused
  collect(list or None): keeps the arrays of this thread's calls in the list, while a group collects them"""
import ctypes
import importlib.machinery
import importlib.util
import os
import threading

from ._library import home, library
from .arrays import describe
from .errors import InvalidArgument
from .types import DataType, Kind

_NAMES = {Kind.ALL_REDUCE: "AllReduce", Kind.BROADCAST: "Broadcast", Kind.REDUCE: "Reduce", Kind.ALL_GATHER: "AllGather",
          Kind.REDUCE_SCATTER: "ReduceScatter", Kind.ALL_TO_ALL: "AllToAll", Kind.GATHER: "Gather",
          Kind.SCATTER: "Scatter", Kind.BARRIER: "Barrier", Kind.SEND: "Send", Kind.RECV: "Recv"}
_FUNCTIONS = tuple(getattr(library(), "tutti" + _NAMES[kind]) for kind in Kind)
_SPREADING = (Kind.REDUCE_SCATTER, Kind.ALL_TO_ALL, Kind.SCATTER)  # the send buffer has a block per rank
_COLLECTING = (Kind.ALL_GATHER, Kind.ALL_TO_ALL, Kind.GATHER)      # the receive buffer has


def refuse(kind, n, send, recv, send_dtype, recv_dtype):
    """Says what is wrong with the sizes of a call's arrays; a count of -1: no array."""
    name, sends, recvs = _NAMES[kind], n if kind in _SPREADING else 1, n if kind in _COLLECTING else 1
    if send < 0 and recv < 0:
        why = "has neither a send nor a receive array"
    elif send < 0 or recv < 0:
        missing, factor = ("send", sends) if send < 0 else ("receive", recvs)
        given = recv if send < 0 else send
        if factor > 1 and given % n == 0 or (send < 0) == (sends > recvs) and sends != recvs:
            why = f"has no {missing} array on a rank that needs one: in place is possible in the larger of the two"
        else:
            why = f"has {given} elements in its {'receive' if send < 0 else 'send'} array, which is no multiple of {n} ranks"
    elif send_dtype != recv_dtype:
        why = f"sends {DataType(send_dtype).name.lower()} and receives {DataType(recv_dtype).name.lower()}"
    elif send % sends:
        why = f"has {send} elements in its send array, which is no multiple of {n} ranks"
    else:
        why = f"sends {send} elements, so its receive array has to have {send // sends * recvs}, but has {recv}"
    raise InvalidArgument(f"tutti{name} {why}")


class _Kept(threading.local):
    arrays = None


_kept = _Kept()


def _collect(arrays):
    _kept.arrays = arrays


def _has_send(kind, is_root):
    return is_root if kind in (Kind.BROADCAST, Kind.SCATTER) else kind != Kind.RECV


def _has_recv(kind, is_root):
    return is_root if kind in (Kind.REDUCE, Kind.GATHER) else kind != Kind.SEND


def _collective(kind, comm, stream, n, rank, device, send, recv, op, root):
    takes, gives = _has_send(kind, rank == root), _has_recv(kind, rank == root)
    s = describe(send, recv is None and gives, device) if send is not None and takes else None
    r = describe(recv, True, device) if recv is not None and gives else None
    sends, recvs = n if kind in _SPREADING else 1, n if kind in _COLLECTING else 1
    whole, blocks = (s, sends) if s else (r, recvs)
    good = (r or not gives or sends >= recvs) if s else (r and (not takes or recvs >= sends))
    count = whole[1] // blocks if good else 0
    if not good or count * blocks != whole[1] or s and r and (s[2] != r[2] or r[1] != count * recvs):
        refuse(kind, n, s[1] if s else -1, r[1] if r else -1, s[2] if s else 0, r[2] if r else 0)
    offset = 0 if sends == recvs else count * whole[3] * rank
    if _kept.arrays is not None:
        _kept.arrays += [memoryview(a) if isinstance(a, (bytes, bytearray)) else a for a in (send, recv) if a is not None]
    return _call(kind, comm, stream, s[0] if s else (r[0] + offset if takes else 0),
                 r[0] if r else (s[0] + offset if gives else 0), count, whole[2], int(op), root)


def _call(kind, comm, stream, send, recv, count, dtype, op, root):
    function = _FUNCTIONS[kind]
    if kind in (Kind.ALL_REDUCE, Kind.REDUCE_SCATTER):
        return function(send, recv, count, dtype, op, comm, stream)
    if kind == Kind.REDUCE:
        return function(send, recv, count, dtype, op, root, comm, stream)
    if kind in (Kind.BROADCAST, Kind.GATHER, Kind.SCATTER):
        return function(send, recv, count, dtype, root, comm, stream)
    if kind in (Kind.ALL_GATHER, Kind.ALL_TO_ALL):
        return function(send, recv, count, dtype, comm, stream)
    if kind in (Kind.SEND, Kind.RECV):
        return function(send if kind == Kind.SEND else recv, count, dtype, root, comm, stream)
    return function(comm, stream)


def _plain(tensor):
    try:
        return describe(tensor, False, -1)
    except InvalidArgument:
        return None


def _load_core():
    """The extension module of the package, or of the build folder that TUTTI_HOME names; None if there is none."""
    if os.environ.get("TUTTI_TEST_PYTHON_CORE") == "0":
        return None
    below = home()
    path = below / "packaging" / "python" / "_core.abi3.so" if below else None
    try:
        if path is not None and path.exists():
            loader = importlib.machinery.ExtensionFileLoader("tutti._core", str(path))
            module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tutti._core", loader))
            loader.exec_module(module)
        else:
            from . import _core as module
    except ImportError:
        return None
    module.setup(tuple(ctypes.cast(f, ctypes.c_void_p).value for f in _FUNCTIONS), describe, refuse)
    return module


_core = _load_core()
if _core is not None:
    array, call, collect, collective, plain = _core.array, _core.call, _core.collect, _core.collective, _core.plain
else:
    array, call, collect, collective, plain = describe, _call, _collect, _collective, _plain
