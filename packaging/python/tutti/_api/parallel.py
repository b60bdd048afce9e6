"""Of include/tutti/parallel/*.h; written by packaging/python/generate."""
from ctypes import CFUNCTYPE, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, sizeof

from .core import *  # noqa: F403

TUTTI_MAX_DIMS = 4


class tuttiTensor_t(Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int), ("device", c_int), ("nDims", c_int), ("shape",
        c_int64 * TUTTI_MAX_DIMS), ("strides", c_int64 * TUTTI_MAX_DIMS)]


tuttiNumericsFast = 0
tuttiNumericsLayoutInvariant = 1


class tuttiTraffic_t(Structure):
    _fields_ = [("size", c_size_t), ("calls", c_uint64 * tuttiNumCalls), ("bytes", c_uint64 * tuttiNumCalls),
        ("wireBytes", c_double)]


class tuttiGridConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("nodeOfRank", c_void_p)]


TUTTI_PARAMETER_NO_DECAY = 1
TUTTI_PARAMETER_COUNTED_ELSEWHERE = 2


class tuttiParameter_t(Structure):
    _fields_ = [("name", c_char_p), ("value", tuttiTensor_t), ("flags", c_uint)]


tuttiWireExact = 0
tuttiWireBf16 = 1
tuttiWireInt8 = 2


class tuttiDdpConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("numerics", c_int), ("wire", c_int), ("microBatches", c_int), ("weight",
        c_double), ("average", c_int), ("overlap", c_int), ("broadcast", c_int), ("bucketBytes", c_size_t),
        ("firstBucketBytes", c_size_t), ("guard", c_int), ("feedback", c_int)]


class tuttiDdpReport_t(Structure):
    _fields_ = [("size", c_size_t), ("nBuckets", c_int), ("bucketBytes", c_size_t), ("steps", c_int),
        ("communicationMs", c_double), ("exposedMs", c_double), ("traffic", tuttiTraffic_t), ("expected",
        tuttiTraffic_t)]


tuttiSgd = 0
tuttiMomentum = 1
tuttiAdamW = 2


class tuttiOptimizer_t(Structure):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("learningRate", c_double), ("beta1", c_double), ("beta2",
        c_double), ("epsilon", c_double), ("weightDecay", c_double)]


class tuttiZeroConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("stage", c_int), ("numerics", c_int), ("microBatches", c_int), ("prefetch",
        c_int), ("reshardAfterForward", c_int), ("overlap", c_int), ("broadcast", c_int), ("values", c_int), ("clip",
        c_double), ("replicas", c_void_p), ("norm", c_void_p), ("optimizer", tuttiOptimizer_t)]


class tuttiZeroReport_t(Structure):
    _fields_ = [("size", c_size_t), ("bytesNow", c_size_t), ("bytesPeak", c_size_t), ("bytesExpected", c_size_t),
        ("bytesPeakExpected", c_size_t), ("communicationMs", c_double), ("exposedMs", c_double), ("traffic",
        tuttiTraffic_t), ("expected", tuttiTraffic_t)]


class tuttiTpConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("numerics", c_int), ("sequenceParallel", c_int), ("leaves", c_int), ("tiles",
        c_int), ("kernels", c_void_p), ("tokenLeaves", c_int), ("device", c_int64), ("tokenComm", c_void_p),
        ("sequence", c_int64)]


tuttiRegionCopy = 0
tuttiRegionReduce = 1
tuttiRegionScatter = 2
tuttiRegionGather = 3
tuttiRegionGatherTokens = 4
tuttiRegionReduceScatter = 5


class tuttiLinearConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("inputs", c_int64), ("outputs", c_int64), ("unit", c_int64), ("cuts", c_void_p),
        ("whole", c_int)]


tuttiActionForward = 0
tuttiActionBackward = 1
tuttiActionBackwardInput = 2
tuttiActionBackwardWeight = 3
tuttiActionSendForward = 4
tuttiActionRecvForward = 5
tuttiActionSendBackward = 6
tuttiActionRecvBackward = 7
tuttiNumActions = 8


class tuttiAction_t(Structure):
    _fields_ = [("kind", c_int), ("stage", c_int), ("micro", c_int)]


