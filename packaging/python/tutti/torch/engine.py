"""What a process group and its backend share: communicators, messages, the order of calls, and how all of it ends."""
import atexit
import itertools
import multiprocessing.util
import os
import sys
import threading
import time
import weakref
from datetime import timedelta

import torch.distributed as dist

from .._api import core
from . import buckets, kept, recorder, spans
from .errors import lib
from .lane import Lane
from .connection import pauses
from .device import CUDA, one_place
from .devices import Devices
from .messages import Messages
from .options import milliseconds
from .pool import Pool
from .rendezvous import meet
from .work import ThreadWork, Work, Works

_live = weakref.WeakValueDictionary()  # by the order in which they were made
_numbers = itertools.count()
_leaves = None  # the process that calls _leave() when it ends


class Coalescing:
    """What was called since start_coalescing."""

    def __init__(self):
        self.calls, self.outputs, self.inputs, self.afters, self.keep, self.works = [], [], [], [], [], []
        self.names, self.messages, self.asynchronous = set(), [], False

    def name(self):
        return self.names.pop() if len(self.names) == 1 else "coalesced"

    def finish(self):
        for after in self.afters:
            after()


class Engine:
    """One rank of a group.  Collectives may be called by any thread, in one order."""

    def __init__(self, store, rank, size, options):
        # A connection of its own, where the store has connections: others wait on theirs for long.
        store = store.clone() if hasattr(store, "clone") else store
        self.rank, self.size, self.options = rank, size, options
        self.timeout_ms = milliseconds(options._timeout)
        self.sequence, self.coalescing, self.name = 0, None, "tutti"
        self._message_count, self._number = 0, next(_numbers)
        self.identity = recorder.Identity(self._number, size)
        self._process, self._closed = os.getpid(), None
        self._barriers = 0
        self._order = threading.Lock()
        self.store, comms = meet(store, rank, size, options, self.timeout_ms)
        self.lanes = [Lane(comm, self.timeout_ms) for comm in comms]
        self.messages, self.pool, self.devices = Messages(self), Pool(), Devices(self, CUDA)
        _live[self._number] = self
        _leave_at_end()

    # ---- Collectives ----

    def call(self, what, calls, outputs, after=None, keep=(), opts=None, inputs=None):
        """calls: (function, arguments up to the communicator), which start together.  after: what remains to be done when
        they have ended.  keep: what they use besides outputs.  inputs: for profilers and records, if not the outputs."""
        if self._closed is not None or os.getpid() != self._process:
            self.refuse(what)
        asynchronous = getattr(opts, "asyncOp", True)
        if self.coalescing is not None:
            return self._collect(what, calls, outputs, after, keep, asynchronous, inputs)
        index = one_place(self.devices.device, what, outputs, inputs or ())
        if index is not None:
            return self.devices.call(index, what, calls, outputs, after, keep, opts, inputs)
        timeout_ms = limit_of(opts)
        sequence, lane = self._next()
        span = self._begin(what, outputs, inputs, sequence, timeout_ms)
        if asynchronous:
            return lane.enqueue(what, calls, outputs, sequence, after, (outputs, keep), timeout_ms, span)
        self._run(span, lane.run, what, calls, timeout_ms)
        if after is not None:
            after()
        return Work(what, outputs, sequence)

    def at_once(self, what, call, opts, outputs, inputs):
        """What call() does of a synchronous call that leaves nothing to do, if it is on memory of the host.  False: nothing was done.

        call: (kind, send, recv, count, dtype, op, root)"""
        if getattr(opts, "asyncOp", True) or self.coalescing is not None or spans.profiled() or limit_of(opts) is not None:
            return False
        if self._closed is not None or os.getpid() != self._process:
            self.refuse(what)
        index_of = self.devices.device.index_of
        for tensors in (outputs,) if outputs is inputs else (outputs, inputs):
            for tensor in tensors:
                if index_of(tensor) is not None:
                    return False
        sequence, lane = self._next()
        entry = recorder.begin(self.identity, what, sequence, self._message_count, inputs, outputs, self.timeout_ms)
        lane.run_one(what, *call)
        if entry is not None:
            entry.end(None)
        return True

    def call_in_steps(self, what, body, outputs, opts=None):
        """A collective of several calls, of which the later depend on what the earlier say: body(lane) makes them by
        lane.run_held().  Other collectives of its lane wait for it."""
        if self._closed is not None or os.getpid() != self._process:
            self.refuse(what)
        sequence, lane = self._next()
        span = self._begin(what, outputs, None, sequence, limit_of(opts))
        lane.hold()
        if getattr(opts, "asyncOp", True):
            return ThreadWork(what, outputs, sequence, lambda: lane.release_after(body), span)
        self._run(span, lane.release_after, body)
        return Work(what, outputs, sequence)

    def _next(self):
        with self._order:
            self.sequence += 1
            return self.sequence, self.lanes[self.sequence % len(self.lanes)]

    def _begin(self, what, outputs, inputs, sequence, timeout_ms):
        inputs = outputs if inputs is None else inputs
        entry = recorder.begin(self.identity, what, sequence, self._message_count, inputs, outputs, timeout_ms or self.timeout_ms)
        return spans.begin(f"{self.name}:{what}", inputs, entry)

    @staticmethod
    def _run(span, function, *arguments):
        try:
            function(*arguments)
        except BaseException as error:
            spans.end(span, error)
            raise
        spans.end(span)

    def refuse(self, what):
        if os.getpid() != self._process:
            raise RuntimeError(f"tutti: {what}: this process was forked after init_process_group, and its parent is the rank; "
                               "call init_process_group in the child, or start it with multiprocessing's 'spawn'")
        raise dist.DistBackendError(f"tutti: {what}: the process group has been {self._closed}")

    # ---- Coalescing: a group of calls ----

    def start_coalescing(self):
        if self.coalescing is not None:
            raise RuntimeError("tutti: start_coalescing was called twice without end_coalescing")
        self.coalescing = Coalescing()

    def _collect(self, what, calls, outputs, after, keep, asynchronous, inputs):
        group = self.coalescing
        group.names.add(what)
        group.calls += calls
        group.outputs += outputs
        group.inputs += outputs if inputs is None else inputs
        group.keep.append(keep)
        group.asynchronous = group.asynchronous or asynchronous
        if after is not None:
            group.afters.append(after)
        return Work("collected call", outputs)

    def end_coalescing(self):
        group, self.coalescing = self.coalescing, None
        if group is None:
            raise RuntimeError("tutti: end_coalescing was called without start_coalescing")
        works = list(group.works)
        if group.messages:
            works.append(self.devices.start(group.messages, "coalesced messages"))
        if group.calls:
            after = group.finish if group.afters else None
            works.append(self.call(group.name(), group.calls, group.outputs, after, group.keep, inputs=group.inputs))
        if len(works) == 1:
            return works[0]
        return Works(works) if works else Work("coalesced calls", [])

    # ---- Messages ----

    def send(self, tensor, peer, tag, buffer):
        what = f"send to rank {peer}"
        if self._closed is not None or os.getpid() != self._process:
            self.refuse(what)
        span = self._begin_message("send", f"send {self.rank}->{peer}", tensor)
        index = self.devices.device.index_of(tensor)
        if index is not None:
            return self._device_message(what, lib.tuttiSend, tensor, peer, index, buffer, None, span)
        return self._collected(self.messages.send(what, tensor, peer, tag, buffer, span))

    def recv(self, tensor, peer, tag, buffer, after):
        what, kind = (f"recv from rank {peer}", "recv") if peer >= 0 else ("recv from any rank", "recvAnySource")
        if self._closed is not None or os.getpid() != self._process:
            self.refuse(what)
        index = self.devices.device.index_of(tensor)
        if index is not None and peer < 0:
            raise ValueError(f"tutti: {what}: tensors of a device are received from a rank that the call names; this one is on {tensor.device}")
        span = self._begin_message(kind, f"recv {self.rank}<-{peer if peer >= 0 else '?'}", tensor)
        if index is not None:
            return self._device_message(what, lib.tuttiRecv, tensor, peer, index, buffer, after, span)
        return self._collected(self.messages.recv(what, tensor, peer, tag, buffer, after, span))

    def _device_message(self, what, function, tensor, peer, index, buffer, after, span):
        if peer == self.rank:
            raise ValueError(f"tutti: {what}: tensors of a device go to other ranks; copy_() does it within one")
        message = self.devices.message(function, tensor, peer, index, buffer, after, span)
        if self.coalescing is None:
            return self.devices.start([message], what)
        self.coalescing.messages.append(message)
        return Work(what, [tensor])

    def _begin_message(self, kind, name, tensor):
        with self._order:
            self._message_count += 1
        entry = recorder.begin(self.identity, name, self.sequence, self._message_count, [tensor], [tensor], self.timeout_ms, True)
        return spans.begin(f"{self.name}:{kind}", [tensor], entry)

    def _collected(self, work):
        if self.coalescing is not None:
            self.coalescing.works.append(work)
        return work

    def lost(self):
        """Why the group is broken, or None."""
        if self._closed is not None:
            return f"the process group has been {self._closed}"
        for lane in [*self.lanes, *self.devices.all_lanes()]:
            if lane.failed():
                return lib.tuttiGetLastError(lane.comm).decode(errors="replace") or "the communicator has failed"
        return None

    # ---- Barrier with names ----

    def monitored_barrier(self, timeout_ms, wait_all_ranks):
        """Rank 0 names the ranks that do not come; by the store, which needs no working communicator."""
        if self._closed is not None or os.getpid() != self._process:
            self.refuse("monitored_barrier")
        self._barriers += 1
        place, end = f"barriers/{self._barriers}", time.monotonic() + timeout_ms / 1000
        if self.rank == 0:
            self._lead_barrier(place, end, timeout_ms, wait_all_ranks)
            return
        self.store.set(f"{place}/{self.rank}", "here")
        verdict = self._await(f"{place}/verdict", end)
        if verdict != b"passed":
            text = f"nothing came in {timeout_ms} ms" if verdict is None else verdict.decode()
            raise dist.DistBackendError(f"tutti: Rank {self.rank} successfully reached monitoredBarrier, but received errors "
                                        f"while waiting for send/recv from rank 0: {text}. Please check rank 0 logs for "
                                        "faulty rank.")

    def _lead_barrier(self, place, end, timeout_ms, wait_all_ranks):
        if timeout_ms == 0:
            raise dist.DistBackendError("tutti: [Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms.")
        missing = []
        for rank in range(1, self.size):
            if self._await(f"{place}/{rank}", end) is None:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        if not missing:
            self.store.set(f"{place}/verdict", "passed")
            return
        ranks = f"Rank {missing[0]}" if len(missing) == 1 else "Ranks " + ", ".join(map(str, missing))
        text = f"{ranks} failed to pass monitoredBarrier in {timeout_ms} ms"
        self.store.set(f"{place}/verdict", text)
        raise dist.DistBackendError(f"tutti: [Rank 0]: {text}")

    def _await(self, key, end):
        for _ in pauses():
            if self.store.check([key]):
                return bytes(self.store.get(key))
            if time.monotonic() > end:
                return None

    # ---- The end ----

    def set_timeout(self, timeout):
        self.timeout_ms = milliseconds(timeout)
        self.options._timeout = timeout
        for lane in [*self.lanes, *self.devices.all_lanes()]:
            lane.set_timeout(self.timeout_ms)

    def abort(self):
        """End what is under way, on every rank.  Waits for nobody."""
        if self._closed is None and os.getpid() == self._process:
            self._closed = "aborted"
            for lane in [*self.lanes, *self.devices.all_lanes()]:
                lane.revoke()
            self.messages.close(False, 0)

    def shutdown(self, broken=False):
        """When all ranks have come to it, unless something has failed."""
        if self._closed == "destroyed" or os.getpid() != self._process:
            return
        recorder.name_groups()
        gracefully = self._closed is None and not broken and self.lost() is None
        self._closed = "destroyed"
        limit_ms = min(self.timeout_ms, milliseconds(self.options.shutdown_timeout))
        self.devices.close(gracefully, limit_ms)
        for lane in self.lanes:
            if not gracefully:
                lane.revoke()
            lane.close(gracefully, limit_ms)
        self.messages.close(gracefully, min(2, limit_ms / 1000))
        self.pool.close()
        buckets.sweep()
        _live.pop(self._number, None)


def limit_of(opts):
    """A call's own timeout in milliseconds, or None: the group's."""
    timeout = getattr(opts, "timeout", None)
    if timeout is None or timeout <= timedelta(0):
        return None
    return milliseconds(timeout)


def _leave_at_end():
    """Processes of multiprocessing end without atexit, and forget at a fork what their parent has registered."""
    global _leaves
    if _leaves != os.getpid():
        _leaves = os.getpid()
        multiprocessing.util.Finalize(None, _leave, exitpriority=100)


@atexit.register
def _leave():
    """Who ends without destroy_process_group lets the others finish; who ends by an exception tells them at once.

    A group's end waits for its other ranks, so every rank ends its groups in the order in which it made them."""
    error = sys.exc_info()[1]  # that of a process of multiprocessing
    broken = getattr(sys, "last_value", None) is not None or not (error is None or isinstance(error, SystemExit))
    for _, engine in sorted(_live.items()):
        engine.shutdown(broken)
    kept.forget()
