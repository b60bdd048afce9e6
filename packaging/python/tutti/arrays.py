"""What memory an object has: numpy and torch, CuPy, JAX and whatever else speaks the buffer protocol, __array_interface__,
__cuda_array_interface__ or DLPack.

tutti._core reads plain numpy arrays, torch tensors on the host and buffers by itself, and comes here for all others and
for what is wrong with them."""
import ctypes
import sys

from .errors import InvalidArgument
from .types import DataType, data_type


class Buffer:
    """`count` elements at an address, for memory that has no Python array, or under another dtype than its own.

    owner: what keeps the memory alive.  device: -1 the host, else a CUDA device."""
    __slots__ = ("address", "count", "device", "dtype", "owner", "writable")

    def __init__(self, address, count, dtype, owner=None, device=-1, writable=True):
        kind = data_type(dtype)
        if kind is None:
            raise InvalidArgument(f"dtype {dtype!r} is not one of {', '.join(k.name.lower() for k in DataType)}")
        self.address, self.count, self.dtype = int(address), int(count), kind
        self.owner, self.device, self.writable = owner, device, writable

    @property
    def nbytes(self):
        return self.count * self.dtype.itemsize

    def __repr__(self):
        return f"Buffer({self.address:#x}, {self.count}, {self.dtype.name.lower()}, device={self.device})"


def as_dtype(array, dtype):
    """The bytes of an array as elements of another type, without a copy: tutti.as_dtype(x.view("u2"), "bfloat16")."""
    inner, kind = buffer_of(array, False), data_type(dtype)
    if kind is None or inner.nbytes % kind.itemsize:
        raise InvalidArgument(f"{inner.nbytes} bytes are no whole elements of dtype {dtype!r}")
    return Buffer(inner.address, inner.nbytes // kind.itemsize, kind, array, inner.device, inner.writable)


def _refuse(what, why):
    raise InvalidArgument(f"{type(what).__module__}.{type(what).__qualname__} {why}")


def _check_layout(what, shape, strides, itemsize):
    """C-contiguous, by strides in bytes; None is."""
    if strides is None or 0 in shape:
        return
    expected = itemsize
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size > 1 and stride != expected:
            _refuse(what, f"of shape {tuple(shape)} is not contiguous (strides {tuple(strides)} bytes): pass a copy "
                    "(numpy.ascontiguousarray, tensor.contiguous())")
        expected *= size


def _checked_type(what, kind, name):
    if kind is None:
        _refuse(what, f"has dtype {name}, which Tutti lacks: it has {', '.join(k.name.lower() for k in DataType)}. To "
                "move complex or other elements pass a view of them, such as x.view('float64') or x.view('uint8')")
    return kind


def _product(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def _of_torch(tensor):
    if "strided" not in str(tensor.layout):
        _refuse(tensor, f"has layout {tensor.layout}: pass a dense tensor (tensor.to_dense())")
    kind = _checked_type(tensor, data_type(tensor.dtype), tensor.dtype)
    if tensor.is_neg():
        _refuse(tensor, "is a view whose numbers are to be negated: pass tensor.resolve_neg()")
    _check_layout(tensor, tuple(tensor.shape), tuple(s * kind.itemsize for s in tensor.stride()), kind.itemsize)
    if tensor.device.type not in ("cpu", "cuda"):
        _refuse(tensor, f"is on {tensor.device}: Tutti knows memory of the host and of CUDA devices")
    device = -1 if tensor.device.type == "cpu" else tensor.device.index or 0
    return Buffer(tensor.data_ptr(), tensor.numel(), kind, tensor, device)


_KINDS = {"f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
          "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool"}


def _of_interface(array, interface, device):
    """__array_interface__ and __cuda_array_interface__ have the same fields."""
    order, text = interface["typestr"][0], interface["typestr"][1:]
    own = getattr(array, "dtype", None)  # ml_dtypes' types are opaque bytes in typestr
    kind = data_type(_KINDS[text]) if text in _KINDS else data_type(own) if own is not None else None
    _checked_type(array, kind, own if own is not None else interface["typestr"])
    if order == (">" if sys.byteorder == "little" else "<") and kind.itemsize > 1:
        _refuse(array, f"has the other byte order ({interface['typestr']}): pass array.astype(array.dtype.newbyteorder('='))")
    shape = interface["shape"]
    _check_layout(array, shape, interface.get("strides"), kind.itemsize)
    address, readonly = interface["data"] or (0, False)
    return Buffer(address, _product(shape), kind, array, device, not readonly)


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("byte_offset", ctypes.c_uint64)]


class _DLVersioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


_DL_TYPES = {(0, 8): "int8", (0, 16): "int16", (0, 32): "int32", (0, 64): "int64", (1, 8): "uint8", (1, 16): "uint16",
             (1, 32): "uint32", (1, 64): "uint64", (2, 16): "float16", (2, 32): "float32", (2, 64): "float64",
             (4, 16): "bfloat16", (6, 8): "bool", (10, 8): "float8_e4m3", (12, 8): "float8_e5m2"}
_DL_HOST, _DL_CUDA = (1, 3), (2, 13)  # with pinned and managed memory


def _capsule_pointer(capsule, name):
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, name)


