"""The process group of backend "tutti" alone, and the backend for groups that have others beside it.

Torch takes either from a backend's creator.  A process group in Python is called by Python directly and hands out the
handles made here.  A backend goes through torch's dispatcher, whose handles know wait() and get_future() alone; but one
group can have several, as in "cpu:tutti,cuda:nccl"."""
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from .at_once import AtOnce
from .engine import Engine
from .operations import Operations
from .options import options_of

DEVICES = [torch.device("cpu"), torch.device("cuda")]
# Newer torch calls backends that are written in Python; without that there is no other backend beside this one.
PYTHON_BACKENDS = hasattr(c10d, "Backend") and hasattr(c10d.Backend, "all_gather_single")


class SplittingMixin(Operations):
    def _split_engine(self, store, ranks, given, timeout=None):
        """The engine of a group of some of this one's ranks; None on the others."""
        engine = self._engine
        if engine.rank not in ranks:
            return None
        timeout = timeout or getattr(given, "_timeout", None) or engine.options._timeout
        options = engine.options.copy(timeout) if given is None else options_of(given, timeout)
        return Engine(store, list(ranks).index(engine.rank), len(ranks), options)


if PYTHON_BACKENDS:
    class Backend(SplittingMixin, c10d.Backend):
        """One rank's end of the backend in one group."""

        def __init__(self, engine):
            super().__init__(engine.rank, engine.size)
            self._engine = engine

        @property
        def options(self):
            return self._engine.options

        @property
        def supports_coalescing(self):
            return True

        @property
        def supports_splitting(self):
            return True

        def supports_tensor_alloc(self, device):
            return torch.device(device).type == "cpu"

        def allocate_tensor(self, size, *, dtype, device):
            """Memory that ranks of this host read where it lies; set_allocate_memory_from_process_group_for_comm() asks for it."""
            return self._engine.pool.tensor(size, dtype)

        def split(self, store, ranks, opts):
            engine = self._split_engine(store, ranks, opts)
            return None if engine is None else Backend(engine)

        def get_error(self):
            return c10d.ErrorType.SUCCESS if self._engine.lost() is None else c10d.ErrorType.COMM_ERROR

        def eager_connect_single_device(self, device):
            """Connections come up with the group."""


class ProcessGroup(*((AtOnce,) if PYTHON_BACKENDS else ()), SplittingMixin, dist.ProcessGroup):
    """One rank's end of a group whose only backend is this one."""

    def __init__(self, store, engine):
        if PYTHON_BACKENDS:
            super().__init__(store, engine.rank, engine.size)
        else:
            super().__init__(engine.rank, engine.size)
        self._engine, self._store = engine, store
        self._name, self._description = "", "undefined"
        if PYTHON_BACKENDS:
            self._backend = Backend(engine)
            self._set_default_backend(dist.ProcessGroup.BackendType.CUSTOM)
            for device in DEVICES if engine.devices.device.available() else DEVICES[:1]:
                self._register_backend(device, dist.ProcessGroup.BackendType.CUSTOM, self._backend)

    def rank(self):
        return self._engine.rank

    def size(self):
        return self._engine.size

    getRank, getSize = rank, size

    def name(self):
        return "tutti"

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None, device_types=None):
        name = group_name or f"split:{self._engine.sequence}:{','.join(map(str, ranks))}"
        store = dist.PrefixStore(f"{name}/", self._store)
        engine = self._split_engine(store, ranks, opts, timeout)
        if engine is None:
            return None
        group = ProcessGroup(store, engine)
        group._set_group_name(name)
        group._set_group_desc(group_desc or "undefined")
        return group


if not PYTHON_BACKENDS:
    class _Plain(ProcessGroup):
        """Torch asks these of a group's backends; here the group is its own."""

        _device_types = property(lambda self: DEVICES if self._engine.devices.device.available() else DEVICES[:1])
        supports_splitting = supports_coalescing = True
        bound_device_id = None
        options = property(lambda self: self._engine.options)
        group_name = property(lambda self: self._name)
        group_desc = property(lambda self: self._description)

        def _get_backend(self, device):
            if torch.device(device).type not in ("cpu", "cuda"):
                raise RuntimeError(f"No backend type associated with device type {torch.device(device).type}")
            return self

        def _get_backend_name(self):
            return "tutti"

        def _set_group_name(self, name):
            self._name = name

        def _set_group_desc(self, description):
            self._description = description

        def getGroupName(self):
            return self._name

        def getGroupDesc(self):
            return self._description

        def _has_hooks(self):
            return False


def create(given, pg_options=None):
    """What torch calls to make a group: given is its DistributedBackendOptions."""
    engine = Engine(given.store, given.group_rank, given.group_size, options_of(pg_options, given.timeout))
    if not PYTHON_BACKENDS:
        return _Plain(given.store, engine)
    # The default backend of a group that is being made bears our kind's name only where no other backend precedes it.
    group = given.process_group
    if group._device_types or group.name() != "custom":
        return Backend(engine)
    return ProcessGroup(given.store, engine)


def register():
    """Make "tutti" a backend of torch.distributed; torch's entry points call it."""
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu", "cuda"])
