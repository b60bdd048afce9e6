"""c10d's operations as calls of the library.  Mixed into the backend and the process group, which have `_engine`.

Movement goes by bytes, so that it takes every dtype; reductions go by the library's types."""
import ctypes
from datetime import timedelta

import torch
from torch._C import _distributed_c10d as c10d

from .._api import core
from .buckets import address_of, from_backward, is_flat_parameter
from .errors import lib
from .overloads import overloaded
from .reduce_op import dtype_and_op, numbers, scaled
from .sparse import all_reduce_sparse
from .tensors import buffer_of, bytes_of, check, copy_back, joined, layout, output_of, rows_of, same_dtype

BYTE = core.tuttiUint8


def sizes_array(values):
    return (ctypes.c_size_t * len(values))(*values)


def single(tensors, what):
    if len(tensors) != 1:
        raise ValueError(f"tutti: {what} takes one tensor, and was given {len(tensors)}")
    return tensors[0]


def require(condition, what, text):
    if not condition:
        raise ValueError(f"tutti: {what}: {text}")


def by_rank(what, engine, one, several):
    """Pairs of a tensor and one block for each rank, of which this rank's has the tensor's size.  one, several: (name, them)"""
    (name, tensors), (other, lists) = one, several
    require(len(tensors) == len(lists), what, f"{len(lists)} lists of {other}s for {len(tensors)} {name}s")
    for tensor, blocks in zip(tensors, lists):
        require(len(blocks) == engine.size, what, f"{len(blocks)} {other} tensors for {engine.size} ranks")
        for block in blocks:
            same_dtype(*((tensor, block) if name == "output" else (block, tensor)), what)
        mine = blocks[engine.rank].numel()
        require(mine == tensor.numel(), what, f"{name} has {tensor.numel()} elements, this rank's {other} {mine}")
    return zip(tensors, lists)


