"""One communicator of a group, with the stream that carries its asynchronous calls."""
import collections
import ctypes
import queue
import threading
import time

from .._api import core
from .._calls import call
from .errors import check, lib
from .threads import start
from .work import StreamWork


class Lane:
    """Any thread.  Calls run in the order in which they are made, with a stream or without."""

    def __init__(self, comm, timeout_ms):
        self.comm, self.timeout_ms = comm, timeout_ms
        self._lock = threading.Lock()  # a communicator takes one thread at a time
        self._stream = None
        self._pending = collections.deque()  # what calls on the stream use must outlive them
        self._followed = None

    def run(self, what, calls, timeout_ms=None):
        """Returns when the calls have ended."""
        with self._lock:
            self.run_held(what, calls, timeout_ms)

    def run_one(self, what, kind, send, recv, count, dtype, op, root):
        """As run() of one call, by addresses."""
        with self._lock:
            check(call(kind, self.comm.value if self.comm else 0, 0, send, recv, count, dtype, op, root), what)

    def hold(self):
        """Calls of others wait from now on, until release_after(), which may come from another thread."""
        self._lock.acquire()

    def release_after(self, body):
        try:
            body(self)
        finally:
            self._lock.release()

    def run_held(self, what, calls, timeout_ms=None):
        """run() by the one for whom the lane is held."""
        limited = timeout_ms is not None and timeout_ms != self.timeout_ms
        if limited:
            check(lib.tuttiCommSetTimeout(self.comm, timeout_ms), what)
        try:
            self._call(what, calls, None)
        finally:
            if limited:
                lib.tuttiCommSetTimeout(self.comm, self.timeout_ms)

    def _call(self, what, calls, stream):
        if len(calls) == 1:
            function, *arguments = calls[0]
            check(function(*arguments, self.comm, stream), what)
            return
        check(lib.tuttiGroupStart(), what)
        for function, *arguments in calls:
            function(*arguments, self.comm, stream)  # what is wrong with a call is told by the group's end
        check(lib.tuttiGroupEnd(), what)

    def enqueue(self, what, calls, outputs, sequence, after=None, keep=(), timeout_ms=None, span=None):
        """Returns at once.  after: what remains to be done when the calls have ended."""
        with self._lock:
            if self._stream is None:
                self._stream = ctypes.c_void_p()
                check(lib.tuttiStreamCreate(ctypes.byref(self._stream)), what)
            while self._pending and over(self._pending[0]):
                self._pending.popleft()
            self._call(what, calls, self._stream)
            event = ctypes.c_void_p()
            check(lib.tuttiEventCreate(ctypes.byref(event)), what)
            check(lib.tuttiEventRecord(event, self._stream), what)
            deadline = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
            work = StreamWork(what, outputs, sequence, self, event, after, deadline, keep)
            work._span = span
            self._pending.append(work._hold)
        if after is not None:
            self.follow(work)  # nobody may ever wait for it
        return work

    def follow(self, work):
        """The completion thread completes the work when its calls have ended."""
        with self._lock:
            if self._followed is None:
                followed = queue.SimpleQueue()
                start("the completion of works", "tutti completion", complete_all, followed)
                self._followed = followed
            self._followed.put(work)

    def limit(self, timeout_ms):
        """By the one thread that calls: how long calls may wait from now on; 0 is for ever."""
        if timeout_ms != self.timeout_ms:
            check(lib.tuttiCommSetTimeout(self.comm, timeout_ms), "set_timeout")
            self.timeout_ms = timeout_ms

    def set_timeout(self, timeout_ms):
        with self._lock:
            check(lib.tuttiCommSetTimeout(self.comm, timeout_ms), "set_timeout")
            self.timeout_ms = timeout_ms

    def failed(self):
        """The error code that broke the communicator, or 0."""
        code = ctypes.c_int(0)
        status = lib.tuttiCommGetAsyncError(self.comm, ctypes.byref(code))
        return status or code.value

    def revoke(self):
        """End what is under way on every rank; the communicator stays to be closed."""
        comm = self.comm
        if comm is not None:
            lib.tuttiCommRevoke(comm, 0)

    def close(self, gracefully, timeout_ms):
        """gracefully: when all ranks have come to it, at most `timeout_ms`."""
        with self._lock:
            if self.comm is None:
                return
            if gracefully and self.failed() == core.tuttiSuccess:
                lib.tuttiCommSetTimeout(self.comm, timeout_ms)
                if self._stream is not None:
                    lib.tuttiStreamSynchronize(self._stream)
                lib.tuttiCommDestroy(self.comm)
            else:
                lib.tuttiCommAbort(self.comm)
            if self._stream is not None:
                lib.tuttiStreamDestroy(self._stream)
            if self._followed is not None:
                self._followed.put(None)
            self.comm = self._stream = self._followed = None


def over(hold):
    work = next(iter(hold), None)
    return work is None or work._ended()


def complete_all(works):
    """A completion thread: works end in the order in which they were made."""
    while True:
        work = works.get()
        if work is None:
            return
        work.complete()
        del work  # nor its tensors, while there is nothing to do