def _of_dlpack(array):
    """The exporter keeps the memory while `array` lives."""
    try:
        capsule = array.__dlpack__(max_version=(1, 0))
    except TypeError:
        capsule = array.__dlpack__()
    except (BufferError, RuntimeError) as error:
        _refuse(array, f"cannot be exported by DLPack: {error}")
    writable = True
    if "dltensor_versioned" in repr(capsule):
        versioned = _DLVersioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        tensor, writable = versioned.tensor, not versioned.flags & 1
    else:
        tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    if type(array).__module__.partition(".")[0] in ("jax", "jaxlib"):
        writable = False  # its arrays never change, which its capsules do not say
    name = _DL_TYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    kind = _checked_type(array, data_type(name) if name else None, f"code {tensor.code}, {tensor.bits} bits")
    shape = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = [tensor.strides[i] * kind.itemsize for i in range(tensor.ndim)] if tensor.strides else None
    _check_layout(array, shape, strides, kind.itemsize)
    if tensor.device_type not in _DL_HOST + _DL_CUDA:
        _refuse(array, f"is on a device of DLPack's type {tensor.device_type}: Tutti knows the host and CUDA devices")
    device = -1 if tensor.device_type in _DL_HOST else tensor.device_id
    return Buffer((tensor.data or 0) + tensor.byte_offset, _product(shape), kind, array, device, writable)


_FORMATS = {"e": "f", "f": "f", "d": "f", "?": "b", "c": "u", **dict.fromkeys("bhilqn", "i"), **dict.fromkeys("BHILQN", "u")}


def _of_protocol(array):
    try:
        view = memoryview(array)
    except TypeError:
        _refuse(array, "is not an array: it has no buffer protocol, __array_interface__, __cuda_array_interface__ or "
                "__dlpack__ (numpy.asarray makes one of lists and numbers)")
    text = view.format.lstrip("@=<")
    name = _KINDS.get(f"{_FORMATS.get(text, 'V')}{view.itemsize}")
    kind = _checked_type(array, data_type(name) if name else None, f"of format {view.format!r}")
    _check_layout(array, view.shape, view.strides, view.itemsize)
    return Buffer(_address_of(view) if view.nbytes else 0, view.nbytes // view.itemsize, kind, array, -1, not view.readonly)


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p)]


def _address_of(view):
    raw = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(raw), 0)
    address = raw.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(raw))
    return address


def buffer_of(array, writable):
    """A Buffer of the array's memory, or InvalidArgument with what is wrong with it."""
    if isinstance(array, Buffer):
        buffer = array
    elif hasattr(array, "is_cpu") and hasattr(array, "data_ptr"):
        buffer = _of_torch(array)
    elif hasattr(array, "__cuda_array_interface__"):
        interface = array.__cuda_array_interface__
        buffer = _of_interface(array, interface, _device_of(array, interface))
    elif hasattr(array, "__array_interface__"):
        buffer = _of_interface(array, array.__array_interface__, -1)
    elif hasattr(array, "__dlpack__"):
        buffer = _of_dlpack(array)
    else:
        buffer = _of_protocol(array)
    if writable and not buffer.writable:
        _refuse(array, "is read-only, and the call writes into it: pass a writable array, such as numpy.empty_like(it)")
    return buffer


def _device_of(array, interface):
    """The CUDA device of __cuda_array_interface__, which does not say it; 0 where nobody does."""
    device = getattr(getattr(array, "device", None), "id", None)
    return device if isinstance(device, int) else 0


def describe(array, writable, device):
    """(address, count, dtype, bytes per item) for a communicator on `device`; with device None the number of a torch
    dtype, or -1."""
    if device is None:
        kind = data_type(array)
        return -1 if kind is None else int(kind)
    buffer = buffer_of(array, writable)
    if buffer.device >= 0 and device < 0:
        _refuse(array, f"is on CUDA device {buffer.device}, but the communicator computes on the host: copy it there, or "
                "make the communicator with device='cuda'")
    if buffer.device >= 0 and buffer.device != device:
        _refuse(array, f"is on CUDA device {buffer.device}, but this rank computes on device {device}")
    return buffer.address, buffer.count, int(buffer.dtype), buffer.dtype.itemsize
