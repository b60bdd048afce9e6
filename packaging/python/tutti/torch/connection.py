"""Connections: a communicator of two ranks for each direction between two ranks that send to each other.

A connection comes up when its first send meets a receive: the sender leaves its name in the receiver's box of the store, the
receiver answers with an id.  Each message is a header (tag, bytes), then its bytes."""
import ctypes
import threading
import time

import torch
import torch.distributed as dist

from .._api import core
from .._library import make
from .errors import check, lib
from .lane import Lane
from .message import Send, closed_error
from .threads import start

FAREWELL = -(2**62)  # a tag that no message has
LEAVE_MS = 2000  # how long one end waits for the other when both leave
PAUSES_S = (2e-4, 2e-2)  # between looks at the store
BYTE = core.tuttiUint8
Header = ctypes.c_int64 * 2


def pauses():
    """Sleeps, longer and longer."""
    pause, longest = PAUSES_S
    while True:
        yield
        time.sleep(pause)
        pause = min(pause * 1.3, longest)


class Connection:
    """One end, and the thread that connects it."""

    def __init__(self, group, peer):
        self.group, self.peer = group, peer
        self.lane, self.error, self.closing = None, None, False

    def _start(self, name):
        self.thread = start(f"the connection with rank {self.peer}", f"tutti {name} {self.peer}", self._main)

    def _join(self, unique_id, rank):
        comm = ctypes.c_void_p()
        # A connection is idle most of the time, and a rank has several.
        fields = {**self.group.options.fields(), "waitMode": core.TUTTI_WAIT_BLOCK}
        config = make(core.tuttiConfig_t, timeoutMs=self.group.timeout_ms, **fields)
        check(lib.tuttiCommInitRankConfig(ctypes.byref(comm), 2, unique_id, rank, ctypes.byref(config)),
              f"connection with rank {self.peer}")
        return Lane(comm, self.group.timeout_ms)

    def abort(self):
        """Ends what is under way; leave() is still to come."""
        self.closing = True
        if self.lane is not None:
            self.lane.revoke()


class Outgoing(Connection):
    """Sends go on by the lane's stream, without a thread of Python."""

    def __init__(self, group, peer):
        super().__init__(group, peer)
        self._lock, self._queue = threading.Lock(), []
        self._start("to")

    def post(self, what, tensor, tag, buffer, span):
        with self._lock:
            if self.error is not None:
                raise self.error
            if self.lane is not None:
                return self._enqueue(what, [tensor], tag, buffer, span)
            message = Send(what, [tensor], self.peer, tag, buffer, self.group, span)
            self._queue.append(message)
            return message

    def _enqueue(self, what, tensors, tag, buffer, span=None):
        nbytes = buffer.numel() * buffer.element_size()
        header = Header(tag, nbytes)
        calls = [(lib.tuttiSend, header, ctypes.sizeof(header), BYTE, 1)]
        if nbytes:
            calls.append((lib.tuttiSend, buffer.data_ptr(), nbytes, BYTE, 1))
        return self.lane.enqueue(what, calls, tensors, 0, None, (header, buffer), None, span)

    def _main(self):
        try:
            lane = self._connect()
            with self._lock:
                self.lane = lane
                for message in self._queue:
                    message.carried_by(self._enqueue(message._what, message.result(), message.tag, message.buffer))
                self._queue = []
        except Exception as error:
            with self._lock:
                self.error = error
                lost, self._queue = self._queue, []
            for message in lost:
                message.finished(error)

    def _connect(self):
        store, me = self.group.store, self.group.rank
        place = store.add(f"messages/{self.peer}", 1)
        store.set(f"messages/{self.peer}/{place}", str(me))
        answer = f"messages/{me}to{self.peer}"
        for _ in pauses():
            if self.closing:
                raise closed_error()
            if store.check([answer]):
                return self._join(core.tuttiUniqueId.from_buffer_copy(store.get(answer)), 0)

    def cancel(self, message, error):
        with self._lock:
            if message in self._queue:
                self._queue.remove(message)
        message.finished(error)

    def farewell(self):
        """After all that was sent."""
        with self._lock:
            if self.lane is None:
                self.closing = True
            elif not self.lane.failed():
                self._enqueue("farewell", [], FAREWELL, torch.empty(0))

    def leave(self, gracefully):
        self.thread.join(LEAVE_MS / 1000)
        with self._lock:
            self.error = self.error or closed_error()
            lane = self.lane
        if lane is not None:
            lane.close(gracefully and not self.closing, LEAVE_MS)


