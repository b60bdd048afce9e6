// Tests of the training layers on CUDA: the driver under them, and tensors on the host or a device.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <memory>

#include "src/device/cuda/driver.hpp"
#include "tests/support/variable.hpp"
#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/zero.h"

namespace tutti::test {

/// What tests/fake_cuda exports beside the driver; NULL on a real one.
template <class Call>
Call ofFake(const char* name) {
  return reinterpret_cast<Call>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}
inline void resetDriver(const char* settings) {
  if (const auto reset = ofFake<void (*)(const char*)>("fakeCudaReset")) reset(settings);
}
inline std::string driverComplaints() {
  const auto complaints = ofFake<const char* (*)()>("fakeCudaComplaints");
  return complaints == nullptr ? "" : complaints();
}
inline int callsOf(std::initializer_list<const char*> names) {
  const auto calls = ofFake<int (*)(const char*)>("fakeCudaCalls");
  int sum = 0;
  for (const char* name : names) sum += calls == nullptr ? 0 : calls(name);
  return sum;
}
inline bool hasDevices(int n) {
  int count = 0;
  const Result<const cuda::Driver*> driver = cuda::driver();
  return driver.ok() && (*driver)->cuDeviceGetCount(&count) == cuda::kSuccess && count >= n;
}

/// A test's driver, in turn: with these settings, by whatever way calls then go; and by proxies on one device, whose
/// streams wait for the other ranks to come to a call, where everything that may wait for the device does.
inline Variable eachDriver(const char* settings) {
  const bool proxies = GENERATE(false, true);
  resetDriver(proxies ? "devices=1;sync=1" : settings);
  return Variable("TUTTI_CUDA_EXECUTOR", proxies ? "proxy" : "auto");
}

/// Where a rank keeps its tensors: the host, or a CUDA device, which is current then, and a stream of its own.
class Place {
 public:
  static constexpr int kHost = -1;
  explicit Place(int ordinal) : ordinal_(ordinal) {
    if (onHost()) return;
    d().cuDevicePrimaryCtxRetain(&context_, ordinal);
    d().cuCtxPushCurrent(context_);
    d().cuStreamCreate(&stream_, cuda::kStreamNonBlocking);
    tuttiParallelSetStream(reinterpret_cast<tuttiStream_t>(stream_));
  }
  ~Place() {
    if (onHost()) return;
    tuttiParallelSetStream(nullptr);
    d().cuStreamSynchronize(stream_);
    for (const cuda::Address memory : memory_) d().cuMemFree(memory);
    d().cuStreamDestroy(stream_);
    cuda::Context popped = nullptr;
    d().cuCtxPopCurrent(&popped);
    d().cuDevicePrimaryCtxRelease(ordinal_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool onHost() const { return ordinal_ == kHost; }
  tuttiConfig_t config() const {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
    return config;
  }

  /// A copy of `values` that lives as long as this.
  tuttiTensor_t hold(const std::vector<float>& values) {
    host_.push_back(std::make_unique<std::vector<float>>(values));
    tuttiTensor_t t = vector(*host_.back());
    if (onHost() || values.empty()) {
      t.device = onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
      return t;
    }
    cuda::Address memory = 0;
    d().cuMemAllocAsync(&memory, values.size() * sizeof(float), stream_);
    memory_.push_back(memory);
    d().cuMemcpyAsync(memory, reinterpret_cast<cuda::Address>(values.data()), values.size() * sizeof(float), stream_);
    d().cuStreamSynchronize(stream_);
    t.data = reinterpret_cast<void*>(memory);
    t.device = TUTTI_DEVICE_CUDA;
    return t;
  }
  tuttiTensor_t holdInts(const std::vector<int32_t>& values) {
    std::vector<float> same(values.size());
    if (!values.empty()) std::memcpy(same.data(), values.data(), values.size() * sizeof(int32_t));
    tuttiTensor_t t = hold(same);
    t.dtype = tuttiInt32;
    return t;
  }
  /// n floats from one of its places to another, in the order of its stream.
  void copy(void* to, const void* from, size_t n) {
    if (onHost()) {
      std::memcpy(to, from, n * sizeof(float));
    } else {
      d().cuMemcpyAsync(reinterpret_cast<cuda::Address>(to), reinterpret_cast<cuda::Address>(from), n * sizeof(float),
                        stream_);
    }
  }
  /// What a tensor holds when the stream has done all that was enqueued.
  template <class T = float>
  std::vector<T> read(const tuttiTensor_t& t) {
    int64_t n = 1;
    for (int i = 0; i < t.nDims; ++i) n *= t.shape[i];
    std::vector<T> values(static_cast<size_t>(n));
    if (n == 0) return values;
    if (onHost()) {
      std::memcpy(values.data(), t.data, values.size() * sizeof(T));
      return values;
    }
    d().cuMemcpyAsync(reinterpret_cast<cuda::Address>(values.data()), reinterpret_cast<cuda::Address>(t.data),
                      values.size() * sizeof(T), stream_);
    d().cuStreamSynchronize(stream_);
    return values;
  }

 private:
  static const cuda::Driver& d() { return **cuda::driver(); }
  int ordinal_;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  std::vector<cuda::Address> memory_;
  std::vector<std::unique_ptr<std::vector<float>>> host_;
};

/// A matrix of numbers; seed 0: of zeros.
inline tuttiTensor_t held(Place& place, int64_t rows, int64_t columns, uint64_t seed) {
  tuttiTensor_t t = place.hold(seed == 0 ? std::vector<float>(static_cast<size_t>(rows * columns))
                                         : numbers<float>(static_cast<size_t>(rows * columns), seed));
  const tuttiTensor_t m = tuttiMatrixOf(t.data, tuttiFloat32, rows, columns, columns);
  t.nDims = 2;
  std::copy(m.shape, m.shape + TUTTI_MAX_DIMS, t.shape);
  std::copy(m.strides, m.strides + TUTTI_MAX_DIMS, t.strides);
  return t;
}
/// Rows or columns [begin, end) of a matrix of numbers.
inline tuttiTensor_t heldPart(Place& place, int64_t rows, int64_t columns, uint64_t seed, bool ofRows, int64_t begin,
                              int64_t end) {
  const std::vector<float> whole = numbers<float>(static_cast<size_t>(rows * columns), seed);
  tuttiTensor_t t = held(place, ofRows ? end - begin : rows, ofRows ? columns : end - begin, 0);
  const std::vector<float> part = ofRows ? rowsOf(whole, columns, begin, end) : columnsOf(whole, columns, begin, end);
  t.data = place.hold(part).data;
  return t;
}

/// Whether the driver under the tests is that of tests/fake_cuda, whose functions round as the host's do.
inline bool onFakeDriver() { return ofFake<void (*)(const char*)>("fakeCudaReset") != nullptr; }

/// to += by * from, wherever they are and in the order of calls: a step of plain gradient descent.
inline tuttiResult_t addTo(const tuttiTensor_t& to, const tuttiTensor_t& from, double by) {
  tuttiOptimizer_t o = TUTTI_OPTIMIZER_INITIALIZER;
  o.kind = tuttiSgd;
  o.learningRate = -by;
  o.weightDecay = 0;
  return tuttiOptimizerUpdate(&o, 1, 1, 0, &to, &from, nullptr, nullptr);
}

/// What a rank's pass left, one after another.
using Results = std::vector<float>;
using Pass = std::function<std::string(const Rank&, Place&, Results*)>;

/// `pass` on nRanks ranks, on the host (devices = 0) or on so many devices; every rank's results.  A rank that is alone
/// has no communicator.
inline std::string runPass(int nRanks, int devices, const Pass& pass, std::vector<Results>* results) {
  results->assign(static_cast<size_t>(nRanks), {});
  return onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) -> std::string {
    Place place(devices == 0 ? Place::kHost : rank % devices);
    Results* mine = &(*results)[static_cast<size_t>(rank)];
    if (nRanks == 1) return pass({0, 1, nullptr}, place, mine);
    return asRank(rank, nRanks, id, place.config(), [&](const Rank& r) { return pass(r, place, mine); });
  });
}

}  // namespace tutti::test
