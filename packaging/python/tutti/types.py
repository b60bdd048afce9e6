"""Data types and operators, by the numbers of the C API."""
import enum

from ._api import core


class DataType(enum.IntEnum):
    INT8 = core.tuttiInt8
    UINT8 = core.tuttiUint8
    INT32 = core.tuttiInt32
    UINT32 = core.tuttiUint32
    INT64 = core.tuttiInt64
    UINT64 = core.tuttiUint64
    FLOAT16 = core.tuttiFloat16
    FLOAT32 = core.tuttiFloat32
    FLOAT64 = core.tuttiFloat64
    BFLOAT16 = core.tuttiBfloat16
    FLOAT8_E4M3 = core.tuttiFloat8e4m3
    FLOAT8_E5M2 = core.tuttiFloat8e5m2
    INT16 = core.tuttiInt16
    UINT16 = core.tuttiUint16
    BOOL = core.tuttiBool

    @property
    def itemsize(self):
        return _BYTES[self]


_BYTES = dict(zip(DataType.__members__.values(), (1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1)))

# Names that numpy, torch, ml_dtypes and JAX have for them.
NAMES = {name.lower(): kind for name, kind in DataType.__members__.items()}
NAMES.update({"float8_e4m3fn": DataType.FLOAT8_E4M3, "half": DataType.FLOAT16, "float": DataType.FLOAT32,
              "double": DataType.FLOAT64, "int": DataType.INT32, "long": DataType.INT64, "bool_": DataType.BOOL})


def data_type(kind):
    """The DataType of a name, a numpy or torch dtype, or a number; None if Tutti has none such."""
    if isinstance(kind, int):
        return DataType(kind) if 0 <= kind < core.tuttiNumTypes else None
    name = kind if isinstance(kind, str) else getattr(kind, "name", None) or getattr(kind, "__name__", None) or str(kind)
    return NAMES.get(name.rsplit(".", 1)[-1])


class ReduceOp(enum.IntEnum):
    SUM = core.tuttiSum
    PROD = core.tuttiProd
    MAX = core.tuttiMax
    MIN = core.tuttiMin
    AVG = core.tuttiAvg
    BAND = core.tuttiBand
    BOR = core.tuttiBor
    BXOR = core.tuttiBxor
    LAND = core.tuttiLand
    LOR = core.tuttiLor


SUM, PROD, MAX, MIN, AVG = ReduceOp.SUM, ReduceOp.PROD, ReduceOp.MAX, ReduceOp.MIN, ReduceOp.AVG
BAND, BOR, BXOR, LAND, LOR = ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR, ReduceOp.LAND, ReduceOp.LOR


class Kind(enum.IntEnum):
    """The calls that _calls.collective and _calls.call make, by tuttiCall_t."""
    ALL_REDUCE = core.tuttiCallAllReduce
    BROADCAST = core.tuttiCallBroadcast
    REDUCE = core.tuttiCallReduce
    ALL_GATHER = core.tuttiCallAllGather
    REDUCE_SCATTER = core.tuttiCallReduceScatter
    ALL_TO_ALL = core.tuttiCallAllToAll
    GATHER = core.tuttiCallGather
    SCATTER = core.tuttiCallScatter
    BARRIER = core.tuttiCallBarrier
    SEND = core.tuttiCallSend
    RECV = core.tuttiCallRecv
