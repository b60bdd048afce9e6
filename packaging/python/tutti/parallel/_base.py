"""What all layers share: tensors, handles, options, and how C's answers come back."""
import ctypes

from .. import _fork
from .._api import parallel as api
from .._calls import array
from .._library import make, parallel_library
from ..arrays import Buffer
from ..errors import _CLASSES, InvalidArgument, TuttiError
from ..types import DataType, data_type


def check(result):
    """Raise with the training layers' sentence unless the call went well."""
    if result != api.tuttiSuccess:
        text = parallel_library().tuttiParallelGetLastError().decode(errors="replace")
        raise _CLASSES.get(result, TuttiError)(text, result)


def call(name, *arguments):
    check(getattr(parallel_library(), "tutti" + name)(*arguments))


def shape_of(given):
    if isinstance(given, Buffer):
        return (given.count,)
    return tuple(getattr(given, "shape", None) or memoryview(given).shape)


def tensor(given, dtype=None, device=-1):
    """A tuttiTensor_t of a contiguous array of up to four dimensions, by reference; None stays None.  dtype: what it has
    to be."""
    if given is None:
        return None
    address, _, kind, _ = array(given, False, device)
    if dtype is not None and kind != dtype:
        raise InvalidArgument(f"the array is of {DataType(kind).name.lower()}, and has to be of {DataType(dtype).name.lower()}")
    shape = shape_of(given) or (1,)
    if len(shape) > api.TUTTI_MAX_DIMS:
        raise InvalidArgument(f"a tensor of {len(shape)} dimensions: the training layers take up to {api.TUTTI_MAX_DIMS}")
    made = api.tuttiTensor_t(data=address, dtype=kind, nDims=len(shape),
                             device=api.TUTTI_DEVICE_CUDA if device >= 0 else api.TUTTI_DEVICE_HOST)
    stride = 1
    for i in range(api.TUTTI_MAX_DIMS):
        made.shape[i], made.strides[i] = 1, 0
    for i in reversed(range(len(shape))):
        made.shape[i], made.strides[i] = shape[i], stride
        stride *= shape[i]
    return made


def reference(given, *more):
    made = tensor(given, *more)
    return None if made is None else ctypes.byref(made)


def view(made):
    """A numpy array on the memory of a tuttiTensor_t of the host: valid as long as the header says the view is."""
    import numpy

    from ..operators import _numpy_type
    kind = DataType(made.dtype)
    shape = [made.shape[i] for i in range(made.nDims)]
    count = 1
    for size in shape:
        count *= size
    if count == 0 or not made.data:
        return numpy.empty(shape, _numpy_type(kind))
    raw = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(made.data)
    return numpy.frombuffer(raw, _numpy_type(kind), count).reshape(shape)


def address(given, device=-1):
    return None if given is None else array(given, True, device)[0]


def integers(values, kind=ctypes.c_int64):
    """A C array, or None."""
    return None if values is None else (kind * len(values))(*values)


def options(struct, given):
    """A struct of options by Python's names: micro_batches for microBatches; communicators as they are."""
    fields, keep = {}, []
    for name, value in given.items():
        head, *rest = name.split("_")
        if hasattr(value, "handle"):
            keep.append(value)
            value = _fork.alive(value)
        elif isinstance(value, (list, tuple)):
            value = integers(value)
            keep.append(value)
            value = ctypes.addressof(value)
        fields[head + "".join(part.capitalize() for part in rest)] = value
    made = make(struct, **fields)
    made._keep = keep
    return made


def handle_of(comm):
    return None if comm is None else _fork.alive(comm)


class Traffic:
    """Calls and bytes of each collective ("all_reduce"), and what an average rank sent."""

    def __init__(self, made):
        from ..types import Kind
        self.calls = {kind.name.lower(): made.calls[kind] for kind in Kind if made.calls[kind]}
        self.bytes = {kind.name.lower(): made.bytes[kind] for kind in Kind if made.calls[kind]}
        self.wire_bytes = made.wireBytes

    def __repr__(self):
        return f"Traffic({self.bytes}, {self.wire_bytes:.0f} bytes sent)"


class Report:
    """A struct of figures as attributes by Python's names."""

    def __init__(self, made):
        for name, _ in made._fields_:
            value = getattr(made, name)
            if name == "size" or isinstance(value, ctypes.Array):
                continue
            if isinstance(value, api.tuttiTraffic_t):
                value = Traffic(value)
            elif isinstance(value, bytes):
                value = value.decode(errors="replace")
            elif isinstance(value, ctypes.Structure):
                value = Report(value)
            setattr(self, snake(name), value)

    def __repr__(self):
        return f"Report({', '.join(f'{name}={value}' for name, value in self.__dict__.items())})"


def snake(name):
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name)


class Handle:
    """Something that C made: a context manager; what it was made from is kept alive.  `_destroy`: the function's name."""
    _destroy = ""

    def _make(self, name, *arguments, keep=()):
        cell = ctypes.c_void_p()
        self.handle, self._keep = 0, keep
        call(name, ctypes.byref(cell), *arguments)
        self.handle = cell.value
        _fork.track(self)

    def _call(self, name, *arguments):
        call(name, _fork.alive(self), *arguments)

    def _cuts(self, name, length, *arguments):
        cuts = (ctypes.c_int64 * length)()
        self._call(name, *arguments, cuts)
        return list(cuts)

    def _traffic(self, name, *arguments):
        counted, expected = (make(api.tuttiTraffic_t) for _ in range(2))
        self._call(name, *arguments, ctypes.byref(counted), ctypes.byref(expected))
        return Traffic(counted), Traffic(expected)

    def destroy(self):
        if self.handle:
            handle, self.handle = self.handle, 0
            call(self._destroy, handle)

    close = destroy

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.destroy()


def dtype_code(kind):
    code = data_type(kind)
    if code is None:
        raise InvalidArgument(f"dtype {kind!r} is not one of {', '.join(k.name.lower() for k in DataType)}")
    return int(code)


def split_even(total, n, unit=1, weights=None):
    """n + 1 cuts of `total` items in units, evenly or by weights."""
    cuts = (ctypes.c_int64 * (n + 1))()
    call("SplitEven", total, unit, n, integers(weights, ctypes.c_double), cuts)
    return list(cuts)
