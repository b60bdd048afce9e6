// The devices that layers compute on, and memory there.  Errors of devices become exceptions here (fail.hpp).
#pragma once

#include <utility>

#include "src/device/device.hpp"
#include "src/parallel/fail.hpp"

namespace tutti::parallel {

using tutti::Device;  // for C entry points, which are in no namespace

inline void orThrow(const Status& status) {
  if (!status.ok()) throw Failure{status.code(), status.text()};
}
template <class T>
T orThrow(Result<T> result) {
  if (!result.ok()) orThrow(result.status());
  return std::move(*result);
}

/// The one device that is always there.
Device& hostDevice();
/// The device of a communicator's rank; without one, that of tensors of this kind: the host, or the CUDA device that is
/// current on this thread.  Throws where there is no such device, or not the means to compute on it.
std::shared_ptr<Device> deviceOf(tuttiComm_t comm, int tensorKind);

/// As in tensors: TUTTI_DEVICE_HOST or TUTTI_DEVICE_CUDA.
inline int kindOf(const Device& device) { return device.onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA; }
/// The kind of tensors that a config's field `device` asks for where there is no communicator; throws for other values
/// than tuttiDevice_t's.
int kindOf(int64_t configDevice);

inline tuttiStream_t streamOf(Device& device) { return orThrow(device.stream()); }
inline void copyBytes(Device& device, void* to, const void* from, size_t bytes) {
  orThrow(device.copy(to, from, bytes));
}
inline void zeroBytes(Device& device, void* at, size_t bytes) { orThrow(device.zero(at, bytes)); }
inline void putBytes(Device& device, void* to, const void* host, size_t bytes) { orThrow(device.put(to, host, bytes)); }
inline void getBytes(Device& device, void* host, const void* from, size_t bytes) {
  orThrow(device.get(host, from, bytes));
}

/// Bytes that Arrays made and ended on this thread hold, and the most so far.
struct Held {
  int64_t now = 0, most = 0;
  void change(int64_t bytes) {
    now += bytes;
    most = most < now ? now : most;
  }
};
Held& heldByThread();

/// n elements of a device's memory with one owner, who ends before the device.
template <class T>
class Array {
 public:
  enum Contents { Zeros, Any };
  Array() = default;
  Array(Device& device, size_t n, Contents contents = Zeros) : device_(&device), size_(n) {
    data_ = static_cast<T*>(orThrow(device.allocate(n * sizeof(T))));
    heldByThread().change(static_cast<int64_t>(n * sizeof(T)));
    if (contents == Zeros) clear();
  }
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    Array taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Array() {
    if (data_ == nullptr) return;
    heldByThread().change(-static_cast<int64_t>(size_ * sizeof(T)));
    device_->release(data_);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() {
    if (device_ != nullptr) zeroBytes(*device_, data_, size_ * sizeof(T));
  }

 private:
  void swap(Array& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tutti::parallel
