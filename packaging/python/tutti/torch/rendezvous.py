"""How the ranks of a group meet: rank 0 makes the ids of their communicators and hands them out by torch's store.

A store may hold what an earlier start of the job has left in it, as torchrun's does: so every rank asks by a word of its own,
and takes no answer to any other."""
import ctypes
import hashlib
import os
from datetime import timedelta

import torch.distributed as dist

from .._api import core
from .._library import make
from .connection import pauses
from .errors import check, lib
from .threads import start


def meet(store, rank, size, options, timeout_ms, lanes=None, device=core.TUTTI_DEVICE_HOST):
    """(a store that is this start's alone, the communicators).  lanes: how many, if not as the options say"""
    if rank == 0:
        ids = new_ids(lanes or options.lanes)
        with Answers(store, size, ids):
            return own_store(store, ids), join(ids, rank, size, options, timeout_ms, device)
    word = os.urandom(16).hex()
    store.set(f"asks/{rank}", word)
    store.wait([f"ids/{word}"], timedelta(milliseconds=timeout_ms))
    ids = bytes(store.get(f"ids/{word}"))
    return own_store(store, ids), join(ids, rank, size, options, timeout_ms, device)


def new_ids(count):
    ids = [core.tuttiUniqueId() for _ in range(count)]
    for unique_id in ids:
        check(lib.tuttiGetUniqueId(ctypes.byref(unique_id)), "init_process_group")
    return b"".join(bytes(unique_id) for unique_id in ids)


def own_store(store, ids):
    return dist.PrefixStore(hashlib.sha256(ids).hexdigest()[:16] + "/", store)


def join(ids, rank, size, options, timeout_ms, device):
    """All at once; who fails on one fails on all."""
    length = ctypes.sizeof(core.tuttiUniqueId)
    config = make(core.tuttiConfig_t, timeoutMs=timeout_ms, **{**options.fields(), "device": device})
    comms = [ctypes.c_void_p() for _ in range(len(ids) // length)]
    check(lib.tuttiGroupStart(), "init_process_group")
    for at, comm in enumerate(comms):
        unique_id = core.tuttiUniqueId.from_buffer_copy(ids[at * length:(at + 1) * length])
        lib.tuttiCommInitRankConfig(ctypes.byref(comm), size, unique_id, rank, ctypes.byref(config))
    check(lib.tuttiGroupEnd(), "init_process_group")
    return comms


class Answers:
    """Rank 0 answers every word that it finds until all have joined, as a rank's first may be from an earlier start."""

    def __init__(self, store, size, ids):
        self._store, self._size, self._ids, self._joined = store, size, ids, False

    def __enter__(self):
        if self._size > 1:
            self._thread = start("answers to ranks that join", "tutti rendezvous", self._answer)

    def __exit__(self, *error):
        self._joined = True
        if self._size > 1:
            self._thread.join()

    def _answer(self):
        answered = {}
        for _ in pauses():
            for rank in range(1, self._size):
                if self._joined:
                    return
                if self._store.check([f"asks/{rank}"]):
                    word = bytes(self._store.get(f"asks/{rank}")).decode()
                    if answered.get(rank) != word:
                        self._store.set(f"ids/{word}", self._ids)
                        answered[rank] = word
