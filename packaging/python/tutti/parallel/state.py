"""Training that goes on: checkpoints, resharding, mirrors; and the planner.  docs/parallel/ft.md, planner.md."""
import ctypes

from .. import _fork
from .._api import parallel as api
from .._library import make
from ..errors import InvalidArgument
from ._base import Handle, Report, array, call, options, shape_of


def piece(name, data, whole=None, rows=None, columns=None, begin=None, end=None):
    """A part of a whole tensor: all of it, or elements [begin, end) of the box of `rows` and `columns` (pairs) of a matrix
    of shape `whole`.  `data` is a contiguous array of just these elements."""
    shape = tuple(whole if whole is not None else shape_of(data))
    total_rows = 1 if len(shape) < 2 else shape[0]
    total_columns = 1
    for size in shape if len(shape) < 2 else shape[1:]:
        total_columns *= size
    (row0, row1), (column0, column1) = rows or (0, total_rows), columns or (0, total_columns)
    box = (row1 - row0) * (column1 - column0)
    address, count, kind, _ = array(data, False, -1)
    first, last = begin or 0, box if end is None else end
    if count != last - first:
        raise InvalidArgument(f"piece {name!r} has {count} elements, but stands for {last - first}")
    made = api.tuttiPiece_t(name=name.encode(), dtype=kind, rows=total_rows, columns=total_columns, row0=row0, row1=row1,
                            column0=column0, column1=column1, begin=first, end=last, data=address)
    made._keep = data
    return made


def _pieces(given):
    """Of pieces, or of {name: array}, whole tensors."""
    rows = [piece(name, data) for name, data in given.items()] if hasattr(given, "items") else list(given)
    return (api.tuttiPiece_t * max(1, len(rows)))(*rows), len(rows)


def save_checkpoint(comm, folder, step, pieces):
    """Collective: the step counts as saved when all ranks have written theirs."""
    call("CheckpointSave", _fork.alive(comm), str(folder).encode(), step, *_pieces(pieces))


def load_checkpoint(comm, folder, pieces, step=-1):
    """Collective: fill pieces, at any layout and rank count; gives the step that was loaded (-1: the newest whole one)."""
    cell = ctypes.c_int64(step)
    call("CheckpointLoad", _fork.alive(comm), str(folder).encode(), ctypes.byref(cell), *_pieces(pieces))
    return cell.value


def reshard(comm, have, want):
    """Collective: fill the pieces that ranks want from those that ranks have; gives the bytes that this rank sent."""
    moved = ctypes.c_uint64()
    call("Reshard", _fork.alive(comm), *_pieces(have), *_pieces(want), ctypes.byref(moved))
    return moved.value


def check_replicas(comm, pieces):
    """Collective: raises InvalidUsage that names the tensor and the ranks where bits differ."""
    call("ReplicaCheck", _fork.alive(comm), *_pieces(pieces))


class Mirror(Handle):
    """Each rank keeps a copy of its neighbour's pieces, so that a lost rank's come back without a file."""
    _destroy = "MirrorDestroy"

    def __init__(self, comm, pieces):
        self._make("MirrorCreate", _fork.alive(comm), *_pieces(pieces), keep=(comm, pieces))

    def update(self, step):
        self._call("MirrorUpdate", step)

    def restore(self, survivors, pieces):
        """Collective over a communicator of survivors; gives the step that the pieces are of."""
        cell = ctypes.c_int64()
        self._call("MirrorRestore", _fork.alive(survivors), *_pieces(pieces), ctypes.byref(cell))
        return cell.value


# ---- The planner -----------------------------------------------------------------------------------------------------


def _layout(given):
    return options(api.tuttiLayout_t, given)


def layout_cost(model, **layout):
    """Memory and bytes on the wire of a layout (tp=2, pp=4, dp=8, zero=1, ...) of a transformer, {layers, hidden, heads,
    sequence, vocabulary, ...}."""
    made, chosen, cost = options(api.tuttiModelShape_t, model), _layout(layout), make(api.tuttiLayoutCost_t)
    call("LayoutCost", ctypes.byref(made), ctypes.byref(chosen), ctypes.byref(cost))
    return Report(cost)


def measure_machine(comm):
    """Flops and links of the ranks of comm, as search takes them."""
    made = make(api.tuttiMachine_t)
    call("MachineMeasure", _fork.alive(comm), ctypes.byref(made))
    return Report(made)


def search_layouts(model, batch, most=10, **machine):
    """The best layouts of a model on a machine (ranks=64, per_node=8, flops=..., bandwidth=..., memory=...), the best
    first."""
    shape, where = options(api.tuttiModelShape_t, model), options(api.tuttiMachine_t, machine)
    plans, count = (api.tuttiPlan_t * most)(), ctypes.c_size_t()
    call("PlanSearch", ctypes.byref(shape), ctypes.byref(where), batch, plans, most, ctypes.byref(count))
    return [Report(one) for one in plans[:min(most, count.value)]]


def plan_layout(model, batch, layout, **machine):
    """One layout, {tp, pp, dp, zero, ...}: what it costs on the machine, and in `why` where its time goes."""
    shape, where = options(api.tuttiModelShape_t, model), options(api.tuttiMachine_t, machine)
    chosen, plan = _layout(layout), api.tuttiPlan_t()
    call("PlanLayout", ctypes.byref(shape), ctypes.byref(where), batch, ctypes.byref(chosen), ctypes.byref(plan))
    return Report(plan)


def matmul_rate(gpu, m, n, k, count=1, element_bytes=2):
    """Operations per second of products on a generation of GPUs: "a100", "h100", "h200" or "b200"."""
    cell = ctypes.c_double()
    known = {"a100": api.tuttiGpuA100, "h100": api.tuttiGpuH100, "h200": api.tuttiGpuH200,
             "b200": api.tuttiGpuB200}
    call("MatmulRate", known.get(gpu, api.tuttiGpuUnknown), element_bytes, m, n, k, count, ctypes.byref(cell))
    return cell.value


def training_days(parameters, tokens, ranks, flops, recompute=False):
    cell = ctypes.c_double()
    call("TrainingDays", parameters, tokens, ranks, flops, int(recompute), ctypes.byref(cell))
    return cell.value
