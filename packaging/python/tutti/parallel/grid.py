"""Ranks in a grid with named axes (docs/parallel/grid.md)."""
import ctypes

from .. import _fork
from ..communicator import Communicator
from ._base import Handle


class Grid(Handle):
    """Grid(world, "tp=2,pp=2,dp=0"): the first axis is innermost; a size of 0 takes what the others leave.  group("tp")
    is this rank's communicator along an axis, or several ("dp-cp"); the grid owns it."""
    _destroy = "GridDestroy"

    def __init__(self, world, axes):
        self.world, self._groups = world, {}
        self._make("GridCreate", _fork.alive(world), axes.encode(), None, keep=(world,))

    def view(self, axes, shared=None):
        """A second arrangement of the same ranks; `shared` names axes that have to be the same groups ("tp-pp")."""
        made = Grid.__new__(Grid)
        made.world, made._groups = self.world, {}
        made._make("GridView", _fork.alive(self), axes.encode(), shared.encode() if shared else None, keep=(self,))
        return made

    def _number(self, name, *arguments):
        cell = ctypes.c_int()
        self._call(name, *arguments, ctypes.byref(cell))
        return cell.value

    def size(self, axes):
        return self._number("GridSize", axes.encode())

    def coordinate(self, axes, rank=-1):
        """A rank's place along axes; -1: this one's."""
        return self._number("GridCoordinate", axes.encode(), rank)

    def rank_at(self, place):
        """The world rank at "tp=1,dp=0"; axes that are not named are this rank's."""
        return self._number("GridRankAt", place.encode())

    def members(self, axes, rank=-1):
        """World ranks of the group along axes in which `rank` is."""
        ranks, count = (ctypes.c_int * self.world.size)(), ctypes.c_int()
        self._call("GridMembers", axes.encode(), rank, ranks, self.world.size, ctypes.byref(count))
        return list(ranks[:count.value])

    def group(self, axes):
        """The communicator of this rank's group, made on first use by all ranks together."""
        if axes not in self._groups:
            cell = ctypes.c_void_p()
            self._call("GridGroup", axes.encode(), ctypes.byref(cell))
            self._groups[axes] = _Borrowed(cell.value)
        return self._groups[axes]

    def check(self):
        """What lies on slower links than its place in the order says; one line per finding."""
        cell = ctypes.c_char_p()
        self._call("GridCheck", ctypes.byref(cell))
        return cell.value.decode()

    def destroy(self):
        for comm in self._groups.values():
            comm.handle = 0
        super().destroy()

    close = destroy


class _Borrowed(Communicator):
    """A grid's communicator: it ends with the grid."""

    def destroy(self):
        self.handle = 0
        self._operators.clear()

    close = destroy
