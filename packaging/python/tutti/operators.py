"""Operators of one's own: Python functions, and sums with a factor per rank."""
import ctypes

from . import _fork
from ._api import core
from ._library import library
from .errors import InvalidArgument, check
from .types import DataType, data_type


def _numpy_type(kind):
    import numpy
    try:
        return numpy.dtype(kind.name.lower())
    except TypeError:
        pass
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, {"FLOAT8_E4M3": "float8_e4m3fn"}.get(kind.name, kind.name.lower())))
    except (ImportError, AttributeError):
        raise InvalidArgument(f"numpy has no {kind.name.lower()}; the package ml_dtypes gives it one") from None


def _view(address, count, kind, writable):
    import numpy
    raw = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
    array = numpy.frombuffer(raw, dtype=_numpy_type(kind), count=count)
    array.flags.writeable = writable
    return array


class Operator:
    """An operator that Communicator.create_op or create_premul_sum made; used as `op`.

    An exception of its function reaches the caller of the collective, on the ranks where it was raised."""

    def __init__(self, comm, code, callback=None):
        self.comm, self.handle = comm, code
        self._callback, self._failure = callback, None
        _fork.track(self)

    def __index__(self):
        return _fork.alive(self)

    __int__ = __index__

    def raise_failure(self):
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def destroy(self):
        """Free; operations enqueued with it keep it until they are done."""
        if self.handle:
            code, self.handle = self.handle, 0
            check(library().tuttiRedOpDestroy(code, self.comm.handle), self.comm.handle)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.destroy()


def create_op(comm, function, commutative):
    """function(a, b) -> combination of two numpy vectors, `a` of the lower ranks; one that returns None has changed b."""
    made = Operator(comm, 0)

    def combine(lower, inout, count, dtype, _):
        try:
            kind = DataType(dtype)
            b = _view(inout, count, kind, True)
            result = function(_view(lower, count, kind, False), b)
            if result is not None:
                b[...] = result
        except BaseException as error:  # noqa: BLE001  it cannot pass through C
            made._failure = error

    made._callback = core.tuttiRedFunction_t(combine)
    code = ctypes.c_int()
    handle = _fork.alive(comm)
    check(library().tuttiRedOpCreate(ctypes.byref(code), made._callback, int(commutative), None, handle), handle)
    made.handle = code.value
    comm._operators.append(made)
    return made


_SCALARS = {DataType.FLOAT32: ctypes.c_float, DataType.FLOAT64: ctypes.c_double, DataType.INT8: ctypes.c_int8,
            DataType.UINT8: ctypes.c_uint8, DataType.INT16: ctypes.c_int16, DataType.UINT16: ctypes.c_uint16,
            DataType.INT32: ctypes.c_int32, DataType.UINT32: ctypes.c_uint32, DataType.INT64: ctypes.c_int64,
            DataType.UINT64: ctypes.c_uint64}


def _scalar(value, kind):
    if kind in _SCALARS:
        return _SCALARS[kind](value)
    if kind == DataType.FLOAT16:
        import struct
        return (ctypes.c_char * 2)(*struct.pack("e", value))
    if kind == DataType.BFLOAT16:
        import struct
        bits = struct.unpack("I", struct.pack("f", value))[0]
        return ctypes.c_uint16((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    raise InvalidArgument(f"create_premul_sum takes number types of 16 bits or more and 8-bit integers, not {kind!r}")


def create_premul_sum(comm, scalar, dtype):
    """The sum of each rank's input times that rank's scalar; for arrays of this dtype."""
    kind = data_type(dtype)
    if kind is None:
        raise InvalidArgument(f"dtype {dtype!r} is not one of {', '.join(k.name.lower() for k in DataType)}")
    code, value, handle = ctypes.c_int(), _scalar(scalar, kind), _fork.alive(comm)
    check(library().tuttiRedOpCreatePreMulSum(ctypes.byref(code), ctypes.byref(value), int(kind),
                                              core.tuttiScalarHostImmediate, handle), handle)
    made = Operator(comm, code.value)
    comm._operators.append(made)
    return made
