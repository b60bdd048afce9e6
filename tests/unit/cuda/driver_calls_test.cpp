// What is asked of the driver: by the test driver's journal of calls, and on machines that a file describes.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <thread>

#include "src/device/cuda/virtual.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// Ranks that are threads meet here, and one of them does something while the others wait.
class Rendezvous {
 public:
  explicit Rendezvous(int n) : n_(n) {}
  void meet(const std::function<void()>& last) {
    std::unique_lock lock(mutex_);
    const int round = round_;
    if (++here_ == n_) {
      last();
      here_ = 0;
      ++round_;
      changed_.notify_all();
    } else {
      changed_.wait(lock, [&] { return round_ != round; });
    }
  }

 private:
  int n_, here_ = 0, round_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// The first line of the journal with one of the words in it, or "".
std::string lineWith(const std::string& journal, const std::vector<const char*>& words) {
  std::istringstream lines(journal);
  for (std::string line; std::getline(lines, line);) {
    for (const char* word : words) {
      if (line.find(word) != std::string::npos) return line;
    }
  }
  return "";
}

const std::vector<const char*> kStops = {"Synchronize", "cuMemAlloc", "cuMemFree", "cuMemCreate",  "cuMemMap",
                                         "cuMemUnmap",  "cuModule",   "cuIpc",     "cuLaunchHost", "cuCtxEnable"};

}  // namespace

TEST_CASE("a call that has been made before neither waits for the device nor takes memory of it") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident"));
  const Gpu gpu;
  if (FakeCuda::get().reset == nullptr) return;
  Rendezvous rendezvous(3);
  std::string journal;
  CHECK(onGpuRanks(3, 1, [&](const Rank& r, GpuRank& own) -> std::string {
          FloatBuffer x(60'000, 0, Memory::Other);
          const auto call = [&] {
            return tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiMax, r.comm, own.asTutti());
          };
          for (size_t i = 0; i < x.count(); ++i) x.set(i, 1);
          RANK_TRY(call());
          RANK_CHECK(own.synchronize().empty());
          rendezvous.meet([] { FakeCuda::get().reset(""); });
          for (int round = 0; round < 3; ++round) RANK_TRY(call());
          rendezvous.meet([&] { journal = FakeCuda::get().journal(); });
          return own.synchronize();
        }) == "");
  CAPTURE(journal);
  CHECK(journal != "");
  CHECK(lineWith(journal, kStops) == "");
}

TEST_CASE("a replay is one call of the driver, and nothing in it is the host's") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  const Gpu gpu;
  if (FakeCuda::get().reset == nullptr) return;
  Rendezvous rendezvous(2);
  std::string captured, replayed;
  CHECK(onGpuRanks(2, 1, [&](const Rank& r, GpuRank& own) -> std::string {
          FloatBuffer x(5000, 0, Memory::Other);
          for (size_t i = 0; i < x.count(); ++i) x.set(i, 1);
          const cuda::Driver& d = own.driver();
          cuda::Graph graph = nullptr;
          cuda::GraphExec exec = nullptr;
          rendezvous.meet([] { FakeCuda::get().reset(""); });
          RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
          RANK_TRY(tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, r.comm, own.asTutti()));
          RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
          rendezvous.meet([&] { captured = FakeCuda::get().journal(); });
          RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
          rendezvous.meet([] { FakeCuda::get().reset(""); });
          for (int round = 0; round < 4; ++round) {
            RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
          }
          rendezvous.meet([&] { replayed = FakeCuda::get().journal(); });
          RANK_CHECK(own.synchronize().empty());
          RANK_CHECK(x.get(0) == 16 && x.get(4999) == 16);
          d.cuGraphExecDestroy(exec);
          d.cuGraphDestroy(graph);
          return "";
        }) == "");
  CHECK(lineWith(captured, {"cuLaunchHost"}) == "");
  CHECK(replayed == "cuGraphLaunch 8\n");
}

TEST_CASE("eight devices with NVLink work together as a topology file has them") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  {
    const Gpu gpu("topology=" TUTTI_GOLDEN "/topologies/h200-hgx-8gpu-nvswitch-tcponly.nccl.xml");
    if (FakeCuda::get().reset == nullptr) return;
    CHECK((gpu.has(8) && !gpu.has(9)));
    CHECK(onGpuRanks(8, 8, [](const Rank& r, GpuRank& own) {
            return checkAllReduce(r, own.options(50'000, false, 0, 0));
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("devices that cannot reach each other are no way for streams, and memory is open to none of the others") {
  const std::string asked = GENERATE("stream", "resident", "auto");
  const Variable way("TUTTI_CUDA_EXECUTOR", asked.c_str());
  {
    // Two devices below each of four CPUs, and no NVLink in the file.
    const Gpu gpu("topology=" TUTTI_GOLDEN "/topologies/a100-azure-ndv4-8gpu-8nic.nccl.xml");
    if (FakeCuda::get().reset == nullptr) return;
    tuttiUniqueId id;
    REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
    std::string texts[3];
    std::vector<std::thread> threads;
    for (int r = 0; r < 3; ++r) {
      threads.emplace_back([&, r] {
        const GpuRank own(r);
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = TUTTI_DEVICE_CUDA;
        config.timeoutMs = 5000;
        tuttiComm_t comm = nullptr;
        if (tuttiCommInitRankConfig(&comm, 3, id, r, &config) != tuttiSuccess) {
          texts[r] = tuttiGetLastError(nullptr);
          return;
        }
        texts[r] = checkAllReduce({r, 3, comm}, own.options(5000, false, 0, 0));
        tuttiCommDestroy(comm);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK((asked == "auto" ? text.empty() : text.find("has no peer access to rank 2") != std::string::npos));
    }
    const auto first = *cuda::CudaDevice::open(0);
    const auto pages = *cuda::DevicePages::create(first, 10);
    CHECK(cuda::DeviceMapping::forReader(pages, *cuda::CudaDevice::open(1)).ok());
    CHECK(!cuda::DeviceMapping::forReader(pages, *cuda::CudaDevice::open(2)).ok());
  }
  CHECK(Gpu::complaints() == "");
}
