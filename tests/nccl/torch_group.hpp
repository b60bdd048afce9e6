// What stands for PyTorch in torch_client.cpp: a store that processes share, memory and streams, tensors, a
// communicator as NCCLComm, and ProcessGroupNCCL.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "tests/nccl/client.h"
#include "tests/nccl/memory.h"

#include <time.h>

namespace torch_client {

constexpr int kMostIds = 64;

inline void nap() {
  const timespec half{0, 500'000};
  nanosleep(&half, nullptr);
}

/// What torch's TCPStore is for here: ids by number, in memory that all processes see.
struct Store {
  struct Slot {
    std::atomic<int> filled{0};
    ncclUniqueId id;
  };
  Slot slots[kMostIds];
  std::atomic<int> begun{0}, arrived{0}, flag{0};

  /// The id of that number, which the rank that is `first` makes.
  ncclUniqueId share(int number, bool first) {
    Slot& slot = slots[number];
    if (first) {
      NCCL(ncclGetUniqueId(&slot.id));
      slot.filled.store(1, std::memory_order_release);
    }
    while (slot.filled.load(std::memory_order_acquire) == 0) nap();
    return slot.id;
  }
};

/// Memory and streams: the host's with streams of Tutti's, or CUDA device 0's.
class Device {
 public:
  explicit Device(bool onDevice) : memory_(openMemory(onDevice ? 1 : 0, 0)) {
    if (onDevice) return;
    create_ = reinterpret_cast<int (*)(cudaStream_t*)>(dlsym(RTLD_DEFAULT, "tuttiStreamCreate"));
    wait_ = reinterpret_cast<int (*)(cudaStream_t)>(dlsym(RTLD_DEFAULT, "tuttiStreamSynchronize"));
    destroy_ = reinterpret_cast<int (*)(cudaStream_t)>(dlsym(RTLD_DEFAULT, "tuttiStreamDestroy"));
    CHECK(create_ != nullptr && wait_ != nullptr && destroy_ != nullptr);
  }

  cudaStream_t newStream() const {
    cudaStream_t stream = nullptr;
    if (memory_.onDevice) return static_cast<cudaStream_t>(openMemory(1, 0).stream);
    CHECK(create_(&stream) == 0);
    return stream;
  }
  int wait(cudaStream_t stream) const { return memory_.onDevice ? memory_.wait(stream) : wait_(stream); }
  void release(cudaStream_t stream) const {
    if (!memory_.onDevice) CHECK(destroy_(stream) == 0);
  }
  const Memory* memory() const { return &memory_; }

 private:
  Memory memory_;
  int (*create_)(cudaStream_t*) = nullptr;
  int (*wait_)(cudaStream_t) = nullptr;
  int (*destroy_)(cudaStream_t) = nullptr;
};

/// Numbers where a rank computes.
template <class T>
class Tensor {
 public:
  Tensor(const Device& device, size_t count, T value) : Tensor(device, std::vector<T>(count, value)) {}
  Tensor(const Device& device, std::vector<T> values) : memory_(device.memory()), count_(values.size()) {
    data_ = static_cast<T*>(allocateBytes(memory_, bytes()));
    set(values);
  }
  ~Tensor() { releaseBytes(memory_, data_); }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  T* at(size_t index = 0) { return data_ + index; }
  size_t count() const { return count_; }
  size_t bytes() const { return (count_ > 0 ? count_ : 1) * sizeof(T); }
  void set(const std::vector<T>& values) {
    if (!values.empty()) copyBytes(memory_, data_, values.data(), values.size() * sizeof(T));
  }
  std::vector<T> values() const {
    std::vector<T> out(count_);
    if (count_ > 0) copyBytes(memory_, out.data(), data_, count_ * sizeof(T));
    return out;
  }

 private:
  const Memory* memory_;
  size_t count_;
  T* data_;
};

/// NCCLComm: a communicator whose every call may be under way when it returns.
struct Communicator {
  ncclComm_t handle = nullptr;

  ncclResult_t settle(ncclResult_t result) const {
    while (result == ncclInProgress) {
      nap();
      NCCL(ncclCommGetAsyncError(handle, &result));
    }
    return result;
  }
  void ready() const { NCCL(settle(ncclInProgress)); }
  void finalizeAndDestroy() {
    const ncclResult_t begun = ncclCommFinalize(handle);
    CHECK(begun == ncclSuccess || begun == ncclInProgress);
    ready();
    NCCL(ncclCommDestroy(handle));
    handle = nullptr;
  }
};

inline ncclConfig_t configOf(bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  config.splitShare = 1;
  config.commName = "torch";
  config.cgaClusterSize = 2;
  config.trafficClass = 3;
  config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  return config;
}

/// ProcessGroupNCCL on one device: a communicator and its stream.
class ProcessGroup {
 public:
  ProcessGroup(const Device& where, int number, int ranks, const ncclUniqueId& id, bool blocking)
      : device(where), rank(number), size(ranks), stream(where.newStream()) {
    ncclConfig_t config = configOf(blocking);
    const ncclResult_t begun = ncclCommInitRankConfig(&comm.handle, size, id, rank, &config);
    if (begun != ncclInProgress || blocking) NCCL(begun);
    comm.ready();
  }
  /// new_group of those with a color, which all ranks of the parent take part in.
  ProcessGroup(ProcessGroup* parent, int color, int number, int ranks, bool blocking)
      : device(parent->device), rank(number), size(ranks), stream(device.newStream()) {
    ncclConfig_t config = configOf(blocking);
    NCCL(parent->comm.settle(ncclCommSplit(parent->comm.handle, color, rank, &comm.handle, &config)));
    CHECK((comm.handle == nullptr) == (color == NCCL_SPLIT_NOCOLOR));
    if (comm.handle != nullptr) comm.ready();
  }
  ~ProcessGroup() {
    if (comm.handle != nullptr) comm.finalizeAndDestroy();
    device.release(stream);
  }
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  /// A collective alone; coalesced ones stand between start() and end().
  void call(ncclResult_t result) const { NCCL(comm.settle(result)); }
  void start() const { NCCL(ncclGroupStart()); }
  void end() const { NCCL(comm.settle(ncclGroupEnd())); }
  void wait() const { CHECK(device.wait(stream) == 0); }

  void barrier() const {
    Tensor<uint8_t> one(device, 1, uint8_t{1});
    call(ncclAllReduce(one.at(), one.at(), 1, ncclUint8, ncclSum, comm.handle, stream));
    wait();
    CHECK(one.values()[0] == size);
  }

  const Device& device;
  const int rank, size;
  Communicator comm;
  const cudaStream_t stream;
};

}  // namespace torch_client