class tuttiSimulation_t(Structure):
    _fields_ = [("size", c_size_t), ("forward", c_double), ("backwardInput", c_double), ("backwardWeight", c_double),
        ("message", c_double), ("total", c_double), ("ideal", c_double), ("bubbleOverTotal", c_double),
        ("bubbleOverIdeal", c_double), ("peakInFlight", c_int), ("span", c_double)]


class tuttiStages_t(Structure):
    _fields_ = [("size", c_size_t), ("context", c_void_p), ("forward", CFUNCTYPE(c_int, c_void_p, c_int, c_int,
        c_void_p, c_void_p)), ("backward", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_void_p, c_int)),
        ("backwardWeight", CFUNCTYPE(c_int, c_void_p, c_int, c_int)), ("device", c_int64)]


tuttiTokensContiguous = 0
tuttiTokensZigzag = 1
tuttiTokensStriped = 2


class tuttiSpConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("sequence", c_int64), ("batch", c_int64), ("heads", c_int64), ("kvHeads",
        c_int64), ("headDim", c_int64), ("causal", c_int), ("scale", c_double), ("tokens", c_int), ("gather", c_int),
        ("overlap", c_int), ("kernels", c_void_p), ("leaves", c_int), ("device", c_int64), ("queryTile", c_int64),
        ("keyTile", c_int64)]


class tuttiEpConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("experts", c_int), ("choices", c_int), ("owners", c_void_p), ("capacity",
        c_int64), ("device", c_int64)]


TUTTI_PARAMETER_SPARSE = 4
TUTTI_PS_ASYNCHRONOUS = -1


class tuttiPsConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("servers", c_int), ("staleness", c_int), ("backup", c_int), ("timeoutMs", c_int),
        ("optimizer", tuttiOptimizer_t)]


class tuttiPsReport_t(Structure):
    _fields_ = [("size", c_size_t), ("steps", c_int64), ("dropped", c_int64), ("stalest", c_int64), ("traffic",
        tuttiTraffic_t), ("expected", tuttiTraffic_t)]


class tuttiPiece_t(Structure):
    _fields_ = [("name", c_char_p), ("dtype", c_int), ("rows", c_int64), ("columns", c_int64), ("row0", c_int64),
        ("row1", c_int64), ("column0", c_int64), ("column1", c_int64), ("begin", c_int64), ("end", c_int64), ("data",
        c_void_p)]


class tuttiPaceConfig_t(Structure):
    _fields_ = [("size", c_size_t), ("window", c_int), ("ratio", c_double)]


class tuttiMatmul_t(Structure):
    _fields_ = [("dtype", c_int), ("transposeA", c_int), ("transposeB", c_int), ("accumulate", c_int), ("m", c_int64),
        ("n", c_int64), ("k", c_int64), ("a", c_void_p), ("b", c_void_p), ("c", c_void_p), ("lda", c_int64), ("ldb",
        c_int64), ("ldc", c_int64)]


class tuttiKernels_t(Structure):
    _fields_ = [("size", c_size_t), ("context", c_void_p), ("matmul", CFUNCTYPE(c_int, c_void_p, c_void_p)), ("name",
        c_char_p)]


class tuttiAttention_t(Structure):
    _fields_ = [("size", c_size_t), ("batch", c_int64), ("queries", c_int64), ("keys", c_int64), ("queryStart",
        c_int64), ("keyStart", c_int64), ("heads", c_int64), ("kvHeads", c_int64), ("headDim", c_int64), ("causal",
        c_int), ("scale", c_double), ("queryTile", c_int64), ("keyTile", c_int64)]


tuttiRecomputeNone = 0
tuttiRecomputeSelective = 1
tuttiRecomputeFull = 2
tuttiRecomputeAlternate = 3


class tuttiModelShape_t(Structure):
    _fields_ = [("size", c_size_t), ("layers", c_double), ("hidden", c_double), ("heads", c_double), ("sequence",
        c_double), ("parameters", c_double), ("vocabulary", c_double), ("experts", c_double), ("choices", c_double),
        ("expertWidth", c_double), ("kvHeads", c_double), ("keyBlock", c_double), ("visible", c_double),
        ("attentionWidth", c_double)]


class tuttiLayout_t(Structure):
    _fields_ = [("size", c_size_t), ("tp", c_int), ("pp", c_int), ("dp", c_int), ("chunks", c_int), ("zero", c_int),
        ("sequenceParallel", c_int), ("recompute", c_int), ("microBatch", c_double), ("microBatches", c_int),
        ("valueBytes", c_double), ("gradientBytes", c_double), ("optimizerBytes", c_double), ("cp", c_int), ("ep",
        c_int)]


