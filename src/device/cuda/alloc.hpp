// Device memory for tuttiMemAlloc: in pages that other processes can map, where the device has virtual memory.
//
// The table of allocations is global to the process, for the reason given in host_memory.hpp.  Any thread.
#pragma once

#include <cstddef>
#include <memory>

#include "src/device/cuda/device.hpp"

namespace tutti::cuda {

/// `bytes` of memory of the device, not zeroed; 0 gives nullptr.  Whole granules of the device are used up.  Errors:
/// SystemError when the device has not that much left; UnhandledCudaError; those of CudaDevice::open.
Result<void*> deviceAlloc(Device ordinal, size_t bytes);

/// Whether deviceAlloc() gave `memory`, and it has not been freed.
bool isDeviceAllocation(const void* memory);

/// Waits until the device has nothing to do, as it may be at work on the memory; then frees it.  Errors:
/// InvalidArgument: not the start of an allocation; InvalidUsage: somebody still holds it (holdDeviceMemory), or the
/// device cannot be waited for because a stream is being captured; UnhandledCudaError: what the device was doing has
/// failed, and the memory is freed all the same.
Status deviceFree(void* memory);

/// Keeps deviceFree() from freeing the allocation that `memory` is in while the result lives; null if it is in none.
std::shared_ptr<const void> holdDeviceMemory(const void* memory);

}  // namespace tutti::cuda
