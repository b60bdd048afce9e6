// What the device does at best: copies within its memory, and launches of a kernel that has nothing to do.
#pragma once

#include <algorithm>

#include "src/base/clock.hpp"
#include "src/exec/cuda/cuda_kernels.hpp"

namespace tutti::gpuperf {

struct Limits {
  double copyGBps = 0;  // bytes read and written, of cuMemcpyAsync within the device
  double launchUs = 0;  // one kernel for one element, from the call until the stream is idle
};

/// bytes: of a copy; large enough for the caches not to matter.
inline Result<Limits> measureLimits(const std::shared_ptr<cuda::CudaDevice>& device, cuda::Stream stream,
                                    size_t bytes) {
  const cuda::Driver& driver = device->driver();
  TUTTI_ASSIGN(const cuda::DeviceMemory from, cuda::DeviceMemory::allocate(device, bytes));
  TUTTI_ASSIGN(const cuda::DeviceMemory to, cuda::DeviceMemory::allocate(device, bytes));
  TUTTI_ASSIGN(const std::shared_ptr<const CudaKernels> kernels, CudaKernels::load(device));
  TUTTI_TRY(from.zero());
  Limits limits;
  limits.launchUs = 1e9;
  for (int round = 0; round < 20; ++round) {
    int64_t begin = nowNs();
    TUTTI_CUDA(driver, cuMemcpyAsync(to.address(), from.address(), bytes, stream));
    TUTTI_CUDA(driver, cuStreamSynchronize(stream));
    limits.copyGBps =
        std::max(limits.copyGBps, 2.0 * static_cast<double>(bytes) / static_cast<double>(nowNs() - begin));
    begin = nowNs();
    const float one = 1;
    TUTTI_TRY(kernels->scale(stream, tuttiFloat, to.data(), from.data(), &one, false, 1));
    TUTTI_CUDA(driver, cuStreamSynchronize(stream));
    limits.launchUs = std::min(limits.launchUs, static_cast<double>(nowNs() - begin) / 1e3);
  }
  return limits;
}

}  // namespace tutti::gpuperf
