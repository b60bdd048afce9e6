"""Handles on sends and receives."""
import threading
import time

import torch.distributed as dist

from . import spans
from .work import PendingWork, left_until

SLICE_S = 0.5  # between looks at whether the group still stands


CLOSED = "the process group has been shut down or aborted"


def closed_error():
    return dist.DistBackendError(f"tutti: {CLOSED}")


class Message(PendingWork):
    """A send or receive that some thread brings to its end by finished()."""

    def __init__(self, what, tensors, peer, tag, group, span):
        super().__init__(what, tensors)
        self.peer, self.tag, self._group, self._span = peer, tag, group, span
        self.posted = time.monotonic()
        self._done = threading.Event()

    def _ended(self):
        return self._done.is_set()

    def _drive(self):
        """Bring it on by this thread, if it can; True: look again."""
        return False

    def _finish(self, seconds=None):
        end = self.posted + self._group.timeout_ms / 1000 if seconds is None else time.monotonic() + seconds
        pause = 1e-3
        while not self._done.is_set():
            if seconds is None and self._drive():
                continue
            if self._done.wait(min(pause, left_until(end))):
                break
            if time.monotonic() >= end:
                return self._done.is_set()
            pause = min(2 * pause, SLICE_S)
            lost = self._group.lost() if pause == SLICE_S else None
            if lost is not None:
                self._cancel(dist.DistBackendError(f"tutti: {self._what}: {lost}"))
        return True

    def _expire(self):
        text = self._missing()
        self._cancel(dist.DistBackendError(f"tutti: {self._what}: timed out: {text}"))
        return text

    def finished(self, error=None, after=None):
        """A second end is ignored."""
        with self._lock:
            if self._done.is_set():
                return
            try:
                if error is None and after is not None:
                    after()
            except Exception as raised:
                error = raised
            self._error = error
            spans.end(self._span, error)
            self._span = None
            self._done.set()
        self._settle_once()


class Receive(Message):
    """peer: -1 is any, until one has sent.  buffer: contiguous memory for the message.  after: what then remains to be done."""

    def __init__(self, what, tensors, peer, tag, buffer, after, group, span):
        super().__init__(what, tensors, peer, tag, group, span)
        self.buffer, self._after = buffer, after

    def _drive(self):
        return self._group.messages.drive(self)

    def _missing(self):
        who = "no rank has" if self.peer < 0 else f"rank {self.peer} has not"
        return f"{who} sent anything with tag {self.tag}"

    def _cancel(self, error):
        self._group.messages.cancel(self, error)

    def nbytes(self):
        return self.buffer.numel() * self.buffer.element_size()

    def received(self, source):
        self._source = self.peer = source
        self.finished(None, self._after)
        self._after = self.buffer = None

    def refuse(self, source, nbytes):
        self._source = self.peer = source
        self.finished(dist.DistBackendError(f"tutti: {self._what}: the message of rank {source} has {nbytes} bytes, the tensor "
                                            f"{self.nbytes()}; both sides take tensors of one shape and type"))

    def take(self, source, data):
        """A message that came before the receive: flat bytes."""
        if data.numel() != self.nbytes():
            self.refuse(source, data.numel())
            return
        if data.numel():
            self.buffer.reshape(-1).view(data.dtype).copy_(data)
        self.received(source)


class Send(Message):
    """One that waits for its receiver to connect; then the connection's own handle is its end."""

    def __init__(self, what, tensors, peer, tag, buffer, group, span):
        super().__init__(what, tensors, peer, tag, group, span)
        self.buffer, self._carried, self._bound = buffer, None, threading.Event()

    def carried_by(self, work):
        self._carried = work
        self.buffer = None
        self._bound.set()
        if self._future is not None:
            self._follow()

    def _drive(self):
        """The connection's handle is waited for like any other."""
        if self._carried is None:
            return False
        self._carried._finish()
        self.finished(self._carried._error)
        return True

    def _ended(self):
        if not self._done.is_set() and self._carried is not None and self._carried._ended():
            self.finished(self._carried._error)
        return self._done.is_set()

    def _finish(self, seconds=None):
        end = None if seconds is None else time.monotonic() + seconds
        while self._carried is None and not self._done.is_set():
            if self._bound.wait(min(SLICE_S, left_until(end or self.posted + self._group.timeout_ms / 1000))):
                break
            lost = self._group.lost()
            if lost is not None:
                self._cancel(dist.DistBackendError(f"tutti: {self._what}: {lost}"))
            elif time.monotonic() >= (end or self.posted + self._group.timeout_ms / 1000):
                return False
        if self._done.is_set():
            return True
        if not self._carried._finish(None if end is None else left_until(end)):
            return False
        self.finished(self._carried._error)
        return True

    def _follow(self):
        if self._carried is not None:
            self._carried.get_future().add_done_callback(lambda _: self._ended() and self._settle_once())

    def _missing(self):
        return f"rank {self.peer} has no receive for it"

    def _cancel(self, error):
        if self._carried is None:
            self._group.messages.cancel(self, error)
