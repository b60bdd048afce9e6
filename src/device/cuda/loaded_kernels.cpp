#include "src/device/cuda/loaded_kernels.hpp"

namespace tutti::cuda {

Result<std::shared_ptr<LoadedKernels>> LoadedKernels::of(Device ordinal, const KernelSet& kernels) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::pair<Device, const void*>, std::weak_ptr<LoadedKernels>>;
  const std::lock_guard lock(mutex);
  std::weak_ptr<LoadedKernels>& place = loaded[{ordinal, kernels.image}];
  if (std::shared_ptr<LoadedKernels> found = place.lock()) return found;
  TUTTI_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::open(ordinal));
  std::shared_ptr<LoadedKernels> made(new LoadedKernels(std::move(device)));
  TUTTI_TRY(made->load(kernels));
  place = made;
  return made;
}

// All at once: a driver that loads a kernel at its first launch may wait for the device, where something may wait for
// that launch.
Status LoadedKernels::load(const KernelSet& kernels) {
  const CudaScope scope(*device_);
  const Driver& driver = device_->driver();
  const Error error = driver.cuModuleLoadData(&module_, kernels.image);
  if (error != kSuccess) {
    return invalidUsage(ErrorCode::NoKernels, "this build has no kernels of ", kernels.what, " for CUDA device ",
                        device_->ordinal(), " (error ", error, "; see the build options cuda and gpu_archs)");
  }
  functions_.resize(kernels.names.size());
  for (size_t k = 0; k < functions_.size(); ++k) {
    const char* name = kernels.names[k];
    TUTTI_TRY(check(driver, driver.cuModuleGetFunction(&functions_[k], module_, name), name));
  }
  return {};
}

LoadedKernels::~LoadedKernels() {
  const CudaScope scope(*device_);
  if (!rooms_.empty()) device_->driver().cuCtxSynchronize();
  rooms_.clear();
  if (module_ != nullptr) device_->driver().cuModuleUnload(module_);
}

Result<void*> LoadedKernels::scratch(Stream stream, size_t bytes) {
  const std::lock_guard lock(mutex_);
  DeviceMemory& room = rooms_[{stream, std::this_thread::get_id()}];
  if (room.bytes() < bytes || room.bytes() == 0) {
    TUTTI_TRY(room.freeOn(stream));
    TUTTI_ASSIGN(room, DeviceMemory::allocateOn(stream, device_, std::max(bytes, size_t{1})));
  }
  return static_cast<void*>(room.data());
}

}  // namespace tutti::cuda
