// What src/device/cuda/abi.hpp declares, held against the toolkit's headers where there are any.
#include <cuda.h>
#include <cudaTypedefs.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <type_traits>

#include "src/device/cuda/abi.hpp"
#include "tutti/nccl.h"

namespace {

namespace ours = tutti::cuda;

// Programs written to NCCL take these from its header.
static_assert(sizeof(half) == 2 && sizeof(__nv_bfloat16) == 2 && sizeof(cudaStream_t) == sizeof(ours::Stream));

template <class A, class B>
constexpr bool passedAlike =
    sizeof(A) == sizeof(B) &&
    alignof(A) == alignof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> == std::is_class_v<B>;

template <class... A, class... B>
constexpr bool calledAlike(ours::Error (*)(A...), CUresult (*)(B...)) {
  if constexpr (sizeof...(A) == sizeof...(B)) {
    return (passedAlike<A, B> && ...);
  } else {
    return false;
  }
}

namespace declared {
using namespace tutti::cuda;
#define DECLARE(name, version, parameters) using name = Error(*) parameters;
TUTTI_CUDA_FUNCTIONS(DECLARE)
}  // namespace declared

#define CHECK_CALL(name, version, parameters)                                                                     \
  static_assert(calledAlike(static_cast<declared::name>(nullptr), static_cast<PFN_##name##_v##version>(nullptr)), \
                #name);
TUTTI_CUDA_FUNCTIONS(CHECK_CALL)

static_assert(ours::kErrorInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(ours::kErrorOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(ours::kErrorNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(ours::kErrorDeviceUnavailable == CUDA_ERROR_DEVICE_UNAVAILABLE);
static_assert(ours::kErrorSystemNotReady == CUDA_ERROR_SYSTEM_NOT_READY);
static_assert(ours::kErrorDriverMismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(ours::kErrorMpsConnection == CUDA_ERROR_MPS_CONNECTION_FAILED);
static_assert(ours::kErrorMpsRpc == CUDA_ERROR_MPS_RPC_FAILURE);
static_assert(ours::kErrorMpsServerNotReady == CUDA_ERROR_MPS_SERVER_NOT_READY);
static_assert(ours::kErrorMpsClients == CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
static_assert(ours::kErrorMpsConnections == CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED);
static_assert(ours::kErrorNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(ours::kErrorInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(ours::kErrorInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(ours::kErrorInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(ours::kErrorInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(ours::kErrorNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(ours::kErrorNotReady == CUDA_ERROR_NOT_READY);
static_assert(ours::kErrorIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(ours::kErrorAlreadyMapped == CUDA_ERROR_ALREADY_MAPPED);
static_assert(ours::kErrorPeerAccessUnsupported == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
static_assert(ours::kErrorPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(ours::kErrorCooperativeTooLarge == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
static_assert(ours::kErrorNotSupported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(ours::kErrorCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(ours::kErrorContextDestroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED);
static_assert(ours::kErrorCaptureInvalidated == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
static_assert(ours::kErrorCaptureMerge == CUDA_ERROR_STREAM_CAPTURE_MERGE);
static_assert(ours::kErrorCaptureUnmatched == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
static_assert(ours::kErrorCaptureUnjoined == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
static_assert(ours::kErrorCaptureIsolation == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
static_assert(ours::kErrorCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(ours::kErrorCapturedEvent == CUDA_ERROR_CAPTURED_EVENT);
static_assert(ours::kErrorCaptureWrongThread == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
static_assert(ours::kAttributeMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(ours::kAttributeMemoryClockKHz == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(ours::kAttributeMemoryBusBits == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(ours::kAttributeUnifiedAddressing == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
static_assert(ours::kAttributeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(ours::kAttributeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(ours::kAttributePageableAccess == CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS);
static_assert(ours::kAttributeCooperativeLaunch == CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
static_assert(ours::kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(ours::kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(ours::kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(ours::kPointerDevicePointer == CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
static_assert(ours::kMemoryTypeHost == CU_MEMORYTYPE_HOST);
static_assert(ours::kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(ours::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(ours::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(ours::kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(ours::kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(ours::kHostAllocWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);
static_assert(ours::kManagedGlobal == CU_MEM_ATTACH_GLOBAL);
static_assert(ours::kWaitGreaterOrEqual == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(ours::kWaitEqual == CU_STREAM_WAIT_VALUE_EQ);
static_assert(ours::kOperationWait == CU_STREAM_MEM_OP_WAIT_VALUE_32);
static_assert(ours::kOperationWrite == CU_STREAM_MEM_OP_WRITE_VALUE_32);
static_assert(ours::kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(ours::kCaptureActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(ours::kCaptureInvalidated == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
static_assert(ours::kCaptureModeGlobal == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(ours::kCaptureModeThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(ours::kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(ours::kAttributeVirtualMemory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(ours::kAttributeExportsDescriptors == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(ours::kAttributeRdmaOfPages == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
static_assert(ours::kAttributeMemoryPools == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(ours::kAttributeRdma == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
static_assert(ours::kAttributeRdmaFlushes == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(ours::kAttributeRdmaOrdering == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(ours::kAttributeDmaBuf == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
static_assert(ours::kRangeDmaBuf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(ours::kFlushByHost == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
static_assert(ours::kOrderedForOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(ours::kFlushThisContext == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(ours::kFlushForOwner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(ours::kAllocationPinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(ours::kLocationDevice == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(ours::kHandleDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(ours::kAccessReadWrite == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(ours::kGranularityMinimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(sizeof(ours::AllocationHandle) == sizeof(CUmemGenericAllocationHandle) &&
              sizeof(ours::Address) == sizeof(CUdeviceptr) && sizeof(ours::Device) == sizeof(CUdevice) &&
              sizeof(ours::Error) == sizeof(CUresult) && sizeof(ours::HostFunction) == sizeof(CUhostFn));
static_assert(sizeof(ours::MemoryLocation) == sizeof(CUmemLocation) &&
              offsetof(ours::MemoryLocation, type) == offsetof(CUmemLocation, type) &&
              offsetof(ours::MemoryLocation, id) == offsetof(CUmemLocation, id));
static_assert(offsetof(ours::AllocationProperties, type) == offsetof(CUmemAllocationProp, type) &&
              offsetof(ours::AllocationProperties, windowsMetaData) ==
                  offsetof(CUmemAllocationProp, win32HandleMetaData) &&
              offsetof(ours::MemoryAccess, location) == offsetof(CUmemAccessDesc, location));
static_assert(sizeof(ours::AllocationProperties) == sizeof(CUmemAllocationProp) &&
              offsetof(ours::AllocationProperties, handleTypes) ==
                  offsetof(CUmemAllocationProp, requestedHandleTypes) &&
              offsetof(ours::AllocationProperties, location) == offsetof(CUmemAllocationProp, location) &&
              offsetof(ours::AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags) &&
              offsetof(ours::AllocationProperties, flags.rdmaCapable) ==
                  offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable));
static_assert(sizeof(ours::MemoryAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(ours::MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags));
using Wait = decltype(CUstreamBatchMemOpParams::waitValue);
using Write = decltype(CUstreamBatchMemOpParams::writeValue);
static_assert(sizeof(ours::WordOperation) == sizeof(CUstreamBatchMemOpParams));
static_assert(offsetof(ours::WordOperation, address) == offsetof(Wait, address) &&
              offsetof(ours::WordOperation, value) == offsetof(Wait, value) &&
              offsetof(ours::WordOperation, flags) == offsetof(Wait, flags) &&
              offsetof(ours::WordOperation, alias) == offsetof(Wait, alias));
static_assert(offsetof(ours::WordOperation, address) == offsetof(Write, address) &&
              offsetof(ours::WordOperation, value) == offsetof(Write, value) &&
              offsetof(ours::WordOperation, flags) == offsetof(Write, flags) &&
              offsetof(ours::WordOperation, alias) == offsetof(Write, alias));
static_assert(sizeof(ours::IpcHandle) == sizeof(CUipcMemHandle) && sizeof(ours::Uuid) == sizeof(CUuuid));

}  // namespace

TEST_CASE("the driver's interface is declared as the toolkit has it") {
  // The rest is checked by the compiler.
  CHECK(reinterpret_cast<CUstream>(ours::kStreamLegacy) == CU_STREAM_LEGACY);
  CHECK(reinterpret_cast<CUstream>(ours::kStreamPerThread) == CU_STREAM_PER_THREAD);
}
