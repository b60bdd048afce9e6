"""Point to point in one group.

The group's own communicators run calls in one order, which sends and receives of different peers do not have: they go by
connections of their own (connection.py), and receives meet their messages in the mailbox."""
import threading
import time

import torch

from .connection import Incoming, Outgoing
from .mailbox import Mailbox
from .message import CLOSED, Receive, closed_error
from .threads import start

TICK_S = 1e-3    # a receive that nobody has waited for by then is left to other threads
LINGER_S = 5e-2  # how long the watcher looks every tick after the last receive


class Messages:
    """The sends and receives of one rank of a group.  Any thread."""

    def __init__(self, group):
        self.group, self.mailbox = group, Mailbox()
        self._outgoing, self._incoming, self._gone = {}, {}, set()
        self._lock = threading.Lock()
        self._watcher, self._closed = None, False
        self._seen, self._next_look = 0, 0.0

    def send(self, what, tensor, peer, tag, buffer, span):
        if peer == self.group.rank:
            return self._send_to_self(what, tensor, tag, buffer, span)
        with self._lock:
            if self._closed:
                raise closed_error()
            outgoing = self._outgoing.get(peer)
            if outgoing is None:
                outgoing = self._outgoing[peer] = Outgoing(self.group, peer)
        return outgoing.post(what, tensor, tag, buffer, span)

    def _send_to_self(self, what, tensor, tag, buffer, span):
        message = Receive(what, [tensor], self.group.rank, tag, buffer, None, self.group, span)
        self.mailbox.keep(self.group.rank, tag, buffer.reshape(-1).view(torch.uint8).clone())
        message.finished()
        return message

    def recv(self, what, tensor, peer, tag, buffer, after, span):
        receive = Receive(what, [tensor], peer, tag, buffer, after, self.group, span)
        if self._watcher is None:
            self._start()
        self.mailbox.post(receive)
        return receive

    def _start(self):
        with self._lock:
            if self._watcher is None and not self._closed:
                self._watcher = start("receives", "tutti receives", self._watch)

    def drive(self, receive):
        incoming = self._incoming.get(receive.peer)
        return incoming is not None and incoming.drive(receive)

    # ---- The watcher: receives that nobody waits for, and senders that want to connect ----

    def _watch(self):
        mailbox, me = self.mailbox, self.group.rank
        while not self._closed:
            with mailbox.changed:
                while not self._closed and not mailbox.pending_locked():
                    mailbox.changed.wait()
            until = time.monotonic() + LINGER_S
            while not self._closed and time.monotonic() < until:
                pending = [receive for receive in mailbox.pending() if receive.peer != me]
                if pending:
                    until = time.monotonic() + LINGER_S
                    self._look_after(pending)
                time.sleep(TICK_S)

    def _look_after(self, pending):
        now, incoming, others = time.monotonic(), dict(self._incoming), self.group.size - 1
        missing = [receive.posted for receive in pending
                   if (receive.peer < 0 and len(incoming) < others) or (receive.peer >= 0 and receive.peer not in incoming)]
        if missing and now >= self._next_look:
            self._accept()
            self._next_look = now + min((now - min(missing)) / 10, 2e-2)
        for receive in pending:
            if now - receive.posted > TICK_S:
                for peer in [receive.peer] if receive.peer >= 0 else list(incoming):
                    if peer in incoming:
                        incoming[peer].kick()

    def _accept(self):
        store, box = self.group.store, f"messages/{self.group.rank}"
        try:
            count = store.add(box, 0)
            while self._seen < count:
                self._seen += 1
                peer = int(store.get(f"{box}/{self._seen}"))
                with self._lock:
                    if not self._closed:
                        self._incoming[peer] = Incoming(self.group, peer)
        except RuntimeError as error:  # the store is gone, and with it all who have yet to connect
            for peer in set(range(self.group.size)) - {*self._incoming, self.group.rank}:
                self.lost(peer, error)

    def lost(self, peer, why):
        self._gone.add(peer)
        self.mailbox.lose(peer, why, self.group.size - 1 - len(self._gone))

    def cancel(self, message, error):
        """After a deadline, or when the group has broken.  The tensor is its caller's again."""
        if not isinstance(message, Receive):
            self._outgoing[message.peer].cancel(message, error)
            return
        if not self.mailbox.remove(message):
            for incoming in list(self._incoming.values()):
                if incoming.current is message:
                    incoming.abort()
                    incoming.thread.join()
        message.finished(error)

    def close(self, gracefully, seconds):
        with self._lock:
            self._closed = True
            outgoing, incoming = list(self._outgoing.values()), list(self._incoming.values())
        with self.mailbox.changed:
            self.mailbox.changed.notify_all()
        if gracefully:
            for connection in outgoing:
                connection.farewell()
            for connection in incoming:
                connection.drain()
            end = time.monotonic() + seconds
            for connection in incoming:
                connection.thread.join(max(end - time.monotonic(), 0))
        for connection in [*outgoing, *incoming]:
            if not gracefully or (connection in incoming and connection.thread.is_alive()):
                connection.abort()
        self.mailbox.close(CLOSED)
        leave_all([*outgoing, *incoming], gracefully)


def leave_all(connections, gracefully):
    """All at once: each waits for its other end, whose process leaves in an order of its own."""
    threads, alone = [], []
    for connection in connections:
        try:
            threads.append(start("the end of a connection", "tutti leaves", connection.leave, gracefully))
        except RuntimeError:
            alone.append(connection)
    for connection in alone:
        connection.leave(gracefully)
    for thread in threads:
        thread.join()
