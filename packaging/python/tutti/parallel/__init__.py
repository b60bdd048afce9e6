"""The training layers of libtutti_parallel on numpy arrays and torch CPU tensors; docs/parallel is the manual.

Results are written into arrays of the caller's; views that layers give are numpy arrays on their own memory, which
torch.from_numpy takes without a copy.  Everything is a context manager and ends in the order of its making, reversed."""
from ._base import split_even
from .data import Ddp, Zero, optimizer, optimizer_update
from .grid import Grid
from .model import Ep, Linear, Sp, Tp
from .pipeline import Pipeline, Schedule, balance_stages
from .state import (Mirror, check_replicas, layout_cost, load_checkpoint, matmul_rate, measure_machine, piece, plan_layout,
                    reshard, save_checkpoint, search_layouts, training_days)

__all__ = ["Ddp", "Ep", "Grid", "Linear", "Mirror", "Pipeline", "Schedule", "Sp", "Tp", "Zero", "balance_stages",
           "check_replicas", "layout_cost", "load_checkpoint", "matmul_rate", "measure_machine", "optimizer",
           "optimizer_update", "piece", "plan_layout", "reshard", "save_checkpoint", "search_layouts", "split_even", "training_days"]