class tuttiLayoutCost_t(Structure):
    _fields_ = [("size", c_size_t), ("values", c_double), ("gradients", c_double), ("optimizer", c_double),
        ("activations", c_double), ("tpBytes", c_double), ("ppBytes", c_double), ("dpBytes", c_double), ("bubble",
        c_double), ("cpBytes", c_double), ("epBytes", c_double), ("working", c_double), ("logits", c_double),
        ("inFlight", c_int)]


tuttiGpuUnknown = 0
tuttiGpuA100 = 1
tuttiGpuH100 = 2
tuttiGpuB200 = 3
tuttiGpuH200 = 4


class tuttiMachine_t(Structure):
    _fields_ = [("size", c_size_t), ("ranks", c_int), ("perNode", c_int), ("flops", c_double), ("memory", c_double),
        ("nodeBandwidth", c_double), ("nodeLatencyUs", c_double), ("bandwidth", c_double), ("latencyUs", c_double),
        ("overlap", c_double), ("speeds", c_void_p), ("gpu", c_int), ("elementBytes", c_int), ("watts", c_double),
        ("attentionFlops", c_double), ("memoryBandwidth", c_double), ("adapters", c_int), ("sustained", c_double),
        ("castBytes", c_double), ("gathers", c_int), ("tensors", c_int), ("memoryCopies", c_int), ("partUs",
        c_double), ("zeroPlus", c_int)]


class tuttiPlan_t(Structure):
    _fields_ = [("layout", tuttiLayout_t), ("cost", tuttiLayoutCost_t), ("schedule", c_char_p), ("memory", c_double),
        ("computeMs", c_double), ("tpMs", c_double), ("ppMs", c_double), ("dpMs", c_double), ("bubbleMs", c_double),
        ("exposedMs", c_double), ("cpMs", c_double), ("epMs", c_double), ("unevenMs", c_double), ("stepMs", c_double),
        ("bucketBytes", c_size_t), ("prefetch", c_int), ("tiles", c_int), ("fits", c_int), ("why", c_char * 96)]


