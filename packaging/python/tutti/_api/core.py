"""Of include/tutti/*.h; written by packaging/python/generate."""
from ctypes import CFUNCTYPE, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, sizeof

TUTTI_DEVICE_AUTO = 0
TUTTI_DEVICE_HOST = 1
TUTTI_DEVICE_CUDA = 2
TUTTI_WAIT_AUTO = 0
TUTTI_WAIT_SPIN = 1
TUTTI_WAIT_YIELD = 2
TUTTI_WAIT_BLOCK = 3
TUTTI_WIRE_FULL = 0
TUTTI_WIRE_BF16 = 1
TUTTI_WIRE_FP8 = 2
TUTTI_WIRE_INT8 = 3
TUTTI_MAJOR = 0
TUTTI_MINOR = 1
TUTTI_PATCH = 0
TUTTI_VERSION_CODE = TUTTI_MAJOR * 10000 + TUTTI_MINOR * 100 + TUTTI_PATCH
TUTTI_UNIQUE_ID_BYTES = 128
TUTTI_CONFIG_UNDEF_INT = -2**31
TUTTI_CONFIG_UNDEF_PTR = None
TUTTI_CONFIG_MAGIC = 0x7a771c0f
TUTTI_SPLIT_NOCOLOR = -1
TUTTI_SHRINK_DEFAULT = 0
TUTTI_SHRINK_ABORT = 1


class tuttiUniqueId(Structure):
    _fields_ = [("internal", c_char * TUTTI_UNIQUE_ID_BYTES)]


tuttiSuccess = 0
tuttiUnhandledCudaError = 1
tuttiSystemError = 2
tuttiInternalError = 3
tuttiInvalidArgument = 4
tuttiInvalidUsage = 5
tuttiRemoteError = 6
tuttiInProgress = 7
tuttiTimeout = 8
tuttiNumResults = 9
tuttiInt8 = 0
tuttiChar = 0
tuttiUint8 = 1
tuttiInt32 = 2
tuttiInt = 2
tuttiUint32 = 3
tuttiInt64 = 4
tuttiUint64 = 5
tuttiFloat16 = 6
tuttiHalf = 6
tuttiFloat32 = 7
tuttiFloat = 7
tuttiFloat64 = 8
tuttiDouble = 8
tuttiBfloat16 = 9
tuttiFloat8e4m3 = 10
tuttiFloat8e5m2 = 11
tuttiInt16 = 12
tuttiUint16 = 13
tuttiBool = 14
tuttiNumTypes = 15
tuttiSum = 0
tuttiProd = 1
tuttiMax = 2
tuttiMin = 3
tuttiAvg = 4
tuttiBand = 5
tuttiBor = 6
tuttiBxor = 7
tuttiLand = 8
tuttiLor = 9
tuttiNumOps = 10
tuttiMaxRedOp = 2147483647
tuttiScalarDevice = 0
tuttiScalarHostImmediate = 1


class tuttiConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("magic", c_uint), ("version", c_uint), ("blocking", c_int), ("device", c_int),
        ("reproducible", c_int), ("timeoutMs", c_int), ("nChannels", c_int), ("splitShare", c_int), ("transports",
        c_char_p), ("netName", c_char_p), ("commName", c_char_p), ("minChannels", c_int), ("maxChannels", c_int),
        ("waitMode", c_int), ("wire", c_int)]


tuttiCallAllReduce = 0
tuttiCallBroadcast = 1
tuttiCallReduce = 2
tuttiCallAllGather = 3
tuttiCallReduceScatter = 4
tuttiCallAllToAll = 5
tuttiCallGather = 6
tuttiCallScatter = 7
tuttiCallBarrier = 8
tuttiCallSend = 9
tuttiCallRecv = 10
tuttiCallAllToAllv = 11
tuttiCallAllGatherv = 12
tuttiCallReduceScatterv = 13
tuttiCallGatherv = 14
tuttiCallScatterv = 15
tuttiNumCalls = 16


class tuttiEstimate_t(Structure):
    _fields_ = [("size", c_size_t), ("timeUs", c_double), ("algorithm", c_char_p), ("protocol", c_char_p),
        ("nChannels", c_int), ("joined", c_int)]


tuttiRedFunction_t = CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_int, c_void_p)

