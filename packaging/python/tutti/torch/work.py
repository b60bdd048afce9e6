"""Handles on operations: on calls that have ended, and on calls that are on a stream."""
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work as C10dWork

from .._api import core
from . import kept, spans
from .errors import failure, lib
from .threads import start


def seconds_of(timeout):
    """None where there is no limit, which c10d says by 0 and less."""
    if timeout is None:
        return None
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)
    return seconds if seconds > 0 else None


def left_until(end):
    return None if end is None else max(end - time.monotonic(), 1e-3)


class Work(C10dWork):
    """An operation; this class itself is one that had ended when it was made.

    Torch's C++ reaches a handle of Python by wait() and get_future() alone, callers in Python by all of it."""

    def __init__(self, what, outputs, sequence=0):
        super().__init__()
        self._what, self._outputs, self._sequence = what, outputs, sequence
        self._error = self._future = self._end = None
        self._source, self._span = -1, None

    if kept.NEEDED:
        def __del__(self):
            kept.keep(self)

    def _fade(self):
        """Keep no tensors from now on; it has ended."""
        self._outputs = kept.Faded(self._outputs)
        self._future = self._end = None

    def _finish(self, seconds=None):
        """Wait until it has ended.  False: `seconds` have passed."""
        return True

    def _ended(self):
        return True

    def _expire(self):
        """What a wait that took too long means for the operation; the rest of the sentence."""
        return "it is still under way, and ends with the group's own timeout"

    def wait(self, timeout=None):
        seconds = seconds_of(timeout)
        if not self._finish(seconds):
            limit = "its timeout" if seconds is None else f"{round(seconds * 1000)}ms"
            raise dist.DistBackendError(f"tutti: {self._what}: Timed out waiting {limit} for operation to complete: "
                                        f"{self._expire()}")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        return self._ended()

    def is_success(self):
        return self._ended() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        return self._outputs.all() if isinstance(self._outputs, kept.Faded) else self._outputs

    def source_rank(self):
        if self._source < 0:
            raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or recv-from-any "
                               "call, and after it")
        return self._source

    _source_rank = source_rank

    def _get_sequence_number(self):
        return self._sequence

    def get_future(self):
        if self._future is None:
            self._make_future()
            self._settle()
        return self._future

    def _make_future(self):
        # Future.set_exception is of Python alone: torch's C++, such as DDP's, would take the exception for tensors.  What a
        # callback raises is an error there, too.
        self._end = torch.futures.Future()
        self._future = self._end.then(self._outcome)

    def _outcome(self, _):
        if self._error is not None:
            raise self._error
        return self.result()

    def _settle(self):
        """The operation has ended, so its future has."""
        self._end.set_result(None)


class PendingWork(Work):
    """An operation that ends some time after it was made; some thread then calls _settle_once()."""

    def __init__(self, what, outputs, sequence=0):
        super().__init__(what, outputs, sequence)
        self._lock = threading.Lock()
        self._settled = False

    def _fade(self):
        super()._fade()
        self._settled = False  # a future that is asked for now is another

    def _settle_once(self):
        with self._lock:
            if self._future is None or self._settled:
                return
            self._settled = True
        self._settle()  # callbacks run here, which may ask this handle

    def _follow(self):
        """Have _settle_once() called when the operation has ended, unless it has."""

    def get_future(self):
        if self._future is None:
            self._make_future()
            self._follow()
            if self._ended():
                self._settle_once()
        return self._future


class StreamWork(PendingWork):
    """Calls on a lane's stream, up to an event."""

    def __init__(self, what, outputs, sequence, lane, event, after, deadline, keep):
        super().__init__(what, outputs, sequence)
        self._lane, self._event, self._after, self._deadline, self._keep = lane, event, after, deadline, keep
        self._hold = [self]  # the lane's, until the calls have ended: so long they use the tensors

    def _ended(self):
        if self._event is None:
            return True
        if not self._lock.acquire(blocking=False):
            return False  # another thread completes it
        try:
            if self._event is not None and lib.tuttiEventQuery(self._event) != core.tuttiInProgress:
                self._complete()
            return self._event is None
        finally:
            self._lock.release()

    def _finish(self, seconds=None):
        if self._event is None:
            return True
        end = None if seconds is None else time.monotonic() + seconds
        if self._deadline is not None:
            end = self._deadline if end is None else min(end, self._deadline)
        if end is not None and not self._poll(end):
            return False
        with self._lock:
            if self._event is not None:
                self._complete()
        return True

    def _poll(self, end):
        """Events have no deadline of their own."""
        pause = 2e-5
        while not self._ended():
            if time.monotonic() > end:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 2e-3)
        return True

    def _complete(self):
        """With the lock: waits, then does what the calls leave to do.  By whoever comes first, so errors are kept."""
        event, after = self._event, self._after
        try:
            status = lib.tuttiEventSynchronize(event)
            if status != core.tuttiSuccess:
                self._error = failure(self._what, status)
            elif after is not None:
                after()
        except Exception as error:
            self._error = error
        spans.end(self._span, self._error)
        self._event = self._after = self._keep = self._span = None
        self._hold.clear()
        lib.tuttiEventDestroy(event)

    def _follow(self):
        self._lane.follow(self)

    def complete(self):
        """On the completion thread."""
        with self._lock:
            if self._event is not None:
                self._complete()
        self._settle_once()


class ThreadWork(PendingWork):
    """An operation that a thread of its own carries out."""

    def __init__(self, what, outputs, sequence, body, span):
        super().__init__(what, outputs, sequence)
        self._body, self._span, self._done = body, span, threading.Event()
        start(what, f"tutti {what}", self._main)

    def _main(self):
        try:
            self._body()
        except Exception as error:
            self._error = error
        spans.end(self._span, self._error)
        self._body = self._span = None
        self._done.set()
        self._settle_once()

    def _ended(self):
        return self._done.is_set()

    def _finish(self, seconds=None):
        return self._done.wait(seconds)


class Works(PendingWork):
    """Several operations as one."""

    def __init__(self, works, what="coalesced operations"):
        super().__init__(what, [tensor for work in works for tensor in work.result()])
        self._works = works

    def _finish(self, seconds=None):
        end = None if seconds is None else time.monotonic() + seconds
        for work in self._works:
            if not work._finish(left_until(end)):
                return False
            self._error = self._error or work._error
        return True

    def _ended(self):
        return all(work._ended() for work in self._works) and self._finish()

    def _fade(self):
        super()._fade()
        self._works = []

    def _expire(self):
        return "; ".join(f"{work._what}: {work._expire()}" for work in self._works if not work._ended())

    def _follow(self):
        futures = [work.get_future() for work in self._works]
        torch.futures.collect_all(futures).add_done_callback(lambda _: self._finish() and self._settle_once())
