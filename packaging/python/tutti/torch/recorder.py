"""The last operations of this process's groups, in the shape of PyTorch's Flight Recorder, which its own analysis reads:

    tutti.torch.dump_flight_recorder("/tmp/trace_{rank}")         # on every rank
    python -m torch.distributed.flight_recorder.fr_trace /tmp --prefix trace_

Torch's variable says how many are kept, TORCH_FR_BUFFER_SIZE (older: TORCH_NCCL_TRACE_BUFFER_SIZE); 0: none."""
import collections
import itertools
import json
import os
import pickle
import time

import torch
import torch.distributed as dist

VERSION = "2.10"  # of the format
KEPT = 2000  # as torch keeps
DTYPES = {torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.uint8: "Byte",
          torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long", torch.bool: "Bool",
          torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble"}


def kept():
    for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        text = os.environ.get(name)
        if text is not None:
            if not text.isdecimal():
                raise ValueError(f"tutti: {name} is {text!r}, and may be a number of operations to keep; 0 keeps none")
            return int(text)
    return KEPT


class Identity:
    """What the record says of a group: entries outlive groups."""

    def __init__(self, number, size):
        self.name, self.description, self.ranks = f"tutti group {number}", "undefined", list(range(size))
        self.enqueued = self.completed = -1

    def take(self, group):
        world = dist.distributed_c10d._world
        self.name = world.pg_names.get(group, self.name)
        self.description = getattr(group, "group_desc", None) or self.description
        self.ranks = list(world.pg_group_ranks.get(group, self.ranks))


class Entry:
    """One operation, from its call to its end.  Keeps no tensor."""
    __slots__ = ("number", "group", "name", "sequence", "messages", "inputs", "outputs", "created", "ended", "state", "timeout_ms",
                 "is_message")

    def __init__(self, number, group, name, sequence, messages, inputs, outputs, timeout_ms, is_message):
        self.number, self.group, self.name, self.sequence, self.messages = number, group, name, sequence, messages
        self.inputs = [(tensor.shape, tensor.dtype) for tensor in inputs]
        self.outputs = self.inputs if outputs is inputs else [(tensor.shape, tensor.dtype) for tensor in outputs]
        self.created, self.ended, self.state = time.time_ns(), None, "started"
        self.timeout_ms, self.is_message = timeout_ms, is_message

    def end(self, error):
        """One that has failed stays "started", as in torch's own record."""
        if error is None:
            self.ended, self.state = time.time_ns(), "completed"
            if not self.is_message:
                self.group.completed = max(self.group.completed, self.sequence)

    def shown(self):
        def sizes(tensors):
            return [list(shape) for shape, _ in tensors]

        def types(tensors):
            return [DTYPES.get(dtype, str(dtype).rsplit(".", 1)[-1]) for _, dtype in tensors]

        return {"record_id": self.number, "pg_id": 0, "process_group": (self.group.name, self.group.description),
                "collective_seq_id": self.sequence, "p2p_seq_id": self.messages, "op_id": self.number,
                "profiling_name": f"tutti:{self.name}", "time_created_ns": self.created,
                "time_discovered_started_ns": self.created, "time_discovered_completed_ns": self.ended,
                "input_sizes": sizes(self.inputs), "input_dtypes": types(self.inputs), "output_sizes": sizes(self.outputs),
                "output_dtypes": types(self.outputs), "state": self.state, "retired": self.ended is not None,
                "timeout_ms": self.timeout_ms, "is_p2p": self.is_message, "frames": []}


_entries = collections.deque(maxlen=kept())  # the oldest go
_numbers = itertools.count()


def begin(group, name, sequence, messages, inputs, outputs, timeout_ms, is_message=False):
    """The entry of an operation that begins; None where nothing is kept."""
    if _entries.maxlen == 0:
        return None
    entry = Entry(next(_numbers), group, name, sequence, messages, inputs, outputs, timeout_ms, is_message)
    if not is_message:
        group.enqueued = sequence
    _entries.append(entry)
    return entry


def engine_of(group):
    engine = getattr(group, "_engine", None)
    if engine is None:
        try:
            engine = getattr(group._get_backend(torch.device("cpu")), "_engine", None)
        except RuntimeError:
            pass
    return engine


def name_groups():
    """Torch names a group after it has been made."""
    for group in list(dist.distributed_c10d._world.pg_map):
        engine = engine_of(group)
        if engine is not None:
            engine.identity.take(group)
            engine.devices.poll()


def flight_record():
    """The record as torch's own is: a dict with the newest operations of this process, oldest first."""
    name_groups()
    entries = list(_entries)
    groups = {entry.group.name: entry.group for entry in entries}
    return {"version": VERSION, "comm_lib_version": "tutti",
            "pg_config": {name: {"name": name, "desc": group.description, "ranks": str(group.ranks)} for name, group in groups.items()},
            "pg_status": {name: {"last_enqueued_collective": group.enqueued, "last_started_collective": group.enqueued,
                                 "last_completed_collective": group.completed} for name, group in groups.items()},
            "entries": [entry.shown() for entry in entries]}


def dump_flight_recorder(path=None):
    """Write the record to a file, and give its name.

    path: {rank} in it is this process's rank; a name that ends in .json gets JSON, others what torch reads (pickle).
    Without a path it is torch's: TORCH_FR_DUMP_TEMP_FILE and the rank"""
    rank = dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", 0))
    if path is None:
        start = os.environ.get("TORCH_FR_DUMP_TEMP_FILE") or os.environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE") or "/tmp/tutti_trace_rank_"
        path = start + "{rank}"
    path, record = os.fspath(path).replace("{rank}", str(rank)), flight_record()
    if path.endswith(".json"):
        with open(path, "w") as file:
            json.dump(record, file)
    else:
        with open(path, "wb") as file:
            pickle.dump(record, file)
    return path
