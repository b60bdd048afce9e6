// One rank, a thread: its device, stream, buffers and communicator, and the measurements that it makes with the others.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>

#include "perf/gpu/cases.hpp"
#include "perf/gpu/measure.hpp"
#include "perf/gpu/options.hpp"

namespace tutti::gpuperf {

inline void must(const Status& status) {
  if (!status.ok()) stop(status.message());
}

/// What all ranks of one run share.
struct Run {
  const Options& options;
  const Library& library;
  Limits limits;
  int nRanks;
  int64_t endNs;
  tuttiUniqueId id{};
  std::barrier<> barrier;
  std::atomic<bool> over = false;
  std::mutex mutex;
  std::string refusal;  // why there is no communicator; empty if there is one

  Run(const Options& o, const Library& l, const Limits& best, int n, int64_t end)
      : options(o), library(l), limits(best), nRanks(n), endNs(end), barrier(n) {}
};

class Rank {
 public:
  Rank(Run& run, int rank)
      : run_(run),
        rank_(rank),
        device_(open(run.options.devices[static_cast<size_t>(rank) % run.options.devices.size()])),
        scope_(*device_) {
    must(cuda::check(driver(), driver().cuStreamCreate(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate"));
    const size_t bytes = std::max(run.options.maxBytes, size_t{4096}) + 64;
    send_ = allocate(bytes);
    recv_ = allocate(bytes);
  }
  ~Rank() {
    if (comm_ != nullptr) check(library().commDestroy(comm_));
    driver().cuStreamDestroy(stream_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// Join the others and measure everything, or note why that cannot be.
  void measureAll() {
    if (!join()) return;
    for (const Case& c : kCases) {
      if (!c.has(library()) || (!run_.options.only.empty() && run_.options.only != c.name)) continue;
      for (size_t bytes = run_.options.minBytes; bytes <= run_.options.maxBytes; bytes *= 4) {
        if (rank_ == 0) run_.over = nowNs() > run_.endNs;
        run_.barrier.arrive_and_wait();
        if (run_.over) return;
        measure(c, bytes);
      }
    }
  }

 private:
  static std::shared_ptr<cuda::CudaDevice> open(int ordinal) {
    auto device = cuda::CudaDevice::open(ordinal);
    must(device.ok() ? Status() : device.status());
    return *device;
  }
  cuda::DeviceMemory allocate(size_t bytes) const {
    auto memory = cuda::DeviceMemory::allocate(device_, bytes);
    must(memory.ok() ? Status() : memory.status());
    return std::move(*memory);
  }
  const Library& library() const { return run_.library; }
  const cuda::Driver& driver() const { return device_->driver(); }
  void synchronize() const {
    must(cuda::check(driver(), driver().cuStreamSynchronize(stream_), "cuStreamSynchronize"));
  }
  void check(tuttiResult_t result) const {
    if (result != tuttiSuccess) stop(library().name + ": " + library().getLastError(comm_));
  }

  /// False on all ranks if it fails on one.
  bool join() {
    if (library().commInitRank(&comm_, run_.nRanks, run_.id, rank_) != tuttiSuccess) {
      const std::lock_guard lock(run_.mutex);
      run_.refusal = library().getLastError(nullptr);
      if (run_.refusal.empty()) run_.refusal = "it says nothing of the reason";
      comm_ = nullptr;
    }
    run_.barrier.arrive_and_wait();
    return run_.refusal.empty();
  }

  void measure(const Case& c, size_t bytes) {
    const auto n = static_cast<size_t>(run_.nRanks);
    size_t count = bytes / sizeof(float);
    if (c.blocks) count = count / n * n;
    if (count == 0) return;
    const Place place{&library(),
                      comm_,
                      reinterpret_cast<tuttiStream_t>(stream_),
                      reinterpret_cast<float*>(send_.data()),
                      reinterpret_cast<float*>(recv_.data()),
                      count,
                      rank_,
                      run_.nRanks};
    const std::string wrong = verify(c, place);
    const int calls = std::min(run_.options.calls, bytes <= (1 << 20) ? 50 : bytes <= (64 << 20) ? 20 : 5);
    for (int i = 0; i < 3; ++i) check(c.call(place));
    synchronize();
    double bestUs = 1e12;
    const int rounds = calls == 1 ? 50 : 3;  // one call is disturbed more often
    for (int round = 0; round < rounds; ++round) {
      run_.barrier.arrive_and_wait();
      const int64_t begin = nowNs();
      for (int i = 0; i < calls; ++i) check(c.call(place));
      synchronize();
      run_.barrier.arrive_and_wait();  // the slowest rank's time counts
      bestUs = std::min(bestUs, static_cast<double>(nowNs() - begin) / 1e3 / calls);
    }
    if (!wrong.empty()) stop(wrong);
    if (rank_ == 0) print(c, count * sizeof(float), bestUs);
  }

  /// The result of a call on known input, at both ends and in the middle; empty if it is right.
  std::string verify(const Case& c, const Place& place) const {
    const float mine = static_cast<float>(rank_ + 1);
    uint32_t word;
    std::memcpy(&word, &mine, sizeof word);
    must(cuda::check(driver(), driver().cuMemsetD32Async(send_.address(), word, place.count, stream_), "fill"));
    must(cuda::check(driver(), driver().cuMemsetD32Async(recv_.address(), 0, place.count, stream_), "fill"));
    check(c.call(place));
    for (const size_t i : {size_t{0}, place.count / 2, place.count - 1}) {
      const float want = c.expected(rank_, place.nRanks, i, place.count);
      float got = 0;
      const cuda::Address from = recv_.address() + i * sizeof got;
      must(cuda::check(driver(), driver().cuMemcpyAsync(cuda::addressOf(&got), from, sizeof got, stream_),
                       "cuMemcpyAsync"));
      synchronize();
      if (want >= 0 && got != want) {
        return library().name + " " + c.name + " of " + std::to_string(place.count) + " floats on " +
               std::to_string(place.nRanks) + " ranks: element " + std::to_string(i) + " of rank " +
               std::to_string(rank_) + " is " + std::to_string(got) + " instead of " + std::to_string(want);
      }
    }
    return "";
  }

  void print(const Case& c, size_t bytes, double us) const {
    const double n = run_.nRanks;
    const double algGBps = static_cast<double>(bytes) / us / 1e3;
    // Traffic is of all ranks, and they share the devices' bandwidth.
    const double devices = std::min(n, static_cast<double>(run_.options.devices.size()));
    std::printf("%s\t%s\t%d\t%zu\t%.2f\t%.2f\t%.3f\t%.2f\n", library().name.c_str(), c.name, run_.nRanks, bytes, us,
                algGBps * c.busFactor(n), algGBps * c.traffic(n) / devices / run_.limits.copyGBps,
                us / run_.limits.launchUs);
    std::fflush(stdout);
  }

  Run& run_;
  int rank_;
  std::shared_ptr<cuda::CudaDevice> device_;
  cuda::CudaScope scope_;
  cuda::Stream stream_ = nullptr;
  cuda::DeviceMemory send_, recv_;
  tuttiComm_t comm_ = nullptr;
};

}  // namespace tutti::gpuperf
