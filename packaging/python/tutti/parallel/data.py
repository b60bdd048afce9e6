"""Data parallelism, with states whole (Ddp) or cut over the ranks (Zero); docs/parallel/dp.md, zero.md."""
import ctypes

from .._api import parallel as api
from .._library import make
from ._base import Handle, Report, call, dtype_code, handle_of, integers, options, reference, shape_of, tensor, view

OPTIMIZERS = {"sgd": api.tuttiSgd, "momentum": api.tuttiMomentum, "adamw": api.tuttiAdamW}


def optimizer(kind="adamw", **given):
    """learning_rate, beta1, beta2, epsilon, weight_decay of "sgd", "momentum" or "adamw"."""
    if kind not in OPTIMIZERS:
        from ..errors import InvalidArgument
        raise InvalidArgument(f"optimizer {kind!r}: it is one of {', '.join(OPTIMIZERS)}")
    return options(api.tuttiOptimizer_t, {"kind": OPTIMIZERS[kind], **given})


def optimizer_update(chosen, step, value, gradient, first=None, second=None, scale=1.0, flags=0):
    """One update of a value in place, with states of one's own; step 1 is the first."""
    call("OptimizerUpdate", ctypes.byref(chosen), step, scale, flags, reference(value), reference(gradient), reference(first),
         reference(second))


def _parameters(parameters):
    """A C array of {name: array}, or of (name, array) or (name, array, flags), and what keeps its names."""
    rows = [row if len(row) == 3 else (*row, 0) for row in (parameters.items() if hasattr(parameters, "items") else parameters)]
    made = (api.tuttiParameter_t * len(rows))()
    for one, (name, value, flags) in zip(made, rows):
        one.name, one.flags = name.encode(), flags
        one.value = tensor(value.detach() if hasattr(value, "detach") else value)
    return made, [row[0] for row in rows], [shape_of(row[1]) for row in rows]


class _Parameters(Handle):
    """Parameters are named by their name or number."""

    def _index(self, parameter):
        return self.names.index(parameter) if isinstance(parameter, str) else parameter

    def _view(self, name, parameter):
        made = api.tuttiTensor_t()
        self._call(name, self._index(parameter), ctypes.byref(made))
        return view(made)

    def _report(self, name, struct):
        made = make(struct)
        self._call(name, ctypes.byref(made))
        return Report(made)


class Ddp(_Parameters):
    """Every rank holds all parameters; gradients are summed while backward goes on.

    Per step: begin(), forward, backward that adds to gradient(p) and calls ready(p), for each micro-batch; finish()."""
    _destroy = "DdpDestroy"

    def __init__(self, comm, parameters, **given):
        made, self.names, self.shapes = _parameters(parameters)
        config = options(api.tuttiDdpConfig_t, given)
        self._make("DdpCreate", handle_of(comm), made, len(made), ctypes.byref(config), keep=(comm, parameters, config))

    def gradient(self, parameter):
        """A numpy array in its bucket; valid until the first finish(), then until destroy()."""
        return self._view("DdpGradient", parameter)

    def begin(self):
        self._call("DdpBegin")

    def ready(self, parameter):
        self._call("DdpGradReady", self._index(parameter))

    def finish(self):
        self._call("DdpFinish")

    def share(self, micro_batches):
        self._call("DdpShare", micro_batches)

    def report(self):
        return self._report("DdpReport", api.tuttiDdpReport_t)


class Zero(_Parameters):
    """States (stage 1), gradients (2) and values (3) cut over the ranks.  Options: stage, micro_batches, prefetch, clip,
    replicas, norm, ... of tuttiZeroConfig_t; optimizer from optimizer().

    Per step: begin(), unshard(unit), compute, reshard(unit, True) forward; unshard, backward that adds to gradient(p) and
    calls ready(p), reshard(unit, False), for each micro-batch; step()."""
    _destroy = "ZeroDestroy"

    def __init__(self, comm, parameters, units=None, optimizer=None, **given):  # noqa: A002
        made, self.names, self.shapes = _parameters(parameters)
        if "values" in given:
            given["values"] = dtype_code(given["values"])
        config = options(api.tuttiZeroConfig_t, given)
        if optimizer is not None:
            config.optimizer = optimizer
        self._make("ZeroCreate", handle_of(comm), made, integers(units, ctypes.c_int), len(made), ctypes.byref(config),
                   keep=(comm, parameters, config, given))

    def value(self, parameter):
        """A numpy array of its value; stage 3: while its unit is unsharded."""
        return self._view("ZeroValue", parameter)

    def gradient(self, parameter):
        return self._view("ZeroGradient", parameter)

    def begin(self):
        self._call("ZeroBegin")

    def unshard(self, unit):
        self._call("ZeroUnshard", unit)

    def reshard(self, unit, after_forward):
        self._call("ZeroReshard", unit, int(after_forward))

    def ready(self, parameter):
        self._call("ZeroGradReady", self._index(parameter))

    def step(self, norm=False):
        """Average, clip, update; with norm=True the norm of the average gradient before clipping."""
        cell = ctypes.c_double()
        self._call("ZeroStep", ctypes.byref(cell) if norm else None)
        return cell.value if norm else None

    def set_learning_rate(self, rate):
        self._call("ZeroSetLearningRate", rate)

    def owned(self, parameter):
        """(begin, end, values): the elements of a parameter that this rank owns."""
        begin, end, made = ctypes.c_int64(), ctypes.c_int64(), api.tuttiTensor_t()
        self._call("ZeroOwned", self._index(parameter), ctypes.byref(begin), ctypes.byref(end), ctypes.byref(made))
        return begin.value, end.value, view(made)

    def owned_state(self, parameter, state):
        """State 0 (velocity, first moment) or 1 (second moment) of those elements."""
        made = api.tuttiTensor_t()
        self._call("ZeroOwnedState", self._index(parameter), state, ctypes.byref(made))
        return view(made)

    def loaded(self, steps):
        """What owned() and owned_state() show was replaced; `steps` were made before."""
        self._call("ZeroLoaded", steps)

    def report(self):
        return self._report("ZeroReport", api.tuttiZeroReport_t)
