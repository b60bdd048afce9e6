"""Point to point: a communicator of two ranks for each direction between two ranks that use it.

A group's own communicators run calls in one order, which sends and receives of different peers do not have.  A direction
comes up when its first send has met a receive: the sender leaves its name in the receiver's box of the store, the receiver
answers with an id.  Each message is a header (tag, bytes), then its bytes.  Threads carry them, so that handles go on by
themselves."""
import ctypes
import threading
import time

import torch
import torch.distributed as dist

from .._api import core
from .._library import make
from .errors import check, lib
from .message import Mailbox, deliver

FAREWELL = -(2**62)  # a tag that no message has
PAUSES_S = (2e-4, 2e-2)  # between looks at the store
Header = ctypes.c_int64 * 2


class Direction:
    """One end of a direction, and the thread that carries its messages."""

    def __init__(self, group, peer, name):
        self.group, self.peer = group, peer
        self.comm, self.error, self.closing = None, None, False
        self.thread = threading.Thread(target=self._main, name=f"tutti {name} {peer}", daemon=True)

    def _main(self):
        try:
            self._connect()
            self._carry()
        except Exception as error:
            self.error = error
        self._ended()

    def _join(self, unique_id, rank):
        comm = ctypes.c_void_p()
        fields = {**self.group.options.fields(), "waitMode": core.TUTTI_WAIT_BLOCK}  # a direction is idle most of the time
        config = make(core.tuttiConfig_t, timeoutMs=self.group.timeout_ms, **fields)
        check(lib.tuttiCommInitRankConfig(ctypes.byref(comm), 2, unique_id, rank, ctypes.byref(config)),
              f"connection with rank {self.peer}")
        lib.tuttiCommSetTimeout(comm, 0)  # a direction may be idle; who waits for a message has the deadline
        self.comm = comm
        if self.closing:
            raise closed_error()

    def abort(self):
        self.closing = True
        comm = self.comm
        if comm is not None:
            lib.tuttiCommAbort(comm)

    def _leave(self):
        comm, self.comm = self.comm, None
        if comm is None:
            return
        if self.closing or isinstance(self.error, dist.DistBackendError):
            lib.tuttiCommAbort(comm)  # which abort() may have done; the library then refuses
        else:
            lib.tuttiCommSetTimeout(comm, 5000)  # both ends come here at once
            lib.tuttiCommDestroy(comm)


class Outgoing(Direction):
    def __init__(self, group, peer):
        super().__init__(group, peer, "to")
        self._queue, self._changed, self._current = [], threading.Condition(), None
        self.thread.start()

    def post(self, message):
        with self._changed:
            error = self.error
            if error is None:
                self._queue.append(message)
                self._changed.notify()
        if error is not None:
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
                break
        self._join(core.tuttiUniqueId.from_buffer_copy(store.get(answer)), 0)

    def _carry(self):
        what = f"send to rank {self.peer}"
        while True:
            with self._changed:
                while not self._queue and not self.closing:
                    self._changed.wait()
                if self.closing:
                    raise closed_error()
                message = self._current = self._queue.pop(0)
            if message is None:
                check(lib.tuttiSend(Header(FAREWELL, 0), 16, core.tuttiUint8, 1, self.comm, None), what)
                return
            nbytes, address = message.nbytes(), message.buffer.data_ptr()
            check(lib.tuttiSend(Header(message.tag, nbytes), 16, core.tuttiUint8, 1, self.comm, None), what)
            if nbytes:
                check(lib.tuttiSend(address, nbytes, core.tuttiUint8, 1, self.comm, None), what)
            self._current = None
            message.finished()
            del message

    def _ended(self):
        with self._changed:
            self._leave()
            self.error = self.error or closed_error()
            lost, self._queue = [self._current, *self._queue], []
        for message in lost:
            if message is not None:
                message.finished(self.error)

    def cancel(self, message, error):
        with self._changed:
            waiting = message in self._queue
            if waiting:
                self._queue.remove(message)
        if not waiting and self._current is message:
            self.abort()
            self.thread.join()  # the tensor is its caller's again
        message.finished(error)

    def farewell(self):
        with self._changed:
            if self.comm is None:
                self.closing = True
            self._queue.append(None)
            self._changed.notify()

    def abort(self):
        super().abort()
        with self._changed:
            self._changed.notify()


