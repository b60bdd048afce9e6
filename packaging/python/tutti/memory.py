"""Memory that ranks of this host read where it lies: calls on it need not copy through slots.

`empty` and `zeros` give numpy arrays in it; `allocate` plain buffers.  A Registration does for an array of one's own
whatever the machine allows."""
import ctypes
import os
import weakref

from . import _fork
from ._library import library
from .arrays import buffer_of
from .errors import check
from .operators import _numpy_type
from .types import data_type


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
    return empty(array.shape, array.dtype)


def copy_of(array):
    """A copy of a numpy array in shared memory."""
    copy = empty_like(array)
    copy[...] = array
    return copy


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
