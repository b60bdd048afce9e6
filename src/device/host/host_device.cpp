// The host as a Device: loops over memory of this process.
#include <cstring>
#include <new>
#include <vector>

#include "src/device/device.hpp"

namespace tutti {
namespace {

/// Safe for threads: it has no state but the kernels.
class HostDevice final : public Device {
 public:
  explicit HostDevice(const KernelSet& kernels) : Device(kHost), kernels_(kernels) {}

  Result<tuttiStream_t> stream() override { return tuttiStream_t{}; }
  Result<tuttiStream_t> ownStream() override { return tuttiStream_t{}; }
  Result<void*> allocate(size_t bytes) override {
    void* memory = bytes == 0 ? nullptr : ::operator new(bytes, std::nothrow);
    if (memory == nullptr && bytes != 0)
      return systemError(ErrorCode::NoMemory, "the host has no ", bytes, " bytes left");
    return memory;
  }
  void release(void* memory) noexcept override { ::operator delete(memory); }
  Status trim() override { return {}; }
  Result<void*> scratch(size_t bytes) override {
    thread_local std::vector<char> room(1);
    if (room.size() < bytes) room.resize(bytes);
    return static_cast<void*>(room.data());
  }
  Status copy(void* to, const void* from, size_t bytes) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
    return {};
  }
  Status zero(void* at, size_t bytes) override {
    if (bytes != 0) std::memset(at, 0, bytes);
    return {};
  }
  Status launch(size_t kernel, const void* argument, uint64_t) override {
    kernels_.functions[kernel](argument);
    return {};
  }
  Result<Mark> mark() override { return Mark(); }
  Result<bool> done(const Mark&) override { return true; }
  Status follow(const Mark&) override { return {}; }
  Result<Mark> beside(const std::function<void()>& task) override {
    task();
    return Mark();
  }
  Status wait() override { return {}; }

 private:
  KernelSet kernels_;
};

}  // namespace

std::shared_ptr<Device> openHost(const KernelSet& kernels) { return std::make_shared<HostDevice>(kernels); }

}  // namespace tutti
