// What Tutti uses of the CUDA driver's interface, declared here so that it builds on machines without the toolkit.
//
// The driver keeps these names, values and layouts stable for compiled programs.  Where cuda.h is installed, a test
// holds every one of them against it.  Source: CUDA Driver API reference, CUDA 13.0.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;
struct CUgraph_st;
struct CUgraphExec_st;

namespace tutti::cuda {

using Error = int;  // CUresult
using Device = int;
using Address = uint64_t;  // CUdeviceptr
using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using Graph = CUgraph_st*;
using GraphExec = CUgraphExec_st*;
using HostFunction = void (*)(void*);
using AllocationHandle = unsigned long long;  // CUmemGenericAllocationHandle

inline constexpr Error kSuccess = 0;
inline constexpr Error kErrorInvalidValue = 1;
inline constexpr Error kErrorOutOfMemory = 2;
inline constexpr Error kErrorNotInitialized = 3;
inline constexpr Error kErrorDeviceUnavailable = 46;
inline constexpr Error kErrorNoDevice = 100;
inline constexpr Error kErrorInvalidDevice = 101;
inline constexpr Error kErrorInvalidImage = 200;
inline constexpr Error kErrorInvalidContext = 201;
inline constexpr Error kErrorInvalidHandle = 400;
inline constexpr Error kErrorNotFound = 500;
inline constexpr Error kErrorNotReady = 600;
inline constexpr Error kErrorUncorrectableMemory = 214;
inline constexpr Error kErrorUncorrectableLink = 220;
inline constexpr Error kErrorIllegalAddress = 700;
inline constexpr Error kErrorAlreadyMapped = 208;
inline constexpr Error kErrorPeerAccessUnsupported = 217;
inline constexpr Error kErrorPeerAccessAlreadyEnabled = 704;
inline constexpr Error kErrorContextDestroyed = 709;
inline constexpr Error kErrorAssert = 710;
inline constexpr Error kErrorFirstOfKernels = 714;  // its stack, instructions, addresses, and what has no name
inline constexpr Error kErrorLastOfKernels = 719;
inline constexpr Error kErrorCooperativeTooLarge = 720;
inline constexpr Error kErrorNotSupported = 801;
inline constexpr Error kErrorSystemNotReady = 802;
inline constexpr Error kErrorDriverMismatch = 803;
inline constexpr Error kErrorMpsConnection = 805;
inline constexpr Error kErrorMpsRpc = 806;
inline constexpr Error kErrorMpsServerNotReady = 807;
inline constexpr Error kErrorMpsClients = 808;
inline constexpr Error kErrorMpsConnections = 809;
inline constexpr Error kErrorCaptureUnsupported = 900;
inline constexpr Error kErrorCaptureInvalidated = 901;
inline constexpr Error kErrorCaptureMerge = 902;
inline constexpr Error kErrorCaptureUnmatched = 903;
inline constexpr Error kErrorCaptureUnjoined = 904;
inline constexpr Error kErrorCaptureIsolation = 905;
inline constexpr Error kErrorCaptureImplicit = 906;
inline constexpr Error kErrorCapturedEvent = 907;
inline constexpr Error kErrorCaptureWrongThread = 908;

// CUdevice_attribute
inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeMemoryClockKHz = 36;
inline constexpr int kAttributeMemoryBusBits = 37;
inline constexpr int kAttributeUnifiedAddressing = 41;
inline constexpr int kAttributeMajor = 75;
inline constexpr int kAttributeMinor = 76;
inline constexpr int kAttributePageableAccess = 88;
inline constexpr int kAttributeCooperativeLaunch = 95;
inline constexpr int kAttributeVirtualMemory = 102;
inline constexpr int kAttributeExportsDescriptors = 103;
inline constexpr int kAttributeRdmaOfPages = 110;
inline constexpr int kAttributeMemoryPools = 115;
inline constexpr int kAttributeRdma = 116;
inline constexpr int kAttributeRdmaFlushes = 117;
inline constexpr int kAttributeRdmaOrdering = 118;
inline constexpr int kAttributeDmaBuf = 124;

// CUpointer_attribute and CUmemorytype
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDevicePointer = 3;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

// Flags
inline constexpr unsigned kStreamNonBlocking = 1;
/// The two default streams by name: one of the device, and one of each thread.
inline const auto kStreamLegacy = reinterpret_cast<Stream>(uintptr_t{1});
inline const auto kStreamPerThread = reinterpret_cast<Stream>(uintptr_t{2});
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kIpcLazyPeerAccess = 1;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostAllocWriteCombined = 4;
inline constexpr unsigned kManagedGlobal = 1;
inline constexpr unsigned kWaitGreaterOrEqual = 0;
inline constexpr unsigned kWaitEqual = 1;
inline constexpr unsigned kOperationWait = 1;   // CUstreamBatchMemOpType
inline constexpr unsigned kOperationWrite = 2;  // both of 32 bits
inline constexpr unsigned kMostWordOperations = 255;
inline constexpr int kCaptureNone = 0;
inline constexpr int kCaptureActive = 1;
inline constexpr int kCaptureInvalidated = 2;
inline constexpr int kCaptureModeGlobal = 0;
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr int kAllocationPinned = 1;  // CUmemAllocationType
inline constexpr int kLocationDevice = 1;    // CUmemLocationType
inline constexpr int kHandleDescriptor = 1;  // CUmemAllocationHandleType
inline constexpr int kAccessReadWrite = 3;   // CUmemAccess_flags
inline constexpr int kGranularityMinimum = 0;
inline constexpr int kRangeDmaBuf = 1;        // CUmemRangeHandleType
inline constexpr int kFlushByHost = 1;        // CUflushGPUDirectRDMAWritesOptions
inline constexpr int kOrderedForOwner = 100;  // CUGPUDirectRDMAWritesOrdering
inline constexpr int kFlushThisContext = 0;   // CUflushGPUDirectRDMAWritesTarget
inline constexpr int kFlushForOwner = 100;    // CUflushGPUDirectRDMAWritesScope

struct IpcHandle {  // CUipcMemHandle
  char reserved[64];
};
struct Uuid {  // CUuuid
  char bytes[16];
};
struct MemoryLocation {  // CUmemLocation
  int type = 0;
  int id = 0;
};
struct AllocationFlags {  // CUmemAllocationProp::allocFlags
  unsigned char compression = 0;
  unsigned char rdmaCapable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct AllocationProperties {  // CUmemAllocationProp
  int type = 0;
  int handleTypes = 0;
  MemoryLocation location;
  void* windowsMetaData = nullptr;
  AllocationFlags flags;
};
struct MemoryAccess {  // CUmemAccessDesc
  MemoryLocation location;
  int flags = 0;
};
struct WordOperation {  // CUstreamBatchMemOpParams, where it is a wait or a write
  unsigned operation = 0;
  Address address = 0;
  uint64_t value = 0;  // of 32-bit operations the lower half
  unsigned flags = 0;
  Address alias = 0;  // the driver's
  uint64_t unused = 0;
};

// Every driver function that Tutti or its tests call: name, version of the interface, parameters.  The version picks
// one form of a function for ever, whatever newer forms a driver has.
#define TUTTI_CUDA_FUNCTIONS(X)                                                                                  \
  X(cuInit, 2000, (unsigned flags))                                                                              \
  X(cuDriverGetVersion, 2020, (int* version))                                                                    \
  X(cuGetErrorName, 6000, (Error error, const char** text))                                                      \
  X(cuGetErrorString, 6000, (Error error, const char** text))                                                    \
  X(cuDeviceGetCount, 2000, (int* count))                                                                        \
  X(cuDeviceGet, 2000, (Device * device, int ordinal))                                                           \
  X(cuDeviceGetName, 2000, (char* name, int bytes, Device device))                                               \
  X(cuDeviceGetUuid, 11040, (Uuid * uuid, Device device))                                                        \
  X(cuDeviceGetPCIBusId, 4010, (char* text, int bytes, Device device))                                           \
  X(cuDeviceGetAttribute, 2000, (int* value, int attribute, Device device))                                      \
  X(cuDeviceCanAccessPeer, 4000, (int* can, Device device, Device peer))                                         \
  X(cuDevicePrimaryCtxRetain, 7000, (Context * context, Device device))                                          \
  X(cuDevicePrimaryCtxRelease, 11000, (Device device))                                                           \
  X(cuCtxGetCurrent, 4000, (Context * context))                                                                  \
  X(cuCtxPushCurrent, 4000, (Context context))                                                                   \
  X(cuCtxPopCurrent, 4000, (Context * context))                                                                  \
  X(cuCtxGetDevice, 2000, (Device * device))                                                                     \
  X(cuCtxEnablePeerAccess, 4000, (Context peer, unsigned flags))                                                 \
  X(cuCtxSynchronize, 2000, ())                                                                                  \
  X(cuMemAlloc, 3020, (Address * address, size_t bytes))                                                         \
  X(cuMemAllocAsync, 11020, (Address * address, size_t bytes, Stream stream))                                    \
  X(cuMemAllocManaged, 6000, (Address * address, size_t bytes, unsigned flags))                                  \
  X(cuMemFree, 3020, (Address address))                                                                          \
  X(cuMemFreeAsync, 11020, (Address address, Stream stream))                                                     \
  X(cuMemHostAlloc, 2020, (void** memory, size_t bytes, unsigned flags))                                         \
  X(cuMemFreeHost, 2000, (void* memory))                                                                         \
  X(cuPointerGetAttributes, 7000, (unsigned count, int* attributes, void** data, Address address))               \
  X(cuMemGetAddressRange, 3020, (Address * base, size_t * bytes, Address address))                               \
  X(cuMemGetAllocationGranularity, 10020, (size_t * bytes, const AllocationProperties* of, int option))          \
  X(cuMemCreate, 10020,                                                                                          \
    (AllocationHandle * handle, size_t bytes, const AllocationProperties* properties, unsigned long long flags)) \
  X(cuMemRelease, 10020, (AllocationHandle handle))                                                              \
  X(cuMemRetainAllocationHandle, 11000, (AllocationHandle * handle, void* address))                              \
  X(cuMemGetAllocationPropertiesFromHandle, 10020, (AllocationProperties * of, AllocationHandle handle))         \
  X(cuMemAddressReserve, 10020,                                                                                  \
    (Address * address, size_t bytes, size_t alignment, Address wanted, unsigned long long flags))               \
  X(cuMemAddressFree, 10020, (Address address, size_t bytes))                                                    \
  X(cuMemMap, 10020,                                                                                             \
    (Address address, size_t bytes, size_t offset, AllocationHandle handle, unsigned long long flags))           \
  X(cuMemUnmap, 10020, (Address address, size_t bytes))                                                          \
  X(cuMemSetAccess, 10020, (Address address, size_t bytes, const MemoryAccess* access, size_t count))            \
  X(cuMemExportToShareableHandle, 10020,                                                                         \
    (void* exported, AllocationHandle handle, int type, unsigned long long flags))                               \
  X(cuMemImportFromShareableHandle, 10020, (AllocationHandle * handle, void* exported, int type))                \
  X(cuMemGetHandleForAddressRange, 11070,                                                                        \
    (void* handle, Address address, size_t bytes, int type, unsigned long long flags))                           \
  X(cuFlushGPUDirectRDMAWrites, 11030, (int target, int scope))                                                  \
  X(cuMemcpyAsync, 4000, (Address dst, Address src, size_t bytes, Stream stream))                                \
  X(cuMemsetD8Async, 3020, (Address dst, unsigned char value, size_t bytes, Stream stream))                      \
  X(cuMemsetD32Async, 3020, (Address dst, unsigned value, size_t count, Stream stream))                          \
  X(cuIpcGetMemHandle, 4010, (IpcHandle * handle, Address address))                                              \
  X(cuIpcOpenMemHandle, 11000, (Address * address, IpcHandle handle, unsigned flags))                            \
  X(cuIpcCloseMemHandle, 4010, (Address address))                                                                \
  X(cuStreamCreate, 2000, (Stream * stream, unsigned flags))                                                     \
  X(cuCtxGetStreamPriorityRange, 5050, (int* least, int* greatest))                                              \
  X(cuStreamCreateWithPriority, 5050, (Stream * stream, unsigned flags, int priority))                           \
  X(cuStreamDestroy, 4000, (Stream stream))                                                                      \
  X(cuStreamSynchronize, 2000, (Stream stream))                                                                  \
  X(cuStreamQuery, 2000, (Stream stream))                                                                        \
  X(cuStreamGetCtx, 9020, (Stream stream, Context * context))                                                    \
  X(cuStreamGetId, 12000, (Stream stream, unsigned long long* id))                                               \
  X(cuStreamWaitEvent, 3020, (Stream stream, Event event, unsigned flags))                                       \
  X(cuStreamIsCapturing, 10000, (Stream stream, int* status))                                                    \
  X(cuStreamGetCaptureInfo, 10010, (Stream stream, int* status, uint64_t* capture))                              \
  X(cuThreadExchangeStreamCaptureMode, 10010, (int* mode))                                                       \
  X(cuStreamWaitValue32, 11070, (Stream stream, Address address, uint32_t value, unsigned flags))                \
  X(cuStreamWriteValue32, 11070, (Stream stream, Address address, uint32_t value, unsigned flags))               \
  X(cuStreamBatchMemOp, 11070, (Stream stream, unsigned count, WordOperation* operations, unsigned flags))       \
  X(cuEventCreate, 2000, (Event * event, unsigned flags))                                                        \
  X(cuEventDestroy, 4000, (Event event))                                                                         \
  X(cuEventRecord, 2000, (Event event, Stream stream))                                                           \
  X(cuEventQuery, 2000, (Event event))                                                                           \
  X(cuEventSynchronize, 2000, (Event event))                                                                     \
  X(cuLaunchHostFunc, 10000, (Stream stream, HostFunction function, void* data))                                 \
  X(cuLaunchKernel, 4000,                                                                                        \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,        \
     unsigned blockZ, unsigned sharedBytes, Stream stream, void** parameters, void** extra))                     \
  X(cuLaunchCooperativeKernel, 9000,                                                                             \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,        \
     unsigned blockZ, unsigned sharedBytes, Stream stream, void** parameters))                                   \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050,                                                           \
    (int* blocks, Function function, int threads, size_t sharedBytes))                                           \
  X(cuModuleLoadData, 2000, (Module * module, const void* image))                                                \
  X(cuModuleGetFunction, 2000, (Function * function, Module module, const char* name))                           \
  X(cuModuleUnload, 2000, (Module module))                                                                       \
  X(cuStreamBeginCapture, 10010, (Stream stream, int mode))                                                      \
  X(cuStreamEndCapture, 10000, (Stream stream, Graph * graph))                                                   \
  X(cuGraphInstantiateWithFlags, 11040, (GraphExec * exec, Graph graph, unsigned long long flags))               \
  X(cuGraphLaunch, 10000, (GraphExec exec, Stream stream))                                                       \
  X(cuGraphExecDestroy, 10000, (GraphExec exec))                                                                 \
  X(cuGraphDestroy, 10000, (Graph graph))

}  // namespace tutti::cuda
