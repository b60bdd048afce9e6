"""all_reduce of sparse tensors: everybody's coordinates and values, added where they meet.

The ranks' numbers of entries differ, so it takes three calls."""
import ctypes

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from .._api import core
from .errors import lib
from .reduce_op import kind_of
from .tensors import bytes_of, layout

DIMENSIONS = 20  # room for a shape in what ranks tell each other


def all_reduce_sparse(engine, tensors, opts):
    if len(tensors) != 1:
        raise ValueError(f"tutti: all_reduce of sparse tensors takes one, and was given {len(tensors)}")
    tensor = tensors[0]
    if kind_of(opts.reduceOp) != ReduceOp.SUM:
        raise ValueError(f"tutti: sparse tensors can be added, and {opts.reduceOp} does not")
    if tensor.layout is not torch.sparse_coo:
        raise ValueError(f"tutti: all_reduce takes sparse tensors of layout torch.sparse_coo, not {tensor.layout}")
    if not tensor.is_cpu:
        raise ValueError(f"tutti: all_reduce takes sparse tensors of the CPU, and this one is on {tensor.device}")
    mine = tensor.coalesce()
    if mine.dim() > DIMENSIONS - 3:
        raise ValueError(f"tutti: all_reduce takes sparse tensors of at most {DIMENSIONS - 3} dimensions, not {mine.dim()}")

    def add(lane):
        entries = [row[0] for row in exchange_shapes(engine, lane, mine)]
        indices = gather(engine, lane, mine.indices().t().contiguous(), entries)
        values = gather(engine, lane, mine.values().contiguous(), entries)
        with torch.no_grad():
            tensor.copy_(torch.sparse_coo_tensor(indices.t(), values, mine.shape, check_invariants=False).coalesce())

    return engine.call_in_steps("all_reduce", add, [tensor], opts)


def exchange_shapes(engine, lane, mine):
    """Every rank's [entries, dimensions, dense ones, shape...]."""
    own = [mine._nnz(), mine.dim(), mine.dense_dim(), *mine.shape]
    source = torch.tensor(own + [0] * (DIMENSIONS - len(own)), dtype=torch.int64)
    told = torch.empty(engine.size, DIMENSIONS, dtype=torch.int64)
    lane.run_held("all_reduce", [(lib.tuttiAllGather, source.data_ptr(), told.data_ptr(), DIMENSIONS, core.tuttiInt64)])
    rows = told.tolist()
    for rank, row in enumerate(rows):
        if row[1:] != source.tolist()[1:]:
            raise dist.DistBackendError(f"tutti: all_reduce: rank {rank} has a sparse tensor of shape {row[3:3 + row[1]]} with "
                                        f"{row[2]} dense dimensions, rank {engine.rank} one of {list(mine.shape)} with "
                                        f"{mine.dense_dim()}")
    return rows


def gather(engine, lane, rows, entries):
    """The rows of all ranks, in rank order; rank r has entries[r] of them."""
    gathered = torch.empty(sum(entries), *rows.shape[1:], dtype=rows.dtype)
    row = bytes_of(rows[:1]) if rows.shape[0] else rows[0:0].element_size() * rows.shape[1:].numel()
    sizes, displacements = layout([count * row for count in entries])
    arrays = [(ctypes.c_size_t * engine.size)(*values) for values in (sizes, displacements)]
    lane.run_held("all_reduce", [(lib.tuttiAllGatherv, rows.data_ptr(), bytes_of(rows), gathered.data_ptr(), *arrays,
                                  core.tuttiUint8)])
    return gathered
