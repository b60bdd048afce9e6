"""Streams and events of the host, and groups of calls."""
import collections
import ctypes
import threading

from . import _calls, _fork
from ._library import library
from .errors import InvalidArgument, check
from ._api import core


class _Scoped:
    """What has a handle of the library's, and is destroyed at the end of a `with`."""
    _alive = _fork.alive

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.destroy()


class Stream(_Scoped):
    """A queue of calls with a thread of its own: calls on it return once enqueued.  It keeps the arrays of its calls
    until they are done."""
    _SEAL_EVERY = 64

    def __init__(self):
        cell = ctypes.c_void_p()
        check(library().tuttiStreamCreate(ctypes.byref(cell)))
        self.handle = cell.value
        self._open, self._sealed = [], collections.deque()
        _fork.track(self)

    def synchronize(self):
        """Wait for what is enqueued; raises the first error of an operation since the last call."""
        handle = self._alive()
        self._passed(library().tuttiStreamSynchronize(handle))

    def _passed(self, result):
        """Let go of the arrays of a stream that is idle, and tell what went wrong."""
        kept, self._open = self._open, []
        kept += [one for _, part in self._sealed for one in part]
        self._sealed.clear()
        check(result)
        _raise_of_operators(kept)

    def query(self):
        """True when idle; raises as synchronize."""
        result = library().tuttiStreamQuery(self._alive())
        if result == core.tuttiInProgress:
            return False
        self._passed(result)
        return True

    def record(self, event=None):
        """An event that captures what is enqueued by now."""
        event = event or Event()
        check(library().tuttiEventRecord(event._alive(), self._alive()))
        return event

    def wait_event(self, event):
        """What is enqueued from now on waits for what the event has captured; the caller does not."""
        check(library().tuttiStreamWaitEvent(self._alive(), event._alive()))

    def destroy(self):
        """Wait for what is enqueued, then free."""
        if self.handle:
            handle, self.handle = self.handle, None
            result = library().tuttiStreamDestroy(handle)
            self._open.clear()
            self._sealed.clear()
            check(result)

    close = destroy

    def _keep(self, *arrays):
        self._open.extend(one for one in arrays if one is not None)
        if len(self._open) < self._SEAL_EVERY or _group.depth:
            return
        self._sealed.append((self.record(), self._open))
        self._open = []
        while self._sealed and self._sealed[0][0].done():
            self._sealed.popleft()

    def __del__(self):
        if getattr(self, "handle", None):
            self.destroy()


class Event(_Scoped):
    """A mark between the calls of a stream; complete until something is recorded."""

    def __init__(self):
        cell = ctypes.c_void_p()
        check(library().tuttiEventCreate(ctypes.byref(cell)))
        self.handle = cell.value
        _fork.track(self)

    def record(self, stream):
        stream.record(self)
        return self

    def done(self):
        """Whether all that was captured is over, well or not; query() tells which."""
        return library().tuttiEventQuery(self._alive()) != core.tuttiInProgress

    def query(self):
        """True when all that was captured is done; raises its error."""
        result = library().tuttiEventQuery(self._alive())
        check(result)
        return result == core.tuttiSuccess

    def synchronize(self):
        """Wait for what was captured; raises its error."""
        check(library().tuttiEventSynchronize(self._alive()))

    def destroy(self):
        if self.handle:
            handle, self.handle = self.handle, None
            check(library().tuttiEventDestroy(handle))

    def __del__(self):
        if getattr(self, "handle", None):
            library().tuttiEventDestroy(self.handle)


def stream_handle(stream):
    """The handle of a Stream, of a CUDA stream of torch (cuda_stream) or CuPy (ptr), or a number."""
    if isinstance(stream, Stream):
        return stream._alive()
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise InvalidArgument(f"{stream!r} is not a stream: pass a tutti.Stream, a CUDA stream of torch or CuPy, or its address")


class _Group(threading.local):
    def __init__(self):
        self.depth, self.arrays, self.finish = 0, [], []


_group = _Group()


class group:  # noqa: N801  a context manager, named as nccl4py and cupy.cuda.nccl have it
    """Calls inside start together when the outermost group ends.  A body that raises starts nothing."""

    def __init__(self, simulate=False):
        self._simulate = simulate
        self.time_us = None  # with simulate: what the calls would have taken

    def __enter__(self):
        check(library().tuttiGroupStart())
        _group.depth += 1
        if _group.depth == 1:
            _calls.collect(_group.arrays)
        return self

    def __exit__(self, kind, error, trace):
        _group.depth -= 1
        outermost = _group.depth == 0
        if outermost:
            _calls.collect(None)
        finish, arrays = _group.finish, _group.arrays
        if outermost:
            _group.finish, _group.arrays = [], []
        if kind is not None or self._simulate:
            time_us = ctypes.c_double()
            result = library().tuttiGroupSimulateEnd(ctypes.byref(time_us))
            self.time_us = time_us.value
        else:
            result = library().tuttiGroupEnd()
        if kind is not None:
            return
        check(result)
        if outermost:
            for action in finish:
                action()
            _raise_of_operators(arrays)


def in_group():
    return _group.depth > 0


def at_group_end(action):
    """Run `action` once the outermost group of this thread has ended well."""
    _group.finish.append(action)


def keep_in_group(*objects):
    _group.arrays.extend(objects)


def _raise_of_operators(kept):
    for one in kept:
        if hasattr(one, "raise_failure"):
            one.raise_failure()