# Structs as their initializers in C leave them.
DEFAULTS = {
    tuttiTraffic_t: (sizeof(tuttiTraffic_t), (), (), 0,),
    tuttiGridConfig_t: (sizeof(tuttiGridConfig_t), None,),
    tuttiDdpConfig_t: (sizeof(tuttiDdpConfig_t), tuttiNumericsFast, tuttiWireExact, 1, 1.0, 1, 1, 1, 0, 0, 0, 0,),
    tuttiDdpReport_t: (sizeof(tuttiDdpReport_t), 0, 0, 0, 0, 0, tuttiTraffic_t(*(sizeof(tuttiTraffic_t), (), (), 0,)),
        tuttiTraffic_t(*(sizeof(tuttiTraffic_t), (), (), 0,)),),
    tuttiOptimizer_t: (sizeof(tuttiOptimizer_t), tuttiAdamW, 1e-3, 0.9, 0.95, 1e-8, 0.1,),
    tuttiZeroConfig_t: (sizeof(tuttiZeroConfig_t), 1, tuttiNumericsFast, 1, 1, 1, 1, 1, tuttiNumTypes, 0, None, None,
        tuttiOptimizer_t(*(sizeof(tuttiOptimizer_t), tuttiAdamW, 1e-3, 0.9, 0.95, 1e-8, 0.1,)),),
    tuttiZeroReport_t: (sizeof(tuttiZeroReport_t), 0, 0, 0, 0, 0, 0, tuttiTraffic_t(*(sizeof(tuttiTraffic_t), (), (),
        0,)), tuttiTraffic_t(*(sizeof(tuttiTraffic_t), (), (), 0,)),),
    tuttiTpConfig_t: (sizeof(tuttiTpConfig_t), tuttiNumericsFast, 0, 8, 1, None, 0, TUTTI_DEVICE_AUTO, None, 0,),
    tuttiLinearConfig_t: (sizeof(tuttiLinearConfig_t), 0, 0, 1, None, 0,),
    tuttiSimulation_t: (sizeof(tuttiSimulation_t), 1, 1, 1, 0, 0, 0, 0, 0, 0, 0,),
    tuttiStages_t: (sizeof(tuttiStages_t), None, None, None, None, TUTTI_DEVICE_AUTO,),
    tuttiSpConfig_t: (sizeof(tuttiSpConfig_t), 0, 1, 0, 0, 0, 1, 0, tuttiTokensContiguous, 0, 1, None, 0,
        TUTTI_DEVICE_AUTO, 0, 0,),
    tuttiEpConfig_t: (sizeof(tuttiEpConfig_t), 0, 1, None, 0, TUTTI_DEVICE_AUTO,),
    tuttiPsConfig_t: (sizeof(tuttiPsConfig_t), 1, 0, 0, 0, tuttiOptimizer_t(*(sizeof(tuttiOptimizer_t), tuttiAdamW,
        1e-3, 0.9, 0.95, 1e-8, 0.1,)),),
    tuttiPsReport_t: (sizeof(tuttiPsReport_t), 0, 0, 0, tuttiTraffic_t(*(sizeof(tuttiTraffic_t), (), (), 0,)),
        tuttiTraffic_t(*(sizeof(tuttiTraffic_t), (), (), 0,)),),
    tuttiPaceConfig_t: (sizeof(tuttiPaceConfig_t), 20, 1.3,),
    tuttiKernels_t: (sizeof(tuttiKernels_t), None, None, None,),
    tuttiAttention_t: (sizeof(tuttiAttention_t), 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,),
    tuttiModelShape_t: (sizeof(tuttiModelShape_t), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0,),
    tuttiLayout_t: (sizeof(tuttiLayout_t), 1, 1, 1, 1, 0, 0, tuttiRecomputeNone, 1, 0, 2, 4, 12, 1, 1,),
    tuttiLayoutCost_t: (sizeof(tuttiLayoutCost_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,),
    tuttiMachine_t: (sizeof(tuttiMachine_t), 1, 8, 1e12, 0, 100e9, 5, 10e9, 10, 0.9, None, tuttiGpuUnknown, 2, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0,),
}

# name: (what it returns, what it takes)
FUNCTIONS = {
    "tuttiParallelGetLastError": (c_char_p, ()),
    "tuttiParallelSetStream": (c_int, (c_void_p,)),
    "tuttiSplitEven": (c_int, (c_int64, c_int64, c_int, c_void_p, c_void_p,)),
    "tuttiGridCreate": (c_int, (c_void_p, c_void_p, c_char_p, c_void_p,)),
    "tuttiGridDestroy": (c_int, (c_void_p,)),
    "tuttiGridView": (c_int, (c_void_p, c_void_p, c_char_p, c_char_p,)),
    "tuttiGridSize": (c_int, (c_void_p, c_char_p, c_void_p,)),
    "tuttiGridCoordinate": (c_int, (c_void_p, c_char_p, c_int, c_void_p,)),
    "tuttiGridRankAt": (c_int, (c_void_p, c_char_p, c_void_p,)),
    "tuttiGridMembers": (c_int, (c_void_p, c_char_p, c_int, c_void_p, c_int, c_void_p,)),
    "tuttiGridGroup": (c_int, (c_void_p, c_char_p, c_void_p,)),
    "tuttiGridCheck": (c_int, (c_void_p, c_void_p,)),
    "tuttiDdpCreate": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p,)),
    "tuttiDdpDestroy": (c_int, (c_void_p,)),
    "tuttiDdpGradient": (c_int, (c_void_p, c_size_t, c_void_p,)),
    "tuttiDdpBegin": (c_int, (c_void_p,)),
    "tuttiDdpGradReady": (c_int, (c_void_p, c_size_t,)),
    "tuttiDdpFinish": (c_int, (c_void_p,)),
    "tuttiDdpShare": (c_int, (c_void_p, c_int,)),
    "tuttiDdpReport": (c_int, (c_void_p, c_void_p,)),
    "tuttiOptimizerUpdate": (c_int, (c_void_p, c_int64, c_double, c_uint, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiZeroCreate": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_size_t, c_void_p,)),
    "tuttiZeroDestroy": (c_int, (c_void_p,)),
    "tuttiZeroValue": (c_int, (c_void_p, c_size_t, c_void_p,)),
    "tuttiZeroGradient": (c_int, (c_void_p, c_size_t, c_void_p,)),
    "tuttiZeroBegin": (c_int, (c_void_p,)),
    "tuttiZeroUnshard": (c_int, (c_void_p, c_int,)),
    "tuttiZeroReshard": (c_int, (c_void_p, c_int, c_int,)),
    "tuttiZeroGradReady": (c_int, (c_void_p, c_size_t,)),
    "tuttiZeroStep": (c_int, (c_void_p, c_void_p,)),
    "tuttiZeroSetLearningRate": (c_int, (c_void_p, c_double,)),
    "tuttiZeroOwned": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p,)),
    "tuttiZeroOwnedState": (c_int, (c_void_p, c_size_t, c_int, c_void_p,)),
    "tuttiZeroLoaded": (c_int, (c_void_p, c_int64,)),
    "tuttiZeroReport": (c_int, (c_void_p, c_void_p,)),
    "tuttiTpCreate": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiTpDestroy": (c_int, (c_void_p,)),
    "tuttiTpTraffic": (c_int, (c_void_p, c_void_p, c_int,)),
    "tuttiTpSplit": (c_int, (c_void_p, c_int64, c_int64, c_void_p,)),
    "tuttiTpLeaves": (c_int, (c_void_p, c_int64, c_int64, c_void_p,)),
    "tuttiTpCheaperSplit": (c_int, (c_void_p, c_int64, c_int64, c_int64, c_int, c_void_p,)),
    "tuttiTpRegion": (c_int, (c_void_p, c_int, c_int, c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiTpTokens": (c_int, (c_void_p, c_void_p,)),
    "tuttiTpTokenLeaves": (c_int, (c_void_p, c_int64, c_int, c_void_p, c_void_p,)),
    "tuttiTpTokenSum": (c_int, (c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiTpTokenPredict": (c_int, (c_void_p, c_int, c_int64, c_int, c_void_p,)),
    "tuttiColumnLinearCreate": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiRowLinearCreate": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiLinearDestroy": (c_int, (c_void_p,)),
    "tuttiLinearCuts": (c_int, (c_void_p, c_void_p,)),
    "tuttiLinearForward": (c_int, (c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiLinearBackward": (c_int, (c_void_p, c_int64, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiLinearPredict": (c_int, (c_void_p, c_int64, c_int, c_int, c_void_p,)),
    "tuttiVocabEmbedding": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiVocabEmbeddingBackward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiVocabCrossEntropy": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_double,)),
    "tuttiVocabPredict": (c_int, (c_void_p, c_int64, c_int64, c_int, c_int, c_void_p,)),
    "tuttiScheduleCreate": (c_int, (c_void_p, c_char_p, c_int, c_int, c_int,)),
    "tuttiScheduleParse": (c_int, (c_void_p, c_char_p,)),
    "tuttiScheduleDestroy": (c_int, (c_void_p,)),
    "tuttiScheduleCsv": (c_int, (c_void_p, c_void_p,)),
    "tuttiScheduleShape": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiScheduleRankOf": (c_int, (c_void_p, c_int, c_void_p,)),
    "tuttiScheduleActions": (c_int, (c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiScheduleValidate": (c_int, (c_void_p, c_int, c_void_p,)),
    "tuttiScheduleSimulate": (c_int, (c_void_p, c_void_p,)),
    "tuttiScheduleInFlight": (c_int, (c_void_p, c_int, c_void_p,)),
    "tuttiBalanceStages": (c_int, (c_void_p, c_int, c_int, c_void_p,)),
    "tuttiPipelineCreate": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t, c_int, c_void_p,)),
    "tuttiPipelineDestroy": (c_int, (c_void_p,)),
    "tuttiPipelineStep": (c_int, (c_void_p,)),
    "tuttiPipelineTraffic": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiSpCreate": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiSpDestroy": (c_int, (c_void_p,)),
    "tuttiSpTokens": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiSpSaved": (c_int, (c_void_p, c_void_p,)),
    "tuttiSpForward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiSpBackward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiSpTraffic": (c_int, (c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiSpMemory": (c_int, (c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiSpBalance": (c_int, (c_void_p, c_void_p,)),
    "tuttiEpCreate": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiEpDestroy": (c_int, (c_void_p,)),
    "tuttiEpRoute": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiEpRowsFrom": (c_int, (c_void_p, c_void_p,)),
    "tuttiEpDropped": (c_int, (c_void_p, c_void_p,)),
    "tuttiEpDispatch": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiEpDispatchBackward": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiEpCombine": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiEpCombineBackward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiEpBalanceLoss": (c_int, (c_void_p, c_void_p, c_double, c_int, c_void_p, c_void_p,)),
    "tuttiEpTraffic": (c_int, (c_void_p, c_int64, c_int, c_int, c_void_p, c_void_p,)),
    "tuttiPsCreate": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p,)),
    "tuttiPsDestroy": (c_int, (c_void_p,)),
    "tuttiPsIsServer": (c_int, (c_void_p, c_void_p,)),
    "tuttiPsServe": (c_int, (c_void_p,)),
    "tuttiPsPull": (c_int, (c_void_p,)),
    "tuttiPsPullRows": (c_int, (c_void_p, c_size_t, c_void_p, c_int64,)),
    "tuttiPsPushRows": (c_int, (c_void_p, c_size_t, c_void_p, c_int64, c_void_p,)),
    "tuttiPsPush": (c_int, (c_void_p, c_void_p,)),
    "tuttiPsReport": (c_int, (c_void_p, c_void_p,)),
    "tuttiReshard": (c_int, (c_void_p, c_void_p, c_size_t, c_void_p, c_size_t, c_void_p,)),
    "tuttiCheckpointSave": (c_int, (c_void_p, c_char_p, c_int64, c_void_p, c_size_t,)),
    "tuttiCheckpointLoad": (c_int, (c_void_p, c_char_p, c_void_p, c_void_p, c_size_t,)),
    "tuttiReplicaCheck": (c_int, (c_void_p, c_void_p, c_size_t,)),
    "tuttiMirrorCreate": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t,)),
    "tuttiMirrorDestroy": (c_int, (c_void_p,)),
    "tuttiMirrorUpdate": (c_int, (c_void_p, c_int64,)),
    "tuttiMirrorRestore": (c_int, (c_void_p, c_void_p, c_void_p, c_size_t, c_void_p,)),
    "tuttiPaceCreate": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiPaceDestroy": (c_int, (c_void_p,)),
    "tuttiPaceStep": (c_int, (c_void_p, c_double, c_double,)),
    "tuttiPaceShares": (c_int, (c_void_p, c_int64, c_void_p, c_void_p, c_void_p,)),
    "tuttiKernelsFast": (c_int, (c_void_p,)),
    "tuttiKernelsInvariant": (c_int, (c_void_p,)),
    "tuttiMatmulLeaves": (c_int, (c_void_p, c_void_p, c_int,)),
    "tuttiGelu": (c_int, (c_void_p, c_void_p,)),
    "tuttiGeluBackward": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiLayerNorm": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiLayerNormBackward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p,)),
    "tuttiAttentionForward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiAttentionBackward": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,
        c_void_p, c_void_p, c_void_p,)),
    "tuttiAttentionMemory": (c_int, (c_void_p, c_int, c_int64, c_int, c_void_p,)),
    "tuttiPlaceCreate": (c_int, (c_void_p, c_int,)),
    "tuttiPlaceDestroy": (c_int, (c_void_p,)),
    "tuttiPlaceStream": (c_int, (c_void_p, c_void_p,)),
    "tuttiPlaceAlloc": (c_int, (c_void_p, c_size_t, c_void_p,)),
    "tuttiPlaceFree": (c_int, (c_void_p, c_void_p,)),
    "tuttiPlaceCopy": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiPlaceAdd": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiLayoutCost": (c_int, (c_void_p, c_void_p, c_void_p,)),
    "tuttiMatmulRate": (c_int, (c_int, c_int, c_double, c_double, c_double, c_double, c_void_p,)),
    "tuttiMachineMeasure": (c_int, (c_void_p, c_void_p,)),
    "tuttiPlanSearch": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_size_t, c_void_p,)),
    "tuttiPlanLayout": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiPlanShares": (c_int, (c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p,)),
    "tuttiTrainingDays": (c_int, (c_double, c_double, c_double, c_double, c_int, c_void_p,)),
    "tuttiTreeAllReduce": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p,)),
    "tuttiTreeAllReduceCounted": (c_int, (c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_void_p, c_void_p,)),
    "tuttiTreeAllReduceTensors": (c_int, (c_void_p, c_void_p, c_void_p, c_void_p, c_void_p,)),
    "tuttiTreeReduceScatter": (c_int, (c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p,)),
    "tuttiSumOfSquares": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p,)),
    "tuttiTensorHash": (c_int, (c_void_p, c_uint64, c_int64, c_void_p,)),
}
