"""The communicators of one group on devices: one for each device that its calls use, one for each peer of messages, made at
their first use, which ranks come to together."""
import torch
import torch.distributed as dist

from .._api import core
from .device import name_of
from .device_lane import DeviceLane, launch_together
from .errors import lib
from .rendezvous import meet
from .work import Works

BYTE = core.tuttiUint8


class Devices:
    """By the threads that call the engine."""

    def __init__(self, engine, device):
        self.engine, self.device = engine, device
        self._lanes, self._pairs = {}, {}  # by the device's index; by (peer, the device's index)

    def all_lanes(self):
        return [*self._lanes.values(), *self._pairs.values()]

    def call(self, index, what, calls, outputs, after, keep, opts, inputs):
        engine = self.engine
        lane = self._lanes.get(index)
        if lane is None:
            self._outside_graphs(index, what)
        sequence, host = engine._next()
        if lane is None:
            lane = self._lanes[index] = self._join(index, what, host)
        span = engine._begin(what, outputs, inputs, sequence, None)
        return lane.launch(what, calls, outputs, sequence, after, (outputs, inputs, keep), span, getattr(opts, "asyncOp", True))

    def _join(self, index, what, host):
        """The lane that a call on host tensors would have taken tells whether all ranks have come for this."""
        engine, number = self.engine, len(self._lanes)
        mine = torch.tensor([number], dtype=torch.int64)
        told = torch.empty(engine.size, dtype=torch.int64)
        try:
            host.run(what, [(lib.tuttiAllGather, mine.data_ptr(), told.data_ptr(), 1, core.tuttiInt64)])
        except dist.DistBackendError as error:
            raise dist.DistBackendError(f"tutti: {what}: this rank's tensors are on {name_of(self.device, index)}, and all ranks have to come to "
                                        f"the first call there together, with tensors on a {self.device.kind} device: {error}") from None
        if len(set(told.tolist())) != 1:
            raise dist.DistBackendError(f"tutti: {what}: ranks have used {told.tolist()} devices of kind {self.device.kind} before this call on "
                                        f"{name_of(self.device, index)}: every rank has to take its devices in the same order")
        return self._made(index, f"device {number}/", engine.rank, engine.size)

    def _outside_graphs(self, index, what):
        if self.device.capturing(index):
            raise RuntimeError(f"tutti: {what}: the group's first call on {name_of(self.device, index)}, and its first message between two ranks, "
                               "make a communicator, which cannot be part of a graph: make such a call before the capture")

    def _made(self, index, place, rank, size):
        engine = self.engine
        with self.device.use(index):
            _, (comm,) = meet(dist.PrefixStore(place, engine.store), rank, size, engine.options, engine.timeout_ms, 1, self.device.memory)
            return DeviceLane(comm, engine.timeout_ms, self.device, index)

    # ---- Messages: each pair of ranks has a communicator of its own ----

    def message(self, function, tensor, peer, index, buffer, after, span):
        """(lane's key, call, ...) as launch_together takes it, but for the lane."""
        call = (function, buffer.data_ptr(), buffer.numel() * buffer.element_size(), BYTE, int(peer > self.engine.rank))  # the other rank's number in the pair
        return (peer, index), call, tensor, after, (tensor, buffer), span

    def start(self, messages, what, asynchronous=True):
        """Pairs come up in one order on all ranks, so that none waits for another in a circle."""
        engine = self.engine
        for peer, index in sorted({key for key, *_ in messages if key not in self._pairs}, key=lambda key: (sorted((key[0], engine.rank)), key)):
            self._outside_graphs(index, what)
            low, high = sorted((peer, engine.rank))
            number = sum(1 for other, _ in self._pairs if other == peer)
            self._pairs[peer, index] = self._made(index, f"device pair {low}:{high} {number}/", int(engine.rank == high), 2)
        works = launch_together([(self._pairs[key], *rest) for key, *rest in messages], what, asynchronous)
        return works[0] if len(works) == 1 else Works(works)

    # ---- All of them ----

    def poll(self):
        for lane in self.all_lanes():
            with lane._lock:
                lane.poll()

    def close(self, gracefully, timeout_ms):
        for lane in self.all_lanes():
            if not gracefully:
                lane.revoke()
            lane.close(gracefully, timeout_ms)
