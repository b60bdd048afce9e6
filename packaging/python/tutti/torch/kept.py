"""Handles that only torch's C++ has.

A handle is two objects, one of C++ and one of Python.  In older torch the second goes when nothing of Python refers to it, though C++ may
have the first, whose wait() then never ends.  So it lives on here, without keeping its tensors, for so many handles more that C++ does
not wait for it any longer."""
import collections
import weakref

from torch._C import _distributed_c10d as c10d

NEEDED = not hasattr(getattr(c10d, "Backend", None), "all_gather_single")  # newer torch keeps them itself
LATEST = 10_000

_handles = collections.deque(maxlen=LATEST)


def keep(work):
    """By a handle, when nothing of Python refers to it any more."""
    if work._ended():
        work._fade()
    _handles.append(work)


class Faded:
    """Tensors, or lists of them, for as long as others have them."""

    def __init__(self, outputs):
        self._references = [Faded(one) if isinstance(one, list) else weakref.ref(one) for one in outputs]

    def all(self):
        return [one.all() if isinstance(one, Faded) else one() for one in self._references]


def forget():
    """Once there are no groups."""
    _handles.clear()
