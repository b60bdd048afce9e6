// A set of kernels on one CUDA device, and room for what they work with.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "src/device/cuda/stream.hpp"
#include "src/device/device.hpp"

namespace tutti::cuda {

/// One for all of the process that use the set on the device; ends with the last of them.  Any thread.
class LoadedKernels {
 public:
  /// Errors: those of CudaDevice::open; InvalidUsage: the image has no kernels for this device; UnhandledCudaError.
  static Result<std::shared_ptr<LoadedKernels>> of(Device ordinal, const KernelSet& kernels);
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels&) = delete;
  LoadedKernels& operator=(const LoadedKernels&) = delete;

  const std::shared_ptr<const CudaDevice>& device() const { return device_; }
  Function function(size_t kernel) const { return functions_[kernel]; }
  /// Room for what this thread enqueues on a stream.  With the context current.
  Result<void*> scratch(Stream stream, size_t bytes);

 private:
  explicit LoadedKernels(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}
  Status load(const KernelSet& kernels);

  std::shared_ptr<const CudaDevice> device_;
  Module module_ = nullptr;
  std::vector<Function> functions_;
  std::mutex mutex_;
  std::map<std::pair<Stream, std::thread::id>, DeviceMemory> rooms_;  // under mutex_
};

}  // namespace tutti::cuda
