#include "src/parallel/memory.hpp"

#include "src/device/cuda/device.hpp"
#include "src/parallel/cublaslt.hpp"
#include "src/parallel/launch.hpp"

namespace tutti::parallel {

int kindOf(int64_t device) {
  require(device == TUTTI_DEVICE_AUTO || device == TUTTI_DEVICE_HOST || device == TUTTI_DEVICE_CUDA,
          "there is no kind of device ", device);
  return device == TUTTI_DEVICE_CUDA ? TUTTI_DEVICE_CUDA : TUTTI_DEVICE_HOST;
}

Held& heldByThread() {
  thread_local Held held;
  return held;
}

Device& hostDevice() {
  static const std::shared_ptr<Device> host = openHost(layerKernels());
  return *host;
}

std::shared_ptr<Device> deviceOf(tuttiComm_t comm, int tensorKind) {
  int ordinal = Device::kHost;
  if (comm != nullptr) {
    check(tuttiCommCuDevice(comm, &ordinal), comm);
  } else if (tensorKind == TUTTI_DEVICE_CUDA) {
    ordinal = orThrow(cuda::currentDevice());
  }
  if (ordinal < 0) return {&hostDevice(), [](Device*) {}};
  struct Opened {
    std::shared_ptr<CublasLt> products;
    std::shared_ptr<Device> device;  // last: ends before what it multiplies with
  };
  const std::shared_ptr<Opened> opened(new Opened{CublasLt::of(ordinal), orThrow(openCuda(ordinal, layerKernels()))});
  return {opened, opened->device.get()};
}

}  // namespace tutti::parallel

tuttiResult_t tuttiParallelSetStream(tuttiStream_t stream) {
  tutti::setThreadStream(stream);
  return tuttiSuccess;
}
