"""Tensors in shared memory for those who ask a group for memory, as fully_shard does.

Torch asks anew for every gather, so blocks are kept for the next one of their size."""
import collections
import ctypes
import mmap
import threading
import weakref

import torch

from .. import memory


class Pool:
    """Any thread.  Blocks come back when the tensors on them are gone."""

    def __init__(self):
        self._lock = threading.RLock()  # garbage that is collected within may give blocks back
        self._free = collections.defaultdict(list)  # by bytes
        self._free_bytes = self._used_bytes = self._most_used = 0
        self._closed = False

    def tensor(self, count, dtype):
        nbytes = count * dtype.itemsize
        if nbytes == 0:
            return torch.empty(count, dtype=dtype)
        pages = -(-nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        block = self._take(pages)
        # A tensor's storage keeps this view of the block, and nobody else does.
        view = (ctypes.c_uint8 * nbytes).from_address(ctypes.addressof(block))
        weakref.finalize(view, self._give, pages, block).atexit = False
        return torch.frombuffer(view, dtype=dtype, count=count)

    def _take(self, pages):
        with self._lock:
            kept = self._free[pages]
            if kept:
                self._free_bytes -= pages
            block = kept.pop() if kept else None
            self._used_bytes += pages
            self._most_used = max(self._most_used, self._used_bytes)
        return block if block is not None else memory.allocate(pages)

    def _give(self, pages, block):
        with self._lock:
            self._used_bytes -= pages
            # Sizes that no longer come must not pile up: at most as much waits as has ever been in use at once.
            if not self._closed and self._free_bytes + pages <= self._most_used:
                self._free[pages].append(block)
                self._free_bytes += pages

    def close(self):
        """What is in use goes when its tensors do."""
        with self._lock:
            self._closed = True
            self._free.clear()
            self._free_bytes = 0