# Structs as their initializers in C leave them.
DEFAULTS = {
    tuttiConfig_t: (sizeof(tuttiConfig_t), TUTTI_CONFIG_MAGIC, TUTTI_VERSION_CODE, TUTTI_CONFIG_UNDEF_INT,
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT,
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_PTR, TUTTI_CONFIG_UNDEF_PTR,
        TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT,),
    tuttiEstimate_t: (sizeof(tuttiEstimate_t), 0, None, None, 0, 0,),
}

# name: (what it returns, what it takes)
FUNCTIONS = {
    "tuttiGetVersion": (c_int, (c_void_p,)),
    "tuttiGetErrorString": (c_char_p, (c_int,)),
    "tuttiGetLastError": (c_char_p, (c_void_p,)),
    "tuttiSetDefault": (c_int, (c_char_p, c_char_p,)),
    "tuttiGetUniqueId": (c_int, (c_void_p,)),
    "tuttiGetUniqueIdAt": (c_int, (c_char_p, c_int, c_void_p,)),
    "tuttiCommInitRank": (c_int, (c_void_p, c_int, tuttiUniqueId, c_int,)),
    "tuttiCommInitRankConfig": (c_int, (c_void_p, c_int, tuttiUniqueId, c_int, c_void_p,)),
    "tuttiCommInitAll": (c_int, (c_void_p, c_int, c_void_p,)),
    "tuttiCommInitEnv": (c_int, (c_void_p, c_void_p,)),
    "tuttiCommSplit": (c_int, (c_void_p, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiCommShrink": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int,)),
    "tuttiCommGrow": (c_int, (c_void_p, c_int, c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiCommRevoke": (c_int, (c_void_p, c_int,)),
    "tuttiCommFinalize": (c_int, (c_void_p,)),
    "tuttiCommDestroy": (c_int, (c_void_p,)),
    "tuttiCommAbort": (c_int, (c_void_p,)),
    "tuttiCommGetAsyncError": (c_int, (c_void_p, c_void_p,)),
    "tuttiCommCount": (c_int, (c_void_p, c_void_p,)),
    "tuttiCommUserRank": (c_int, (c_void_p, c_void_p,)),
    "tuttiCommCuDevice": (c_int, (c_void_p, c_void_p,)),
    "tuttiCommSetTimeout": (c_int, (c_void_p, c_int,)),
    "tuttiCommEstimate": (c_int, (c_void_p, c_int, c_size_t, c_int, c_int, c_int, c_void_p,)),
    "tuttiMemAlloc": (c_int, (c_void_p, c_size_t,)),
    "tuttiMemFree": (c_int, (c_void_p,)),
    "tuttiCommRegister": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p,)),
    "tuttiCommDeregister": (c_int, (c_void_p, c_void_p,)),
    "tuttiGroupStart": (c_int, ()),
    "tuttiGroupEnd": (c_int, ()),
    "tuttiGroupSimulateEnd": (c_int, (c_void_p,)),
    "tuttiRedOpCreatePreMulSum": (c_int, (c_void_p, c_void_p, c_int, c_int, c_void_p,)),
    "tuttiRedOpCreate": (c_int, (c_void_p, tuttiRedFunction_t, c_int, c_void_p, c_void_p,)),
    "tuttiRedOpDestroy": (c_int, (c_int, c_void_p,)),
    "tuttiAllReduce": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiBroadcast": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiReduce": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiAllGather": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p,)),
    "tuttiReduceScatter": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiAllToAll": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p,)),
    "tuttiGather": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiScatter": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiBarrier": (c_int, (c_void_p, c_void_p,)),
    "tuttiAllToAllv": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p,
        c_void_p,)),
    "tuttiAllGatherv": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiReduceScatterv": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiGatherv": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiScatterv": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiSend": (c_int, (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiRecv": (c_int, (c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiStreamCreate": (c_int, (c_void_p,)),
    "tuttiStreamDestroy": (c_int, (c_void_p,)),
    "tuttiStreamSynchronize": (c_int, (c_void_p,)),
    "tuttiStreamQuery": (c_int, (c_void_p,)),
    "tuttiEventCreate": (c_int, (c_void_p,)),
    "tuttiEventDestroy": (c_int, (c_void_p,)),
    "tuttiEventRecord": (c_int, (c_void_p, c_void_p,)),
    "tuttiEventQuery": (c_int, (c_void_p,)),
    "tuttiEventSynchronize": (c_int, (c_void_p,)),
    "tuttiStreamWaitEvent": (c_int, (c_void_p, c_void_p,)),
    "tuttiCommDump": (c_int, (c_void_p, c_char_p,)),
    "tuttiRankEnded": (c_int, (tuttiUniqueId, c_int, c_char_p,)),
}
