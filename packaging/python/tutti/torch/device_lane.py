"""Calls on the tensors of a device, on streams: who calls or waits goes on, and streams wait for each other."""
import collections
import time

import torch.distributed as dist

from . import spans
from .errors import check, lib
from .lane import Lane
from .work import Work, left_until, seconds_of


class DeviceLane(Lane):
    """A communicator on one device, with a stream of its own for asynchronous calls.

    These begin when the caller's current stream has come to them; synchronous ones are on that stream itself."""

    def __init__(self, comm, timeout_ms, device, index):
        super().__init__(comm, timeout_ms)
        self.device, self.index = device, index
        self.stream = device.stream(index)
        self._under_way = collections.deque()

    def launch(self, what, calls, outputs, sequence, after, keep, span, asynchronous):
        """after runs on the stream of the calls.  What the calls use is kept until they have ended."""
        with self._lock, self.device.use(self.index):
            stream = self._begin(asynchronous)
            try:
                self._call(what, calls, self.device.handle(stream))
            except BaseException as error:
                spans.end(span, error)
                raise
            return self._end(what, outputs, sequence, after, keep, span, stream)

    def _begin(self, asynchronous):
        self._captured = self.device.capturing(self.index)
        if not self._captured:
            self.poll()
        current = self.device.current_stream(self.index)
        if not asynchronous:
            return current
        self.device.wait(self.stream, self.device.record(current))
        return self.stream

    def _end(self, what, outputs, sequence, after, keep, span, stream):
        if after is not None:
            with self.device.entered(stream):
                after()
        work = DeviceWork(what, outputs, sequence, self, stream, keep, span)
        if self._captured:
            work.captured()
        else:
            self._under_way.append(work)
        return work

    def poll(self):
        """Let go of what calls used that have ended."""
        while self._under_way and self._under_way[0]._ended():
            self._under_way.popleft()

    def broken(self, what):
        """The error that the communicator has met since, or None."""
        if self.comm is None:
            return dist.DistBackendError(f"tutti: {what}: the process group has been shut down or aborted")
        if not self.failed():
            return None
        text = lib.tuttiGetLastError(self.comm).decode(errors="replace")
        return dist.DistBackendError(f"tutti: {what}: {text or 'the communicator has failed'}")

    def close(self, gracefully, timeout_ms):
        """The program has waited for its calls, or gives them up."""
        with self._lock:
            end = time.monotonic() + timeout_ms / 1000
            while gracefully and self._under_way and not self.failed() and time.monotonic() < end:
                self.poll()
                time.sleep(1e-3 if self._under_way else 0)
            gracefully = gracefully and not self._under_way
        super().close(gracefully, timeout_ms)


def launch_together(messages, what, asynchronous):
    """Sends and receives on several lanes as one group.  messages: (lane, call, tensor, after, keep, span)"""
    lanes = list(dict.fromkeys(lane for lane, *_ in messages))
    streams, works = {}, []
    for lane in lanes:
        lane._lock.acquire()
    try:
        for lane in lanes:
            with lane.device.use(lane.index):
                streams[lane] = lane._begin(asynchronous)
        status = lib.tuttiGroupStart()
        for lane, (function, *arguments), *_ in messages:
            function(*arguments, lane.comm, lane.device.handle(streams[lane]))
        status = lib.tuttiGroupEnd() or status
        failure = lane_failure(what, status)
        for lane, _, tensor, after, keep, span in messages:
            if failure is not None:
                spans.end(span, failure)
                continue
            with lane.device.use(lane.index):
                works.append(lane._end(what, [tensor], 0, after, keep, span, streams[lane]))
    finally:
        for lane in lanes:
            lane._lock.release()
    if failure is not None:
        raise failure
    return works


def lane_failure(what, status):
    try:
        check(status, what)
    except (ValueError, RuntimeError) as error:
        return error
    return None


class DeviceWork(Work):
    """A handle on calls on a stream.  To wait for it has the current stream wait, and the caller only where a time is given."""

    def __init__(self, what, outputs, sequence, lane, stream, keep, span):
        super().__init__(what, outputs, sequence)
        self._lane, self._stream, self._keep, self._span = lane, stream, keep, span
        self._event = lane.device.record(stream)
        self._over = False

    def captured(self):
        """It is part of a graph: nothing can be asked of it.  What it uses stays until the current stream waits for it, lest the
        graph give that memory to what comes meanwhile; then the graph's own pool has it, and the program what is its own."""
        self._over = True
        spans.end(self._span, None)
        self._span = None

    def _ended(self):
        if not self._over and (self._lane.device.done(self._event) or self._lane.comm is None):
            self._over, self._error = True, self._lane.broken(self._what)
            spans.end(self._span, self._error)
            self._keep = self._span = None
        return self._over

    def _finish(self, seconds=None):
        end, pause = None if seconds is None else time.monotonic() + seconds, 2e-5
        while not self._ended():
            if end is not None and time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 1.5, 2e-3, left_until(end) or 2e-3)
        return True

    def wait(self, timeout=None):
        if seconds_of(timeout) is not None:
            super().wait(timeout)
        self.synchronize()
        return True

    def synchronize(self):
        error = self._error or self._lane.broken(self._what)
        if error is not None:
            raise error
        self._lane.device.wait(self._lane.device.current_stream(self._lane.index), self._event)
        if self._over:
            self._keep = None

    block_current_stream = synchronize

    def get_future(self):
        """It has ended when it is made: who asks it for its result has the current stream wait."""
        if self._future is None:
            self._future = self._lane.device.future(self._lane.index)
            with self._lane.device.use(self._lane.index), self._lane.device.entered(self._stream):
                self._future.set_result(self.result())
        return self._future
