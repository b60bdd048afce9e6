"""Pipeline parallelism: schedules as data, and the pipeline that runs one; docs/parallel/pp.md."""
import ctypes

from .. import _fork
from .._api import parallel as api
from .._library import make
from ..errors import InvalidArgument
from ._base import Handle, Report, call, dtype_code
from ._base import view as tensor_view

ACTIONS = ("forward", "backward", "backward_input", "backward_weight", "send_forward", "recv_forward", "send_backward",
           "recv_backward")


class Schedule(Handle):
    """Schedule("1f1b", ranks, micro_batches): gpipe, 1f1b, interleaved, breadth-first, zb-h1, zb-h2, zbv; or
    Schedule.parse(csv)."""
    _destroy = "ScheduleDestroy"

    def __init__(self, name, ranks, micro_batches, chunks=1):
        self._make("ScheduleCreate", name.encode(), ranks, chunks, micro_batches)

    @classmethod
    def parse(cls, csv):
        made = cls.__new__(cls)
        made._make("ScheduleParse", csv.encode())
        return made

    def csv(self):
        cell = ctypes.c_char_p()
        self._call("ScheduleCsv", ctypes.byref(cell))
        return cell.value.decode()

    def shape(self):
        """(ranks, stages, micro-batches)"""
        cells = [ctypes.c_int() for _ in range(3)]
        self._call("ScheduleShape", *map(ctypes.byref, cells))
        return tuple(cell.value for cell in cells)

    def rank_of(self, stage):
        cell = ctypes.c_int()
        self._call("ScheduleRankOf", stage, ctypes.byref(cell))
        return cell.value

    def actions(self, rank):
        """[(what, stage, micro-batch)] of a rank, in order."""
        first, count = ctypes.c_void_p(), ctypes.c_int()
        self._call("ScheduleActions", rank, ctypes.byref(first), ctypes.byref(count))
        listed = (api.tuttiAction_t * count.value).from_address(first.value) if count.value else ()
        return [(ACTIONS[one.kind], one.stage, one.micro) for one in listed]

    def validate(self, buffers=1):
        """"" or what is wrong with it, where a rank has room for so many messages to each other."""
        cell = ctypes.c_char_p()
        self._call("ScheduleValidate", buffers, ctypes.byref(cell))
        return cell.value.decode()

    def simulate(self, forward=1.0, backward_input=1.0, backward_weight=1.0, message=0.0):
        """total, ideal, bubble_over_total, bubble_over_ideal, peak_in_flight, span."""
        made = make(api.tuttiSimulation_t, forward=forward, backwardInput=backward_input, backwardWeight=backward_weight,
                    message=message)
        self._call("ScheduleSimulate", ctypes.byref(made))
        return Report(made)


def balance_stages(costs, stages):
    """Cuts of layers into contiguous stages so that the costliest costs least."""
    cuts = (ctypes.c_int64 * (stages + 1))()
    call("BalanceStages", (ctypes.c_double * len(costs))(*costs), len(costs), stages, cuts)
    return list(cuts)


class Pipeline(Handle):
    """Runs a schedule's row of this rank.  `stages` has
         forward(stage, micro, x, out)             x None for stage 0, out None for the last
         backward(stage, micro, dout, dx, weights) likewise; weights False: backward_weight comes later
         backward_weight(stage, micro)             for schedules that halve backward
    on numpy arrays of `shape` that live for the call; torch.from_numpy takes them.  What they raise ends the step on all
    ranks, and is raised here."""
    _destroy = "PipelineDestroy"

    def __init__(self, comm, schedule, shape, stages, dtype="float32"):
        self._stages, self._failure = stages, None
        self._shape, self._code = tuple([shape] if isinstance(shape, int) else shape), dtype_code(dtype)
        count = 1
        for size in self._shape:
            count *= size
        if len(self._shape) > api.TUTTI_MAX_DIMS:
            raise InvalidArgument(f"activations of {len(self._shape)} dimensions: up to {api.TUTTI_MAX_DIMS}")
        made = make(api.tuttiStages_t)
        kinds = dict(api.tuttiStages_t._fields_)
        made.forward = kinds["forward"](lambda _, stage, micro, x, out: self._run(
            stages.forward, stage, micro, self._array(x), self._array(out)))
        made.backward = kinds["backward"](lambda _, stage, micro, dout, dx, weights: self._run(
            stages.backward, stage, micro, self._array(dout), self._array(dx), bool(weights)))
        made.backwardWeight = kinds["backwardWeight"](lambda _, stage, micro: self._run(stages.backward_weight, stage, micro))
        self._make("PipelineCreate", _fork.alive(comm), schedule.handle, count, self._code, ctypes.byref(made),
                   keep=(comm, made))

    def _array(self, address):
        if not address:
            return None
        made = api.tuttiTensor_t(data=address, dtype=self._code, nDims=len(self._shape))
        for i, size in enumerate(self._shape):
            made.shape[i] = size
        return tensor_view(made)

    def _run(self, function, *arguments):
        try:
            function(*arguments)
            return api.tuttiSuccess
        except BaseException as error:  # noqa: BLE001  it cannot pass through C
            self._failure = self._failure or error
            return api.tuttiInvalidUsage

    def step(self):
        """All micro-batches, forward and backward."""
        try:
            self._call("PipelineStep")
        except Exception as error:
            if self._failure is None:
                raise
            failure, self._failure = self._failure, None
            raise failure from error

    def traffic(self):
        """(counted since it was made, expected of one step)"""
        return self._traffic("PipelineTraffic")
