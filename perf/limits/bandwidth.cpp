#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "perf/limits/measure.hpp"

namespace tutti::limits {
namespace {

constexpr size_t kSizes[] = {16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
// A buffer is walked in pieces that are timed each for itself, small ones several times at once: on a machine that
// others use, hardly any longer stretch is undisturbed.
constexpr size_t kPiece = 1 << 20;
constexpr int kTrials = 24;
constexpr double kLongestTrialUs = 20000;  // after a few trials, enough for buffers of this size

void copyPlain(float* out, const float* a, const float*, size_t count) { std::memcpy(out, a, count * sizeof(float)); }

WIDEST void addPlain(float* __restrict out, const float* __restrict a, const float* __restrict b, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

WIDEST void addInPlace(float* __restrict out, const float* __restrict a, const float*, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] += a[i];
}

#if defined(__SSE2__)
// Stores that pass the caches: no line is read in order to be overwritten.
void copyStreaming(float* out, const float* a, const float*, size_t count) {
  for (size_t i = 0; i < count; i += 4) _mm_stream_ps(out + i, _mm_load_ps(a + i));
  _mm_sfence();
}

void addStreaming(float* out, const float* a, const float* b, size_t count) {
  for (size_t i = 0; i < count; i += 4) _mm_stream_ps(out + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
  _mm_sfence();
}
#endif

struct Kernel {
  const char* name;
  void (*run)(float*, const float*, const float*, size_t);
  int streams;  // reads and writes per byte of output
};

constexpr Kernel kKernels[] = {
    {"copy", copyPlain, 2},        {"add", addPlain, 3},        {"add_in_place", addInPlace, 3},
#if defined(__SSE2__)
    {"copy_nt", copyStreaming, 2}, {"add_nt", addStreaming, 3},
#endif
};

float* pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<float*>(p);
}

struct Buffers {
  explicit Buffers(size_t size) : bytes(size), out(pages(size)), a(pages(size)), b(pages(size)) {}
  ~Buffers() {
    for (float* p : {out, a, b}) {
      if (p != nullptr) munmap(p, bytes);
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  bool usable() const { return out != nullptr && a != nullptr && b != nullptr; }
  size_t bytes;
  float *out, *a, *b;
};

// GB/s of traffic of all threads, which work at the same time, each on its own buffers.
class Trial {
 public:
  Trial(const Kernel& kernel, size_t bytes, const std::vector<int>& cpus) : kernel_(kernel), bytes_(bytes) {
    times_.assign(cpus.size(), 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < cpus.size(); ++t) threads.emplace_back([this, t, &cpus] { work(t, cpus[t], cpus.size()); });
    for (std::thread& thread : threads) thread.join();
  }

  double traffic() const {
    double sum = 0;
    for (const double us : times_) sum += us <= 0 ? 0 : static_cast<double>(bytes_) * kernel_.streams / us / 1e3;
    return sum;
  }

 private:
  void work(size_t t, int cpu, size_t threads) {
    pinTo(cpu);
    Buffers buffers(bytes_);
    if (!buffers.usable()) failed_ = true;
    const size_t piece = std::min(bytes_, kPiece), pieces = bytes_ / piece, repeat = kPiece / piece;
    const size_t count = piece / sizeof(float);
    std::vector<double> best(pieces, 1e30);
    double spent = 0;
    for (int i = 0; i < kTrials; ++i) {
      arrived_.fetch_add(1);
      while (arrived_.load() < static_cast<int>(threads) * (i + 1)) std::this_thread::yield();
      if (failed_ || (i >= 6 && spent > 6 * kLongestTrialUs)) continue;
      for (size_t p = 0; p < pieces; ++p) {
        const size_t at = p * count;
        const double start = nowUs();
        for (size_t c = 0; c < repeat; ++c) kernel_.run(buffers.out + at, buffers.a + at, buffers.b + at, count);
        const double us = nowUs() - start;
        best[p] = std::min(best[p], us / static_cast<double>(repeat));
        spent += us;
      }
    }
    for (const double us : best) times_[t] += failed_ ? 0 : us;
  }

  const Kernel& kernel_;
  size_t bytes_;
  std::vector<double> times_;
  std::atomic<int> arrived_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace

void measureBandwidth(const std::vector<int>& cpus) {
  // One thread, all of them, and powers of two between.
  std::vector<size_t> counts;
  for (size_t n = 1; n < cpus.size(); n *= 2) counts.push_back(n);
  counts.push_back(cpus.size());
  for (const Kernel& kernel : kKernels) {
    for (const size_t threads : counts) {
      for (const size_t bytes : kSizes) {
        const std::vector<int> used(cpus.begin(), cpus.begin() + static_cast<std::ptrdiff_t>(threads));
        const double traffic = Trial(kernel, bytes, used).traffic();
        if (traffic > 0) {
          std::printf("bandwidth kernel=%s threads=%zu bytes=%zu traffic=%.3f\n", kernel.name, threads, bytes, traffic);
        }
      }
      std::fflush(stdout);
    }
  }
}

}  // namespace tutti::limits
