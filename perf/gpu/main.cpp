// gpu_bench: collectives of ranks that are threads and share one device.  See README.md.
#include <atomic>
#include <barrier>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "perf/gpu/cases.hpp"
#include "perf/gpu/measure.hpp"

using namespace tutti;
using namespace tutti::gpuperf;

namespace {

struct Options {
  std::vector<int> ranks{1, 2, 4, 8};
  size_t minBytes = 8;
  size_t maxBytes = size_t{1} << 30;
  double seconds = 240;  // no case is begun after that
  int device = 0;
};

[[noreturn]] void stop(const std::string& why) {
  std::fprintf(stderr, "gpu_bench: %s\n", why.c_str());
  std::exit(1);
}

size_t parseBytes(const char* text) {
  char* end = nullptr;
  const size_t number = std::strtoull(text, &end, 10);
  const size_t unit = *end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : *end == 'G' ? 1 << 30 : 1;
  if (number == 0) stop(std::string("not a size: ") + text);
  return number * unit;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--ranks") {
      o.ranks.clear();
      for (const char* at = argv[i + 1]; at != nullptr; at = std::strchr(at, ',')) {
        o.ranks.push_back(std::atoi(*at == ',' ? ++at : at));
        if (o.ranks.back() < 1 || o.ranks.back() > 16) stop("1 to 16 ranks");
      }
    } else if (name == "--min") {
      o.minBytes = parseBytes(argv[i + 1]);
    } else if (name == "--max") {
      o.maxBytes = parseBytes(argv[i + 1]);
    } else if (name == "--seconds") {
      o.seconds = std::atof(argv[i + 1]);
    } else if (name == "--device") {
      o.device = std::atoi(argv[i + 1]);
    } else {
      stop("unknown option " + name + "; there are --ranks --min --max --seconds --device");
    }
  }
  if (argc % 2 == 0) stop(std::string("what is the value of ") + argv[argc - 1] + "?");
  return o;
}

void must(const Status& status) {
  if (!status.ok()) stop(status.message());
}
void must(tuttiResult_t result, tuttiComm_t comm) {
  if (result != tuttiSuccess) stop(tuttiGetLastError(comm));
}

/// What all ranks of one run share.
struct Run {
  const Options& options;
  Limits limits;
  int nRanks;
  int64_t endNs;
  std::barrier<> barrier;
  std::atomic<bool> over = false;

  Run(const Options& o, const Limits& l, int n, int64_t end)
      : options(o), limits(l), nRanks(n), endNs(end), barrier(n) {}
};

