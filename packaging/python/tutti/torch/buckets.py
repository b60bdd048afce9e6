"""The buckets of DistributedDataParallel, and the flat parameters of FullyShardedDataParallel, in shared memory, where peers read
them without a copy.

Torch makes them itself, so no allocator of Python's can place them.  A storage that comes for the third time stays, and moves as `Tensor.share_memory_()` moves it: every tensor on it sees the new address.  Its pages then become a second
mapping of memory of tuttiMemAlloc, and calls name the first one."""
import ctypes
import mmap
import os
import sys
import threading

from torch.multiprocessing.reductions import StorageWeakRef

from ..errors import TuttiError
from ..memory import allocate

LEAST = 256 << 10  # bytes; smaller buckets gain little
FLAT_LEAST = 1 << 20  # the same of a rank's shard of a flat parameter
COMES = 3  # Torch makes its buckets anew after the first step
FIXED = 3  # MREMAP_MAYMOVE | MREMAP_FIXED
SPARE = 16 << 20  # of /dev/shm is left to others

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mremap.restype = ctypes.c_void_p
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

_lock = threading.Lock()
_seen = {}  # by the storage's identity, which its StorageWeakRef keeps from being given to another


class Seen:
    def __init__(self, storage):
        self.storage = StorageWeakRef(storage)
        self.address, self.times = storage.data_ptr(), 0
        self.memory = None  # of tuttiMemAlloc, once it has moved


def address_of(tensor, n_ranks, is_torchs):
    """Where a call has to go for the tensor's memory: that of tuttiMemAlloc, if its storage lies there.

    is_torchs: from_backward or is_flat_parameter; by the operation itself, as it looks at who called it"""
    nbytes = tensor.numel() * tensor.element_size()
    if nbytes < (LEAST if is_torchs is from_backward else FLAT_LEAST) or not is_torchs(tensor, sys._getframe(1)):
        return tensor.data_ptr()
    storage = tensor.untyped_storage()
    with _lock:
        _sweep()
        seen = _seen.get(storage._cdata)
        if seen is None or seen.address != storage.data_ptr():
            seen = _seen[storage._cdata] = Seen(storage)
        seen.times += 1
        if seen.times == COMES and _may_move(storage, n_ranks):
            _move(seen, storage)
        if seen.memory is None:
            return tensor.data_ptr()
        return ctypes.addressof(seen.memory) + tensor.data_ptr() - seen.address


def _beyond(frame, name, *names):
    """The first frame that belongs to none of these."""
    while frame is not None and frame.f_globals.get(name) in names:
        frame = frame.f_back
    return frame


def from_backward(tensor, frame):
    """Whether the operation's caller is torch's C++ within a backward pass: the tensor is one of its own, not a user's."""
    frame = _beyond(frame, "__package__", __package__)
    return frame is not None and frame.f_globals.get("__name__") == "torch.autograd.graph"


def is_flat_parameter(tensor, frame):
    """Whether torch's FullyShardedDataParallel gathers this rank's shard of a parameter, and not a copy in another precision."""
    if "torch.distributed.fsdp._flat_param" not in sys.modules:
        return False
    frame = _beyond(_beyond(frame, "__package__", __package__), "__name__", "torch.distributed.distributed_c10d", "torch.distributed.c10d_logger")
    if frame is None or frame.f_globals.get("__name__") != "torch.distributed.fsdp._flat_param":
        return False
    shard = getattr(getattr(frame.f_locals.get("self"), "flat_param", None), "_local_shard", None)
    return shard is not None and shard.data_ptr() == tensor.data_ptr()


def _may_move(storage, n_ranks):
    # resizable() is false for memory that numpy shares, or has lent to torch: numpy would keep the old memory.
    if not storage.resizable() or storage.is_shared():
        return False
    try:
        room = os.statvfs("/dev/shm")  # torch moves by way of it, and a full one ends the process
    except OSError:
        return False
    return room.f_bavail * room.f_frsize >= 2 * n_ranks * storage.nbytes() + SPARE


def _move(seen, storage):
    """Leaves it where it is if the machine does not allow it."""
    nbytes = storage.nbytes()
    pages = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    try:
        memory = allocate(pages)
        fd, _ = storage._share_fd_cpu_()
    except (RuntimeError, OSError, TuttiError):
        return
    address = seen.address = storage.data_ptr()
    ctypes.memmove(ctypes.addressof(memory), address, nbytes)
    if _libc.mremap(ctypes.addressof(memory), 0, pages, FIXED, address) != address:
        return
    os.ftruncate(fd, 0)  # torch's own pages, which nothing shows any more
    seen.memory = memory


def _sweep():
    for identity in [identity for identity, seen in _seen.items() if seen.storage.expired()]:
        del _seen[identity]


def sweep():
    """Give back the memory of storages that have died."""
    with _lock:
        _sweep()


def placed_bytes():
    """How much memory of this process's buckets is in shared memory."""
    with _lock:
        _sweep()
        return sum(len(seen.memory) for seen in _seen.values() if seen.memory is not None)


def _in_child():
    """A forked child gets pages of its own, as with all other memory."""
    global _lock
    _lock = threading.Lock()
    for seen in _seen.values():
        if seen.memory is None or seen.storage.expired():
            continue
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
        if _libc.mmap(seen.address, len(seen.memory), mmap.PROT_READ | mmap.PROT_WRITE, private, -1, 0) == seen.address:
            ctypes.memmove(seen.address, ctypes.addressof(seen.memory), len(seen.memory))
    _seen.clear()


os.register_at_fork(after_in_child=_in_child)
