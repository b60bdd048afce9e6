"""A rank's end of a group of ranks."""
import ctypes
import os

from . import _fork, _meet
from ._api import core
from ._collectives import Collectives
from ._library import library, make
from .config import UniqueId, by_reference, make_config, milliseconds
from .errors import InvalidArgument, check, error_of
from .operators import create_op, create_premul_sum
from .memory import Registration
from .streams import at_group_end, in_group
from .types import Kind, data_type


class Communicator(Collectives):
    """One rank of a communicator.  One thread at a time may use it; calls release the interpreter.

    Options, the same on every rank: blocking, device ("auto", "host", "cuda"), reproducible, timeout (seconds; None: wait
    for ever), n_channels, min_channels, max_channels, split_share, transports ("shm,tcp"), net_name, name, wire ("full",
    "bf16", "fp8", "int8"), and of this rank alone wait ("auto", "spin", "yield", "block").

    As a context manager it is destroyed at the end, and aborted where the body raises."""

    def __init__(self, handle):
        self.handle = handle
        self.rank = self.nranks = 0
        self.device = -1
        self._operators = []
        if handle:
            self._look()
        _fork.track(self)

    def _look(self):
        cell = ctypes.c_int()
        for name, function in (("rank", "CommUserRank"), ("nranks", "CommCount"), ("device", "CommCuDevice")):
            check(getattr(library(), "tutti" + function)(self.handle, ctypes.byref(cell)), self.handle)
            setattr(self, name, cell.value)

    @classmethod
    def _made(cls, create, *references):
        """A communicator that create(cell) makes; inside a group it is there when the group has ended."""
        cell = ctypes.c_void_p()
        check(create(ctypes.byref(cell)))
        if not in_group():
            return None if cell.value is None else cls(cell.value)
        comm = cls(0)

        def finish(_=references):
            comm.handle = cell.value
            comm._look()

        at_group_end(finish)
        return comm

    # ---- Making one ------------------------------------------------------------------------------------------------

    @classmethod
    def init(cls, nranks, rank, unique_id, **options):
        """Join as `rank` of `nranks`; returns when all have joined.  unique_id: from get_unique_id on one rank."""
        if not isinstance(unique_id, UniqueId):
            unique_id = UniqueId(unique_id)
        config = make_config(options)
        return cls._made(lambda cell: library().tuttiCommInitRankConfig(cell, nranks, unique_id._struct, rank,
                                                                        by_reference(config)), config)

    @classmethod
    def from_env(cls, **options):
        """Rank, size and meeting place from the environment: tutti-run, torchrun, Open MPI, PMIx, MPICH, Slurm.  A process
        that none of them started becomes the one rank of one."""
        config = make_config(options)
        return cls._made(lambda cell: library().tuttiCommInitEnv(cell, by_reference(config)), config)

    @classmethod
    def from_mpi(cls, comm, **options):
        """The ranks of an mpi4py communicator, numbered as there."""
        return cls.init(comm.size, comm.rank, _meet.by_mpi(comm), **options)

    @classmethod
    def init_all(cls, nranks, devices=None):
        """Communicators of one process, number i of rank i, to be used by a thread each."""
        if nranks < 1:
            raise InvalidArgument(f"{nranks} ranks: there has to be one at least")
        cells = (ctypes.c_void_p * nranks)()
        listed = None if devices is None else (ctypes.c_int * nranks)(*devices)
        check(library().tuttiCommInitAll(cells, nranks, listed))
        return [cls(cell) for cell in cells]

    def split(self, color, key=0, **options):
        """Ranks of the same color form a communicator, by key, then by rank; color None: take part, get None."""
        config = make_config(options)
        handle, color = _fork.alive(self), core.TUTTI_SPLIT_NOCOLOR if color is None else color
        return self._child(lambda cell: library().tuttiCommSplit(handle, color, key, cell, by_reference(config)), config)

    def shrink(self, exclude=(), abort=False, **options):
        """A communicator of all ranks but those that have died or that any caller excludes.  abort: this one has failed or
        is in use; its operations are ended first."""
        config, ranks = make_config(options), list(exclude)
        listed = (ctypes.c_int * len(ranks))(*ranks) if ranks else None
        handle, flags = _fork.alive(self), core.TUTTI_SHRINK_ABORT if abort else core.TUTTI_SHRINK_DEFAULT
        return self._child(lambda cell: library().tuttiCommShrink(handle, listed, len(ranks), cell, by_reference(config),
                                                                  flags), config)

    def grow(self, nranks, unique_id=None, **options):
        """A communicator of more ranks, in which those of this one keep their numbers.  One rank passes the id from
        get_unique_id, the others None; new ranks call Communicator.join with it."""
        config, handle = make_config(options), _fork.alive(self)
        given = None if unique_id is None else ctypes.byref(unique_id._struct)
        return self._child(lambda cell: library().tuttiCommGrow(handle, nranks, given, -1, cell, by_reference(config)),
                           config, unique_id)

    @classmethod
    def join(cls, nranks, rank, unique_id, **options):
        """A new rank's side of grow."""
        config = make_config(options)
        return cls._made(lambda cell: library().tuttiCommGrow(None, nranks, ctypes.byref(unique_id._struct), rank, cell,
                                                              by_reference(config)), config, unique_id)

    def _child(self, create, *references):
        cell = ctypes.c_void_p()
        check(create(ctypes.byref(cell)), self.handle)
        return None if cell.value is None else type(self)(cell.value)

    # ---- Ending it -------------------------------------------------------------------------------------------------

    def finalize(self):
        """Wait until all that was enqueued is done and all ranks have come here."""
        handle = _fork.alive(self)
        check(library().tuttiCommFinalize(handle), handle)

    def destroy(self):
        """Finalize if that was not done, then free; nothing if it is destroyed already."""
        self._end(library().tuttiCommDestroy)

    close = destroy

    def abort(self):
        """Free at once, without waiting; calls under way on other threads end with an error."""
        self._end(library().tuttiCommAbort)

    def _end(self, function):
        if self.handle:
            handle, self.handle = self.handle, 0
            result = function(handle)
            self._operators.clear()
            check(result)

    def revoke(self):
        """Stop operations in flight on every rank; then only shrink, destroy and abort work."""
        handle = _fork.alive(self)
        check(library().tuttiCommRevoke(handle, 0), handle)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            self.destroy()
        else:
            self.abort()

    # ---- Asking it -------------------------------------------------------------------------------------------------

    @property
    def size(self):
        return self.nranks

    def async_error(self):
        """The exception that broke this communicator, or None.  With blocking=False, ready() says when it is made."""
        result = self._state()
        return None if result in (core.tuttiSuccess, core.tuttiInProgress) else error_of(result, self.handle)

    def ready(self):
        """Whether nothing that was begun with blocking=False is still under way."""
        return self._state() != core.tuttiInProgress

    def _state(self):
        cell, handle = ctypes.c_int(), _fork.alive(self)
        check(library().tuttiCommGetAsyncError(handle, ctypes.byref(cell)), handle)
        return cell.value

    def set_timeout(self, seconds):
        """How long a wait may last before its peer counts as lost, the same on every rank; None: for ever."""
        handle = _fork.alive(self)
        check(library().tuttiCommSetTimeout(handle, milliseconds(seconds)), handle)

    def dump(self, path=None):
        """Write this rank's flight record, for tutti-trace: into a file or a folder; None: where TUTTI_DUMP says."""
        handle = _fork.alive(self)
        check(library().tuttiCommDump(handle, None if path is None else os.fsencode(path)), handle)

    def estimate(self, kind, count, dtype="float32", op=core.tuttiSum, root=0):
        """What the planner would choose for a call ("all_reduce") and how long it expects it to take."""
        wanted = Kind[kind.upper()] if isinstance(kind, str) and kind.upper() in Kind.__members__ else None
        if wanted is None:
            raise InvalidArgument(f"{kind!r} is not a call: it is one of {', '.join(k.lower() for k in Kind.__members__)}")
        told, handle = make(core.tuttiEstimate_t), _fork.alive(self)
        check(library().tuttiCommEstimate(handle, int(wanted), count, int(data_type(dtype)), int(op), root,
                                          ctypes.byref(told)), handle)
        return Estimate(told)

    def create_op(self, function, commutative=True):
        """An operator of a Python function(a, b) of numpy vectors; it returns the combination, or None if it changed b.
        commutative=False: operands are combined in rank order."""
        return create_op(self, function, commutative)

    def register(self, array):
        """Let calls use a long-lived array without copying where the machine allows it; close() ends that."""
        return Registration(self, array)

    def create_premul_sum(self, scalar, dtype="float32"):
        """The sum of each rank's array times that rank's scalar."""
        return create_premul_sum(self, scalar, dtype)

    def __repr__(self):
        return f"<tutti.Communicator rank {self.rank} of {self.nranks}{'' if self.handle else ', destroyed'}>"


class Estimate:
    """time_us, algorithm, protocol, n_channels and joined of a call."""

    def __init__(self, told):
        self.time_us, self.n_channels, self.joined = told.timeUs, told.nChannels, bool(told.joined)
        self.algorithm, self.protocol = (told.algorithm or b"").decode(), (told.protocol or b"").decode()

    def __repr__(self):
        return f"Estimate({self.algorithm}, {self.protocol}, {self.n_channels} channels, {self.time_us:.1f} us)"