class Incoming(Direction):
    def __init__(self, group, peer):
        super().__init__(group, peer, "from")
        self.current = None
        self.thread.start()

    def _connect(self):
        unique_id = core.tuttiUniqueId()
        check(lib.tuttiGetUniqueId(ctypes.byref(unique_id)), f"connection with rank {self.peer}")
        self.group.store.set(f"messages/{self.peer}to{self.group.rank}", bytes(unique_id))
        self._join(unique_id, 1)

    def _receive(self, address, nbytes):
        if nbytes:
            check(lib.tuttiRecv(address, nbytes, core.tuttiUint8, 0, self.comm, None), f"recv from rank {self.peer}")

    def _carry(self):
        header, mailbox = Header(), self.group.messages.mailbox
        while True:
            self._receive(header, 16)
            tag, nbytes = header
            if tag == FAREWELL:
                return
            message = mailbox.match(self.peer, tag, lambda: self.closing)
            if self.closing:
                raise closed_error()
            if message is not None and message.nbytes() == nbytes:
                self.current = message
                self._receive(message.buffer.data_ptr(), nbytes)
                self.current, message.peer = None, self.peer
                message.finished()
            else:
                self._early(message, mailbox, tag, nbytes)
            del message

    def _early(self, message, mailbox, tag, nbytes):
        data = torch.empty(nbytes, dtype=torch.uint8)
        self._receive(data.data_ptr(), nbytes)
        if message is None:
            mailbox.keep(self.peer, tag, data)
        else:
            deliver(message, self.peer, data)

    def _ended(self):
        why = self.error or dist.DistBackendError(f"tutti: rank {self.peer} has left the group")
        if self.current is not None:
            self.current.finished(why)
        self.group.messages.lost(self.peer, why)
        self._leave()


class Messages:
    """The sends and receives of one rank of a group."""

    def __init__(self, group):
        self.group, self.mailbox = group, Mailbox()
        self._outgoing, self._incoming, self._gone = {}, {}, set()
        self._lock = threading.Lock()
        self._acceptor, self._closed = None, False

    def send(self, message):
        if message.peer == self.group.rank:
            data = message.buffer.reshape(-1).view(torch.uint8).clone()
            self.mailbox.keep(message.peer, message.tag, data)
            message.finished()
            return
        with self._lock:
            if self._closed:
                raise closed_error()
            outgoing = self._outgoing.get(message.peer)
            if outgoing is None:
                outgoing = self._outgoing[message.peer] = Outgoing(self.group, message.peer)
        outgoing.post(message)

    def recv(self, message):
        self.mailbox.post(message)
        with self._lock:
            if self._acceptor is None and not self._closed and message.peer != self.group.rank and not message._ended():
                self._acceptor = threading.Thread(target=self._accept, name="tutti accept", daemon=True)
                self._acceptor.start()

    def _accept(self):
        """Answers those who want to send, while a receive waits that one of them could be for."""
        store, mailbox, box, seen = self.group.store, self.mailbox, f"messages/{self.group.rank}", 0
        while not self._closed and len(self._incoming) < self.group.size - 1:
            with mailbox.changed:
                while not self._closed and not mailbox.wanted({*self._incoming, self.group.rank}, self.group.size):
                    mailbox.changed.wait()
            for _ in pauses():
                if self._closed:
                    return
                count = store.add(box, 0)
                if count > seen:
                    break
                with mailbox.changed:
                    if not mailbox.wanted({*self._incoming, self.group.rank}, self.group.size):
                        break
            while seen < count:
                seen += 1
                peer = int(store.get(f"{box}/{seen}"))
                with self._lock:
                    if self._closed:
                        return
                    self._incoming[peer] = Incoming(self.group, peer)

    def lost(self, peer, why):
        self._gone.add(peer)
        self.mailbox.lose(peer, why, self.group.size - 1 - len(self._gone))

    def cancel(self, message, error):
        """After a deadline, or when the group has broken."""
        if not message.receives():
            outgoing = self._outgoing.get(message.peer)
            return outgoing.cancel(message, error) if outgoing else message.finished(error)
        if not self.mailbox.remove(message):
            for incoming in list(self._incoming.values()):
                if incoming.current is message:
                    incoming.abort()
                    incoming.thread.join()
        message.finished(error)

    def close(self, gracefully, seconds):
        with self._lock:
            self._closed = True
            ends = [*self._outgoing.values(), *self._incoming.values()]
        end = time.monotonic() + seconds
        if gracefully:
            for outgoing in self._outgoing.values():
                outgoing.farewell()
            for direction in ends:
                direction.thread.join(max(end - time.monotonic(), 0))
        for direction in ends:
            if direction.thread.is_alive():
                direction.abort()
        self.mailbox.close(closed_error())
        for direction in ends:
            direction.thread.join(1)


def pauses():
    """Sleeps, longer and longer."""
    pause, longest = PAUSES_S
    while True:
        yield
        time.sleep(pause)
        pause = min(pause * 1.3, longest)


def closed_error():
    return dist.DistBackendError("tutti: the process group has been shut down or aborted")