class Operations:
    # ---- Reductions ----

    @overloaded(c10d.AllreduceOptions, 1, ("op", "timeout"))
    def allreduce(self, tensors, opts=None):
        require(len(tensors) > 0, "all_reduce", "requires non-empty tensor list")
        if tensors[0].is_sparse:
            return all_reduce_sparse(self._engine, tensors, opts)
        reduce_op, calls, pairs, buffers = opts.reduceOp, [], [], []
        move = self._engine.options.shared_buckets
        for tensor in tensors:
            buffer = buffer_of(tensor)
            source = numbers(scaled(buffer, reduce_op), reduce_op)
            target = numbers(buffer, reduce_op)
            to = address_of(target, self._engine.size, from_backward) if move and target.is_cpu else target.data_ptr()
            calls.append((lib.tuttiAllReduce, to if source.data_ptr() == target.data_ptr() else source.data_ptr(), to, target.numel(),
                          *dtype_and_op(target, reduce_op)))
            pairs.append((tensor, buffer))
            buffers += [source, target]
        return self._engine.call("all_reduce", calls, list(tensors), copy_back(pairs), buffers, opts)

    @overloaded(c10d.AllreduceCoalescedOptions, 1)
    def allreduce_coalesced(self, tensors, opts=None):
        require(len({tensor.layout for tensor in tensors}) <= 1, "all_reduce_coalesced", "tensor layouts differ")
        return Operations.allreduce.__wrapped__(self, tensors, opts)

    @overloaded(c10d.AllreduceOptions, 1)
    def allreduce_sparse(self, tensors, opts=None):
        return all_reduce_sparse(self._engine, tensors, opts)

    @overloaded(c10d.ReduceOptions, 1, ("root", "op", "timeout"))
    def reduce(self, tensors, opts=None):
        tensor, reduce_op = single(tensors, "reduce"), opts.reduceOp
        buffer = buffer_of(tensor)
        source = numbers(scaled(buffer, reduce_op), reduce_op)
        target = numbers(buffer, reduce_op)
        is_root = self._engine.rank == opts.rootRank
        call = (lib.tuttiReduce, source.data_ptr(), target.data_ptr() if is_root else None, target.numel(),
                *dtype_and_op(target, reduce_op), opts.rootRank)
        after = copy_back([(tensor, buffer)]) if is_root else None
        return self._engine.call("reduce", [call], [tensor], after, (source, target), opts)

    def reduce_scatter_single(self, output, input, opts=None):
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        what, n = "reduce_scatter", self._engine.size
        opts = opts or c10d.ReduceScatterOptions()
        require(len(outputs) == len(inputs), what, f"{len(inputs)} inputs for {len(outputs)} outputs")
        calls, pairs, keep = [], [], []
        for output, input in zip(outputs, inputs):
            same_dtype(output, input, what)
            require(input.numel() == output.numel() * n, what, "input tensor must be the same size as output size times world "
                    f"size: it has {input.numel()} elements, the output {output.numel()}, the group {n} ranks")
            calls.append(self._scatter_call(output, buffer_of(input, "input"), opts.reduceOp, pairs, keep))
        return self._engine.call(what, calls, list(outputs), copy_back(pairs), keep, opts, inputs)

    def _scatter_call(self, output, flat, reduce_op, pairs, keep):
        target = output_of(output)
        pairs.append((output, target))
        source, place = numbers(scaled(flat, reduce_op), reduce_op), numbers(target, reduce_op)
        keep += [source, place]
        return (lib.tuttiReduceScatter, source.data_ptr(), place.data_ptr(), place.numel(), *dtype_and_op(place, reduce_op))

    @overloaded(c10d.ReduceScatterOptions, 2, ("op", "timeout"), nested=(1,))
    def reduce_scatter(self, outputs, inputs, opts=None):
        what, engine = "reduce_scatter", self._engine
        calls, pairs, keep = [], [], []
        for output, blocks in by_rank(what, engine, ("output", outputs), ("input", inputs)):
            flat = flattened(blocks)
            counts = [block.numel() for block in blocks]
            if len(set(counts)) == 1:
                calls.append(self._scatter_call(output, flat, opts.reduceOp, pairs, keep))
            else:
                calls.append(self._scatter_uneven(output, flat, counts, opts.reduceOp, pairs, keep))
        return engine.call(what, calls, list(outputs), copy_back(pairs), keep, opts, [block for blocks in inputs for block in blocks])

    def _scatter_uneven(self, output, flat, counts, reduce_op, pairs, keep):
        target = output_of(output)
        pairs.append((output, target))
        factor = 2 if flat.is_complex() else 1
        source, place = numbers(scaled(flat, reduce_op), reduce_op), numbers(target, reduce_op)
        counts, displacements = layout([count * factor for count in counts])
        arrays = sizes_array(counts), sizes_array(displacements)
        keep += [source, place, arrays]
        return (lib.tuttiReduceScatterv, source.data_ptr(), place.data_ptr(), *arrays, *dtype_and_op(place, reduce_op))

    # ---- Movement ----

    @overloaded(c10d.BroadcastOptions, 1, ("root", "timeout"))
    def broadcast(self, tensors, opts=None):
        tensor = single(tensors, "broadcast")
        buffer = buffer_of(tensor)
        address, is_root = buffer.data_ptr(), self._engine.rank == opts.rootRank
        call = (lib.tuttiBroadcast, address, address, bytes_of(buffer), BYTE, opts.rootRank)
        after = None if is_root else copy_back([(tensor, buffer)])
        return self._engine.call("broadcast", [call], [tensor], after, buffer, opts)

    def all_gather_single(self, output, input, opts=None):
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        what, n = "all_gather", self._engine.size
        require(len(outputs) == len(inputs), what, f"{len(inputs)} inputs for {len(outputs)} outputs")
        calls, pairs, keep = [], [], []
        for output, input in zip(outputs, inputs):
            same_dtype(output, input, what)
            require(output.numel() == input.numel() * n, what, "output tensor size must be equal to world_size times input "
                    f"tensor size: it has {output.numel()} elements, the input {input.numel()}, the group {n} ranks")
            source, target = buffer_of(input, "input"), output_of(output)
            pairs.append((output, target))
            keep += [source, target]
            calls.append((lib.tuttiAllGather, source.data_ptr(), target.data_ptr(), bytes_of(source), BYTE))
        return self._engine.call(what, calls, list(outputs), copy_back(pairs), keep, opts, inputs)

    @overloaded(c10d.AllgatherOptions, 2, nested=(0,))
    def allgather(self, outputs, inputs, opts=None):
        what, engine = "all_gather", self._engine
        calls, pairs, keep = [], [], []
        for input, blocks in by_rank(what, engine, ("input", inputs), ("output", outputs)):
            source, (flat, places) = buffer_of(input, "input"), room_for(blocks)
            pairs += places
            sizes, displacements = layout([bytes_of(block) for block in blocks])
            keep += [source, flat]
            if len(set(sizes)) == 1:
                move = engine.options.shared_buckets and source.is_cpu
                start = address_of(source, engine.size, is_flat_parameter) if move else source.data_ptr()
                calls.append((lib.tuttiAllGather, start, flat.data_ptr(), sizes[0], BYTE))
            else:
                arrays = sizes_array(sizes), sizes_array(displacements)
                keep.append(arrays)
                calls.append((lib.tuttiAllGatherv, source.data_ptr(), bytes_of(source), flat.data_ptr(), *arrays, BYTE))
        return engine.call(what, calls, [block for blocks in outputs for block in blocks], copy_back(pairs), keep, opts, inputs)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """Output lists are by rank, and hold a tensor per input."""
        require(len(outputs) == self._engine.size, "all_gather_coalesced",
                f"{len(outputs)} lists of outputs for {self._engine.size} ranks")
        for blocks in outputs:
            require(len(blocks) == len(inputs), "all_gather_coalesced", f"{len(blocks)} outputs for {len(inputs)} inputs")
        return self.allgather([[blocks[at] for blocks in outputs] for at in range(len(inputs))], inputs, opts)

    @overloaded(c10d.GatherOptions, 2, ("root", "timeout"), nested=(0,))
    def gather(self, outputs, inputs, opts=None):
        what, engine, root = "gather", self._engine, opts.rootRank
        source = buffer_of(single(inputs, what), "input")
        if engine.rank != root:
            require(not outputs, what, "requires empty output on non-root")
            call = (lib.tuttiGatherv, source.data_ptr(), bytes_of(source), None, None, None, BYTE, root)
            return engine.call(what, [call], [], None, source, opts, inputs)
        require(len(outputs) == 1 and len(outputs[0]) == engine.size, what, f"requires one list of {engine.size} output tensors "
                "on the root")
        blocks = outputs[0]
        for block in blocks:
            same_dtype(block, source, what)
        flat, pairs = room_for(blocks)
        arrays = [sizes_array(values) for values in layout([bytes_of(block) for block in blocks])]
        call = (lib.tuttiGatherv, source.data_ptr(), bytes_of(source), flat.data_ptr(), *arrays, BYTE, root)
        return engine.call(what, [call], list(blocks), copy_back(pairs), (source, flat, arrays), opts, inputs)

    def gather_single(self, output, input, opts=None):
        engine, opts = self._engine, opts or c10d.GatherOptions()
        if engine.rank != opts.rootRank:
            return self.gather([], [input], opts)
        require(output.numel() == input.numel() * engine.size, "gather", f"output has {output.numel()} elements, input "
                f"{input.numel()}, the group {engine.size} ranks")
        target = output_of(output)
        work = self.gather([list(target.view(engine.size, *input.shape))], [input], opts)
        return work if target is output else then_copy(work, output, target)

    @overloaded(c10d.ScatterOptions, 2, ("root", "timeout"), nested=(1,))
    def scatter(self, outputs, inputs, opts=None):
        what, engine, root = "scatter", self._engine, opts.rootRank
        output = single(outputs, what)
        target = output_of(output)
        after = copy_back([(output, target)])
        if engine.rank != root:
            require(not inputs, what, "requires empty input on non-root")
            call = (lib.tuttiScatterv, None, None, None, target.data_ptr(), bytes_of(target), BYTE, root)
            return engine.call(what, [call], [output], after, target, opts, [])
        require(len(inputs) == 1 and len(inputs[0]) == engine.size, what, f"requires one list of {engine.size} input tensors on "
                "the root")
        for block in inputs[0]:
            same_dtype(output, block, what)
        flat = flattened(inputs[0])
        arrays = [sizes_array(values) for values in layout([bytes_of(block) for block in inputs[0]])]
        call = (lib.tuttiScatterv, flat.data_ptr(), *arrays, target.data_ptr(), bytes_of(target), BYTE, root)
        return engine.call(what, [call], [output], after, (flat, target, arrays), opts, inputs[0])

    def all_to_all_single(self, output, input, output_splits, input_splits, opts=None):
        what, engine = "all_to_all", self._engine
        same_dtype(output, input, what)
        source, target = buffer_of(input, "input"), output_of(output)
        sent, received = (rows_of(source, input_splits, engine.size, "input"),
                          rows_of(target, output_splits, engine.size, "output"))
        if not input_splits and not output_splits:
            require(bytes_of(source) == bytes_of(target), what, f"input has {source.numel()} elements, output {target.numel()}")
            calls = [(lib.tuttiAllToAll, source.data_ptr(), target.data_ptr(), sent[0][0], BYTE)]
            keep = (source, target)
        else:
            if source.data_ptr() == target.data_ptr() and sent != received:
                source = source.clone()
            arrays = [sizes_array(values) for values in (*sent, *received)]
            calls = [(lib.tuttiAllToAllv, source.data_ptr(), *arrays[:2], target.data_ptr(), *arrays[2:], BYTE)]
            keep = (source, target, arrays)
        return engine.call(what, calls, [output], copy_back([(output, target)]), keep, opts, [input])

    def alltoall(self, outputs, inputs, opts=None):
        what, engine = "all_to_all", self._engine
        for tensors, name in ((outputs, "output"), (inputs, "input")):
            require(len(tensors) == engine.size, what, f"{len(tensors)} {name} tensors for {engine.size} ranks")
            for tensor in tensors:
                same_dtype(tensor, inputs[0], what)
        flat, (room, pairs) = flattened(inputs), room_for(outputs)
        arrays = [sizes_array(values) for blocks in (inputs, outputs)
                  for values in layout([bytes_of(block) for block in blocks])]
        call = (lib.tuttiAllToAllv, flat.data_ptr(), *arrays[:2], room.data_ptr(), *arrays[2:], BYTE)
        return engine.call(what, [call], list(outputs), copy_back(pairs), (flat, room, arrays), opts, inputs)

    # ---- Barriers ----

    @overloaded(c10d.BarrierOptions, 0)
    def barrier(self, opts):
        return self._engine.call("barrier", [(lib.tuttiBarrier,)], [], opts=opts)

    def monitored_barrier(self, opts=None, wait_all_ranks=False):
        """opts: BarrierOptions, or a timeout as ProcessGroup's own method takes it."""
        timeout = opts if isinstance(opts, timedelta) else getattr(opts, "timeout", None)
        given = timeout is not None and timeout >= timedelta(0)
        self._engine.monitored_barrier(round(timeout.total_seconds() * 1000) if given else self._engine.timeout_ms, wait_all_ranks)

    # ---- Point to point ----

    def send(self, tensors, dst, tag=0):
        tensor = single(tensors, "send")
        require(0 <= dst < self._engine.size, "send", f"there is no rank {dst} in a group of {self._engine.size}")
        return self._engine.send(tensor, dst, tag, buffer_of(tensor))

    def recv(self, tensors, src, tag=0):
        tensor = single(tensors, "recv")
        require(0 <= src < self._engine.size, "recv", f"there is no rank {src} in a group of {self._engine.size}")
        return self._receive(tensor, src, tag)

    def recv_anysource(self, tensors, tag=0):
        return self._receive(single(tensors, "recv"), -1, tag)

    def _receive(self, tensor, src, tag):
        buffer = output_of(tensor, "tensor")
        return self._engine.recv(tensor, src, tag, buffer, copy_back([(tensor, buffer)]))

    # Names of other versions of torch.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single
    gather_into_tensor = gather_single
    recvAnysource = recv_anysource
    monitoredBarrier = monitored_barrier

    # ---- The group ----

    def start_coalescing(self, device=None):
        self._engine.start_coalescing()

    def end_coalescing(self, device=None):
        return self._engine.end_coalescing()

    _start_coalescing, _end_coalescing = start_coalescing, end_coalescing

    def set_timeout(self, timeout):
        self._engine.set_timeout(timeout)

    _set_default_timeout = set_timeout

    def abort(self):
        self._engine.abort()

    def shutdown(self):
        self._engine.shutdown()

    def _get_sequence_number_for_group(self):
        return self._engine.sequence

    def _set_sequence_number_for_group(self):
        """Sequence numbers begin with 0 on every rank."""

    def getBackendName(self):
        return "tutti"


def flattened(blocks):
    """One tensor with the bytes of all: their own memory where they lie one after the other."""
    for block in blocks:
        check(block)
    flat = joined(blocks)
    return torch.cat([block.reshape(-1) for block in blocks]).resolve_conj().resolve_neg() if flat is None else flat


def room_for(blocks):
    """(flat tensor for the bytes of all blocks, what to copy where afterwards)."""
    for block in blocks:
        check(block)
    flat = joined(blocks)
    if flat is not None:
        return flat, []
    flat = torch.empty(sum(block.numel() for block in blocks), dtype=blocks[0].dtype, device=blocks[0].device)
    parts = flat.split([block.numel() for block in blocks])
    return flat, [(block, part.view(block.shape)) for block, part in zip(blocks, parts)]


def then_copy(work, output, target):
    work.wait()
    with torch.no_grad():
        output.copy_(target)
    return work