class Rank {
 public:
  Rank(Run& run, int rank, const tuttiUniqueId& id)
      : run_(run), rank_(rank), device_(open(run.options.device)), scope_(*device_) {
    must(cuda::check(driver(), driver().cuStreamCreate(&stream_, cuda::kStreamNonBlocking), "cuStreamCreate"));
    const size_t bytes = std::max(run.options.maxBytes, size_t{4096}) + 64;
    send_ = allocate(bytes);
    recv_ = allocate(bytes);
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_CUDA;
    must(tuttiCommInitRankConfig(&comm_, run.nRanks, id, rank, &config), nullptr);
  }
  ~Rank() {
    must(tuttiCommDestroy(comm_), nullptr);
    driver().cuStreamDestroy(stream_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  void measureAll() {
    for (const Case& c : kCases) {
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
  const cuda::Driver& driver() const { return device_->driver(); }
  void synchronize() const {
    must(cuda::check(driver(), driver().cuStreamSynchronize(stream_), "cuStreamSynchronize"));
  }

  void measure(const Case& c, size_t bytes) {
    const auto n = static_cast<size_t>(run_.nRanks);
    size_t count = bytes / sizeof(float);
    if (c.blocks) count = count / n * n;
    if (count == 0) return;
    const Place place{comm_,
                      reinterpret_cast<tuttiStream_t>(stream_),
                      reinterpret_cast<float*>(send_.data()),
                      reinterpret_cast<float*>(recv_.data()),
                      count,
                      rank_,
                      run_.nRanks};
    const std::string wrong = verify(c, place);
    const int calls = bytes <= (1 << 20) ? 50 : bytes <= (64 << 20) ? 20 : 5;
    for (int i = 0; i < 3; ++i) must(c.call(place), comm_);
    synchronize();
    double bestUs = 1e12;
    for (int round = 0; round < 3; ++round) {
      run_.barrier.arrive_and_wait();
      const int64_t begin = nowNs();
      for (int i = 0; i < calls; ++i) must(c.call(place), comm_);
      synchronize();
      run_.barrier.arrive_and_wait();  // the slowest rank's time counts
      bestUs = std::min(bestUs, static_cast<double>(nowNs() - begin) / 1e3 / calls);
    }
    if (!wrong.empty()) stop(wrong);
    if (rank_ == 0) print(c, count * sizeof(float), bestUs);
  }

  /// The result of a call on known input, at both ends and in the middle.
  std::string verify(const Case& c, const Place& place) const {
    const float mine = static_cast<float>(rank_ + 1);
    uint32_t word;
    std::memcpy(&word, &mine, sizeof word);
    must(cuda::check(driver(), driver().cuMemsetD32Async(send_.address(), word, place.count, stream_), "fill"));
    must(cuda::check(driver(), driver().cuMemsetD32Async(recv_.address(), 0, place.count, stream_), "fill"));
    must(c.call(place), comm_);
    for (const size_t i : {size_t{0}, place.count / 2, place.count - 1}) {
      const float want = c.expected(rank_, place.nRanks, i, place.count);
      float got = 0;
      must(cuda::check(
          driver(),
          driver().cuMemcpyAsync(cuda::addressOf(&got), recv_.address() + i * sizeof got, sizeof got, stream_),
          "cuMemcpyAsync"));
      synchronize();
      if (want >= 0 && got != want) {
        return std::string(c.name) + " of " + std::to_string(place.count) + " floats on " +
               std::to_string(place.nRanks) + " ranks: element " + std::to_string(i) + " of rank " +
               std::to_string(rank_) + " is " + std::to_string(got) + " instead of " + std::to_string(want);
      }
    }
    return "";
  }

  void print(const Case& c, size_t bytes, double us) const {
    const double n = run_.nRanks;
    const double algGBps = static_cast<double>(bytes) / us / 1e3;
    std::printf("%s\t%d\t%zu\t%.2f\t%.2f\t%.3f\t%.2f\n", c.name, run_.nRanks, bytes, us, algGBps * c.busFactor(n),
                algGBps * c.traffic(n) / run_.limits.copyGBps, us / run_.limits.launchUs);
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

Limits limitsOf(const Options& options) {
  auto device = cuda::CudaDevice::open(options.device);
  must(device.ok() ? Status() : device.status());
  const cuda::CudaScope scope(**device);
  cuda::Stream stream = nullptr;
  const cuda::Driver& driver = (*device)->driver();
  must(cuda::check(driver, driver.cuStreamCreate(&stream, cuda::kStreamNonBlocking), "cuStreamCreate"));
  const auto limits = measureLimits(*device, stream, std::min(options.maxBytes, size_t{1} << 30));
  must(limits.ok() ? Status() : limits.status());
  driver.cuStreamDestroy(stream);
  return *limits;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int64_t endNs = nowNs() + static_cast<int64_t>(options.seconds * 1e9);
  const Limits limits = limitsOf(options);
  std::printf("# copy %.1f GB/s (read and written), empty launch %.2f us\n", limits.copyGBps, limits.launchUs);
  std::printf("# collective\tranks\tbytes\tus\tbusbw GB/s\tof copy bandwidth\tof a launch\n");
  for (const int nRanks : options.ranks) {
    Run run(options, limits, nRanks, endNs);
    tuttiUniqueId id;
    must(tuttiGetUniqueId(&id), nullptr);
    std::vector<std::thread> threads;
    for (int r = 0; r < nRanks; ++r) {
      threads.emplace_back([&, r] { Rank(run, r, id).measureAll(); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return 0;
}