class Incoming(Connection):
    """Messages are received by whichever thread waits for one of them, and by this one's where nobody does."""

    def __init__(self, group, peer):
        super().__init__(group, peer)
        self._driving, self._kick, self._header = threading.Lock(), threading.Event(), Header()
        self._draining = self._departed = False
        self.current = None
        self._start("from")

    def _main(self):
        try:
            self.lane = self._connect()
        except Exception as error:
            self._fail(error)
            return
        mailbox = self.group.messages.mailbox
        while not self.closing and self.error is None:
            self._kick.wait()
            self._kick.clear()
            with self._driving:
                self.lane.limit(LEAVE_MS if self._draining else 0)  # who waits for a message has the deadline
                while not self.closing and self.error is None and (self._draining or mailbox.pending(self.peer)):
                    self._receive_one()

    def _connect(self):
        unique_id = core.tuttiUniqueId()
        check(lib.tuttiGetUniqueId(ctypes.byref(unique_id)), f"connection with rank {self.peer}")
        self.group.store.set(f"messages/{self.peer}to{self.group.rank}", bytes(unique_id))
        return self._join(unique_id, 1)

    def kick(self):
        if self.lane is not None and not self._driving.locked():
            self._kick.set()

    def drive(self, receive):
        """By the thread that waits for it: until it has met its message.  False: another thread is at it."""
        if self.lane is None or not self._driving.acquire(blocking=False):
            return False
        try:
            self.lane.limit(self.group.timeout_ms)
            while not receive._ended() and self.error is None:
                self._receive_one()
        finally:
            self._driving.release()
        return True

    def _receive_one(self):
        try:
            self._get(self._header, ctypes.sizeof(self._header))
            tag, nbytes = self._header
            if tag == FAREWELL:
                self._departed = True
                raise dist.DistBackendError(f"tutti: rank {self.peer} has left the process group")
            self._deliver(tag, nbytes)
        except Exception as error:
            self._fail(error)

    def _deliver(self, tag, nbytes):
        mailbox = self.group.messages.mailbox
        receive = mailbox.match(self.peer, tag, lambda: self.closing or self._draining)
        if receive is not None and receive.nbytes() == nbytes:
            self.current = receive
            self._get(receive.buffer.data_ptr(), nbytes)
            self.current = None
            receive.received(self.peer)
            return
        data = torch.empty(nbytes, dtype=torch.uint8)
        self._get(data.data_ptr(), nbytes)
        if receive is not None:
            receive.refuse(self.peer, nbytes)
        else:
            mailbox.keep(self.peer, tag, data)

    def _get(self, address, nbytes):
        if nbytes:
            self.lane.run(f"recv from rank {self.peer}", [(lib.tuttiRecv, address, nbytes, BYTE, 0)])

    def _fail(self, error):
        self.error = error
        receive, self.current = self.current, None
        if receive is not None:
            receive.finished(error)
        self.group.messages.lost(self.peer, error)

    def drain(self):
        """Until the sender's farewell, which both ends' leaving needs."""
        self._draining = True
        with self.group.messages.mailbox.changed:
            self.group.messages.mailbox.changed.notify_all()
        self._kick.set()

    def abort(self):
        super().abort()
        self._kick.set()

    def leave(self, gracefully):
        self.thread.join(LEAVE_MS / 1000)
        if self.lane is not None:
            self.lane.close(gracefully and self._departed, LEAVE_MS)
