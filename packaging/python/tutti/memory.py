"""Memory that ranks of this host read where it lies: calls on it need not copy through slots.

`empty` and `zeros` give numpy arrays in it, `copy_of` a copy of an array or a torch tensor, `share` moves the parameters of
a torch module; within `with arrays():` and `with tensors():` what numpy and torch make anew lies in it.  A Registration does
for an array of one's own whatever the machine allows."""
import contextlib
import ctypes
import os
import weakref

from . import _fork
from ._library import library
from .arrays import buffer_of
from .errors import InvalidArgument, check
from .operators import _numpy_type
from .types import data_type

# Arrays of fewer bytes gain nothing: their messages are copied once anyway.
LEAST = 64 << 10


def _free(address, process):
    if os.getpid() == process:  # a forked child has a mapping of its parent's, which is not its own to give back
        library().tuttiMemFree(address)


def allocate(nbytes):
    """A ctypes array of zeroed, page-aligned shared memory, freed when nothing refers to it any more."""
    cell = ctypes.c_void_p()
    check(library().tuttiMemAlloc(ctypes.byref(cell), nbytes))
    if cell.value is None:
        return (ctypes.c_uint8 * 0)()
    memory = (ctypes.c_uint8 * nbytes).from_address(cell.value)
    weakref.finalize(memory, _free, cell.value, os.getpid()).atexit = False
    return memory


def empty(shape, dtype="float32"):
    """A numpy array in shared memory, zeroed as fresh memory is."""
    import numpy
    kind = data_type(dtype)
    chosen = numpy.dtype(dtype) if kind is None else _numpy_type(kind)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    count = 1
    for size in shape:
        count *= size
    return numpy.frombuffer(allocate(count * chosen.itemsize), dtype=chosen, count=count).reshape(shape)


zeros = empty


def empty_like(array):
    """Of a numpy array or a torch tensor: one of its kind, shape and dtype, contiguous."""
    if not _is_tensor(array):
        return empty(array.shape, array.dtype)
    import torch
    memory = allocate(array.numel() * array.element_size())
    if array.numel() == 0:
        return torch.empty_like(array)
    return torch.frombuffer(memory, dtype=array.dtype, count=array.numel()).view(array.shape)


def copy_of(array):
    """A copy of a numpy array or a torch tensor in shared memory."""
    copy = empty_like(array)
    if _is_tensor(array):
        return copy.copy_(array.detach())
    copy[...] = array
    return copy


def _is_tensor(array):
    return hasattr(array, "data_ptr") and hasattr(array, "is_cpu")


def share(module):
    """Move the parameters, gradients and buffers of a torch module on the host; optimizers and hooks keep them.  Gives the
    module."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_cpu:
            tensor.data = copy_of(tensor)
            if tensor.grad is not None:
                tensor.grad.data = copy_of(tensor.grad)
    return module


@contextlib.contextmanager
def arrays():
    """Arrays of 64 KiB and more that numpy makes in this context (of a thread, or a task) lie in shared memory, also
    results and copies."""
    from ._calls import _core
    import numpy
    if _core is None:
        raise InvalidArgument("numpy's arrays are placed by the extension module tutti._core, which could not be loaded")
    set_handler = _numpy_function(numpy, 304)
    pointers = [ctypes.cast(f, ctypes.c_void_p).value for f in (library().tuttiMemAlloc, library().tuttiMemFree)]
    before = set_handler(_core.numpy_handler(*pointers, LEAST))
    try:
        yield
    finally:
        set_handler(before)


def _numpy_function(numpy, index):
    """PyDataMem_SetHandler, by its place in numpy's table of C functions, since 1.22."""
    umath = getattr(numpy, "_core", None) or numpy.core
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(get(umath._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[index])


_FACTORIES = ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "tensor", "empty_like", "zeros_like",
              "ones_like", "full_like", "rand_like", "randn_like")


def tensors(least=LEAST):
    """A context in which the tensors of so many bytes that torch's factories (torch.empty, zeros, randn, ...) make on the
    host lie in shared memory; what operations give does not: copy_of() or `out=` put it there."""
    import torch
    from torch.overrides import TorchFunctionMode
    factories = {getattr(torch, name) for name in _FACTORIES}

    class Shared(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            made = function(*args, **(kwargs or {}))
            if function in factories and made.is_cpu and made.layout == torch.strided and made.numel() * made.element_size() >= least:
                return copy_of(made).requires_grad_(made.requires_grad)
            return made

    return Shared()


class Registration:
    """Calls of a communicator use an array without copying where the machine allows it, until this is closed."""

    def __init__(self, comm, array):
        buffer, cell = buffer_of(array, False), ctypes.c_void_p()
        self.comm, self.array, self.handle = comm, array, 0
        check(library().tuttiCommRegister(_fork.alive(comm), buffer.address, buffer.nbytes, ctypes.byref(cell)), comm.handle)
        self.handle = cell.value or 0
        _fork.track(self)

    def close(self):
        """End it; no call on the array may be under way."""
        if self.handle and self.comm.handle:
            handle, self.handle = self.handle, 0
            check(library().tuttiCommDeregister(self.comm.handle, handle), self.comm.handle)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()
