"""Synchronous calls on small plain tensors of the host, without what other calls need: copies, streams, handles.

Of a call of a few bytes most is what Python does around it.  Each of these makes the call that Operations makes of the same
arguments, as ranks may come to one call by either way; what is not plain goes there."""
from torch._C import _distributed_c10d as c10d

from .._api import core
from .._calls import plain
from .buckets import LEAST
from .operations import BYTE
from .reduce_op import BITWISE, OPERATORS

_OPERATORS = {int(kind): operator for kind, operator in OPERATORS.items()}
_FLOATS = (core.tuttiFloat16, core.tuttiBfloat16, core.tuttiFloat32, core.tuttiFloat64, core.tuttiFloat8e4m3, core.tuttiFloat8e5m2)


def operator_of(opts, dtype):
    """None where a call has more to do than to name it, or is wrong."""
    operator = _OPERATORS.get(int(opts.reduceOp.op))
    return None if operator in BITWISE and dtype in _FLOATS else operator


class AtOnce:
    """Mixed into a process group before Operations.  Its calls give None, as torch permits for those that have ended."""

    def allreduce(self, tensors, opts=None, *rest, **named):
        if opts.__class__ is c10d.AllreduceOptions and tensors.__class__ is list and len(tensors) == 1:
            memory = plain(tensors[0])
            if memory is not None:
                address, count, dtype, item_bytes = memory
                operator = operator_of(opts, dtype)
                # A bucket of DistributedDataParallel may lie in shared memory, of which Operations knows.
                if operator is not None and count * item_bytes < LEAST and self._engine.at_once(
                        "all_reduce", (core.tuttiCallAllReduce, address, address, count, dtype, operator, 0), opts, tensors, tensors):
                    return None
        return super().allreduce(tensors, opts, *rest, **named)

    def broadcast(self, tensors, opts=None, *rest, **named):
        if opts.__class__ is c10d.BroadcastOptions and tensors.__class__ is list and len(tensors) == 1:
            memory = plain(tensors[0])
            if memory is not None:
                address, count, _, item_bytes = memory
                if self._engine.at_once("broadcast", (core.tuttiCallBroadcast, address, address, count * item_bytes, BYTE, 0, opts.rootRank),
                                        opts, tensors, tensors):
                    return None
        return super().broadcast(tensors, opts, *rest, **named)

    def all_gather_single(self, output, input, opts=None):
        source, target = plain(input), plain(output)
        if source is not None and target is not None and opts is not None:
            (start, count, dtype, item_bytes), n = source, self._engine.size
            if target[1] == count * n and target[2] == dtype and self._engine.at_once(
                    "all_gather", (core.tuttiCallAllGather, start, target[0], count * item_bytes, BYTE, 0, 0), opts, [output], [input]):
                return None
        return super().all_gather_single(output, input, opts)

    def reduce_scatter_single(self, output, input, opts=None):
        source, target = plain(input), plain(output)
        if source is not None and target is not None and opts is not None:
            start, count, dtype, _ = target
            operator = operator_of(opts, dtype)
            if source[1] == count * self._engine.size and source[2] == dtype and operator is not None and self._engine.at_once(
                    "reduce_scatter", (core.tuttiCallReduceScatter, source[0], start, count, dtype, operator, 0), opts, [output], [input]):
                return None
        return super().reduce_scatter_single(output, input, opts)

    def all_to_all_single(self, output, input, output_splits, input_splits, opts=None):
        source, target = plain(input), plain(output)
        if source is not None and target is not None and opts is not None and not input_splits and not output_splits:
            (start, count, dtype, item_bytes), n = source, self._engine.size
            whole = target[1] == count and target[2] == dtype and count > 0 and input.shape[0] % n == 0 and output.shape[0] % n == 0
            if whole and self._engine.at_once(
                    "all_to_all", (core.tuttiCallAllToAll, start, target[0], count * item_bytes // n, BYTE, 0, 0), opts, [output], [input]):
                return None
        return super().all_to_all_single(output, input, output_splits, input_splits, opts)

    def barrier(self, opts=None, *rest, **named):
        if opts.__class__ is c10d.BarrierOptions and self._engine.at_once("barrier", (core.tuttiCallBarrier, 0, 0, 0, 0, 0, 0), opts, [], []):
            return None
        return super().barrier(*([] if opts is None else [opts]), *rest, **named)
