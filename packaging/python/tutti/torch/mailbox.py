"""Which message is for which receive."""
import threading

import torch.distributed as dist


class Mailbox:
    """The receives of one rank of a group, in their order, and messages that came before their receive.

    A message is for the first receive of its source, or of any, that has its tag.  Any thread."""

    def __init__(self):
        self.changed = threading.Condition()
        self._posted = []
        self._early = {}  # source: [(tag, flat bytes)]
        self._gone = {}   # source: why nothing comes from it any more
        self._closed = None

    def post(self, receive):
        with self.changed:
            found = self._take_early(receive)
            error = None if found else self._closed or self._gone.get(receive.peer)
            if not found and error is None:
                self._posted.append(receive)
                self.changed.notify_all()
                return
        if error is not None:
            receive.finished(error)
        else:
            receive.take(*found)

    def _take_early(self, receive):
        for source in [receive.peer] if receive.peer >= 0 else sorted(self._early):
            waiting = self._early.get(source, [])
            for index, (tag, data) in enumerate(waiting):
                if tag == receive.tag:
                    del waiting[index]
                    return source, data
        return None

    def match(self, source, tag, closed):
        """The receive that a message is for; waits for one.  None: keep the message, as another receive waits behind it."""
        with self.changed:
            while not closed():
                blocked = False
                for index, receive in enumerate(self._posted):
                    if receive.peer in (source, -1):
                        if receive.tag == tag:
                            return self._posted.pop(index)
                        blocked = True
                if blocked:
                    return None
                self.changed.wait()
        return None

    def keep(self, source, tag, data):
        """A message that came before its receive, unless that has come meanwhile."""
        with self.changed:
            for index, receive in enumerate(self._posted):
                if receive.peer in (source, -1) and receive.tag == tag:
                    self._posted.pop(index)
                    break
            else:
                self._early.setdefault(source, []).append((tag, data))
                return
        receive.take(source, data)

    def pending(self, source=None):
        """Receives that have yet to meet their message; those of one source."""
        with self.changed:
            return [receive for receive in self._posted if source is None or receive.peer in (source, -1)]

    def pending_locked(self):
        return bool(self._posted)

    def remove(self, receive):
        """Whether it had yet to meet its message."""
        with self.changed:
            if receive not in self._posted:
                return False
            self._posted.remove(receive)
            return True

    def lose(self, source, error, others):
        """Nothing comes from the source any more.  others: how many could still send."""
        with self.changed:
            self._gone[source] = error
            if others == 0:
                self._gone[-1] = error
            lost = [receive for receive in self._posted if receive.peer in self._gone]
            self._posted = [receive for receive in self._posted if receive not in lost]
        for receive in lost:
            receive.finished(self._gone[receive.peer])

    def close(self, why):
        with self.changed:
            self._closed = dist.DistBackendError(f"tutti: {why}")
            lost, self._posted = self._posted, []
            self.changed.notify_all()
        for receive in lost:
            receive.finished(dist.DistBackendError(f"tutti: {receive._what}: {why}"))
