"""Sends and receives under way: handles on them, and which message is for which receive."""
import threading
import time

import torch.distributed as dist

from . import spans
from .work import PendingWork, left_until

SLICE_S = 0.5  # between looks at whether the group still stands


class Message(PendingWork):
    """A send or receive.  peer: group rank; -1: any, until one has sent.

    buffer: contiguous memory that the message is in or goes to.  after: what remains to be done with it."""

    def __init__(self, what, tensors, peer, tag, buffer, after, group):
        super().__init__(what, tensors)
        self.peer, self.tag, self.buffer = peer, tag, buffer
        self._after, self._group = after, group
        self._end = left_end(group.timeout_ms)
        self._done = threading.Event()

    def _ended(self):
        return self._done.is_set()

    def _finish(self, seconds=None):
        end = self._end if seconds is None else time.monotonic() + seconds
        while not self._done.wait(SLICE_S if end is None else min(SLICE_S, left_until(end))):
            lost = self._group.lost()
            if lost is not None:
                self._group.messages.cancel(self, dist.DistBackendError(f"tutti: {self._what}: {lost}"))
            elif end is not None and time.monotonic() >= end:
                return self._done.is_set()
        return True

    def _expire(self):
        text = (f"rank {self.peer} has sent nothing with tag {self.tag}" if self.receives() and self.peer >= 0 else
                f"no rank has sent anything with tag {self.tag}" if self.receives() else
                f"rank {self.peer} has no receive for it")
        self._group.messages.cancel(self, dist.DistBackendError(f"tutti: {self._what}: timed out: {text}"))
        return text

    def receives(self):
        return self._what.startswith("recv")

    def nbytes(self):
        return self.buffer.numel() * self.buffer.element_size()

    def finished(self, error=None):
        """By the thread that moved it; a second end is ignored."""
        with self._lock:
            if self._done.is_set():
                return
            try:
                if error is None and self._after is not None:
                    self._after()
            except Exception as raised:
                error = raised
            self._error = error
            self._source = self.peer
            spans.end(self._span)
            self._after = self.buffer = self._span = None
            self._done.set()
        self._settle_once()


def left_end(timeout_ms):
    return None if timeout_ms <= 0 else time.monotonic() + timeout_ms / 1000


class Mailbox:
    """The receives of one rank of a group, in their order, and messages that came before their receive.

    A message is for the first receive of its source, or of any, that has its tag."""

    def __init__(self):
        self.changed = threading.Condition()
        self._posted = []
        self._early = {}  # source: [(tag, flat bytes)]
        self._gone = {}   # source: why nothing comes from it any more
        self._closed = None

    def post(self, message):
        with self.changed:
            found = self._take_early(message)
            error = None if found else self._closed or self._gone.get(message.peer)
            if not found and error is None:
                self._posted.append(message)
                self.changed.notify_all()
                return
        if error is not None:
            message.finished(error)
        else:
            deliver(message, *found)

    def _take_early(self, message):
        for source in ([message.peer] if message.peer >= 0 else sorted(self._early)):
            waiting = self._early.get(source, [])
            for index, (tag, data) in enumerate(waiting):
                if tag == message.tag:
                    del waiting[index]
                    return source, data
        return None

    def match(self, source, tag, closed):
        """The receive that a message is for; waits for one.  None: keep the message, for another receive waits behind it."""
        with self.changed:
            while not closed():
                blocked = False
                for index, message in enumerate(self._posted):
                    if message.peer in (source, -1):
                        if message.tag == tag:
                            return self._posted.pop(index)
                        blocked = True
                if blocked:
                    return None
                self.changed.wait()
        return None

    def keep(self, source, tag, data):
        """A message that came before its receive, unless that has come meanwhile."""
        with self.changed:
            for index, message in enumerate(self._posted):
                if message.peer in (source, -1) and message.tag == tag:
                    self._posted.pop(index)
                    break
            else:
                self._early.setdefault(source, []).append((tag, data))
                return
        deliver(message, source, data)

    def wanted(self, connected, n_ranks):
        """With the lock: whether a receive waits for a source that is not connected."""
        return any((message.peer not in connected) if message.peer >= 0 else len(connected) < n_ranks for message in self._posted)

    def remove(self, message):
        """Whether the receive had yet to meet its message."""
        with self.changed:
            if message not in self._posted:
                return False
            self._posted.remove(message)
            return True

    def lose(self, source, error, others):
        """Nothing comes from the source any more.  others: how many could still send."""
        with self.changed:
            self._gone[source] = error
            if others == 0:
                self._gone[-1] = error
            lost = [message for message in self._posted if message.peer in self._gone]
            self._posted = [message for message in self._posted if message not in lost]
        for message in lost:
            message.finished(self._gone[message.peer])

    def close(self, error):
        with self.changed:
            self._closed = error
            lost, self._posted = self._posted, []
            self.changed.notify_all()
        for message in lost:
            message.finished(error)


def deliver(message, source, data):
    """data: flat bytes, which stay the caller's."""
    message.peer = source
    if data.numel() != message.nbytes():
        message.finished(wrong_size(message, data.numel()))
        return
    if data.numel():
        message.buffer.reshape(-1).view(data.dtype).copy_(data)
    message.finished()


def wrong_size(message, nbytes):
    return dist.DistBackendError(f"tutti: {message._what}: the message of rank {message.peer} has {nbytes} bytes, the tensor "
                                 f"{message.nbytes()}; both sides take tensors of one shape and type")
