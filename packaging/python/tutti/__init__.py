"""Tutti: collective communication between threads, processes and hosts.

    import numpy, tutti
    with tutti.Communicator.from_env() as comm:
        x = numpy.ones(4, "float32")
        comm.all_reduce(x)

docs/python.md is the manual."""
from . import memory
from ._tools import plan, simulate, topology
from .arrays import Buffer, as_dtype
from .communicator import Communicator, Estimate
from .config import UniqueId, get_unique_id, get_unique_id_at, get_version, set_default
from .errors import (CudaError, InternalError, InvalidArgument, InvalidUsage, RemoteError, SystemFailure, Timeout,
                     TuttiError)
from .operators import Operator
from .streams import Event, Stream, group
from .types import AVG, BAND, BOR, BXOR, LAND, LOR, MAX, MIN, PROD, SUM, DataType, ReduceOp

__version__ = ".".join(map(str, get_version()))

__all__ = ["AVG", "BAND", "BOR", "BXOR", "Buffer", "Communicator", "CudaError", "DataType", "Estimate", "Event",
           "InternalError", "InvalidArgument", "InvalidUsage", "LAND", "LOR", "MAX", "MIN", "Operator", "PROD", "ReduceOp",
           "RemoteError", "SUM", "Stream", "SystemFailure", "Timeout", "TuttiError", "UniqueId", "as_dtype", "get_unique_id",
           "get_unique_id_at", "get_version", "group", "memory", "plan", "set_default", "simulate", "topology"]
