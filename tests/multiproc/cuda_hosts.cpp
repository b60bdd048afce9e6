// One process of a job whose ranks are on several hosts, by TUTTI_HOSTID, with CUDA devices or without: every
// collective, captured calls that are replayed, and which links the bytes have gone by.
//   usage: cuda_hosts HOSTS THREADS SETTINGS [leave | levels]
//   HOSTS     a letter for every process, its host; a capital letter: its ranks are on the CPU
//   THREADS   ranks of each process
//   SETTINGS  of tests/fake_cuda; with ipc=0 only ranks of one process reach each other
//   leave     the last process ends in the middle of replays, and the others hear of it
//   levels    hierarchical algorithms alone, whose bytes are counted; all hosts have as many ranks, on devices
// Exit status 0 if all was right and the driver has nothing to complain about.
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "src/comm/cuda/executor.hpp"
#include "src/comm/handle.hpp"
#include "tests/multiproc/cuda_levels.hpp"
#include "tests/support/gpu.hpp"

using namespace tutti::test;
using namespace tutti;

namespace {

struct Job {
  std::string hosts;
  int threads = 1;
  std::string settings;
  bool leave = false, levels = false;
  int process = 0;

  int nRanks() const { return static_cast<int>(hosts.size()) * threads; }
  int nHosts() const { return static_cast<int>(std::set(hosts.begin(), hosts.end()).size()); }
  int processOf(int rank) const { return rank / threads; }
  char hostOf(int rank) const { return hosts[static_cast<size_t>(processOf(rank))]; }
  bool onCpu(int rank) const { return std::isupper(hostOf(rank)) != 0; }
  /// Whether their devices can use each other's memory.
  bool reach(int a, int b) const {
    const bool near =
        settings.find("ipc=0") == std::string::npos ? hostOf(a) == hostOf(b) : processOf(a) == processOf(b);
    return near && !onCpu(a) && !onCpu(b);
  }
};

std::string number(const char* text) { return text == nullptr ? "0" : text; }

/// A graph of an all-reduce and a broadcast, on memory that changes between replays.
class Captured {
 public:
  Captured(const Rank& r, const GpuRank& own, size_t count) : r_(r), own_(own), x_(own, count), y_(own, count) {}
  ~Captured() {
    if (exec_ != nullptr) own_.driver().cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) own_.driver().cuGraphDestroy(graph_);
  }
  std::string make() {
    const cuda::Driver& d = own_.driver();
    RANK_CHECK(d.cuStreamBeginCapture(own_.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
    RANK_TRY(tuttiAllReduce(x_.data(), y_.data(), x_.count(), tuttiFloat, tuttiSum, r_.comm, own_.asTutti()));
    RANK_TRY(tuttiBroadcast(y_.data(), x_.data(), x_.count(), tuttiFloat, r_.nRanks - 1, r_.comm, own_.asTutti()));
    RANK_CHECK(d.cuStreamEndCapture(own_.stream(), &graph_) == cuda::kSuccess);
    RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec_, graph_, 0) == cuda::kSuccess);
    return "";
  }
  /// The sum goes round: each replay multiplies by the number of ranks.
  std::string replay(int times) {
    x_.fill(1);
    float expected = 1;
    for (int i = 0; i < times; ++i) {
      RANK_CHECK(own_.driver().cuGraphLaunch(exec_, own_.stream()) == cuda::kSuccess);
      expected *= static_cast<float>(r_.nRanks);
    }
    if (std::string why = own_.synchronize(); !why.empty()) return why;
    return x_.check(0, x_.count(), expected);
  }
  /// A call on another stream that follows a replay, made before the replay has begun.
  std::string thenCall(const GpuRank& other) {
    x_.fill(2);
    const cuda::Driver& d = own_.driver();
    cuda::EventHandle done;
    if (!done.create(*cuda::CudaDevice::open(own_.ordinal())).ok()) return "no event";
    const Gate gate(own_.ordinal());
    RANK_CHECK(gate.holdsUp(own_, own_.stream()));
    RANK_CHECK(d.cuGraphLaunch(exec_, own_.stream()) == cuda::kSuccess);
    RANK_CHECK(d.cuEventRecord(done.get(), own_.stream()) == cuda::kSuccess);
    RANK_CHECK(d.cuStreamWaitEvent(other.stream(), done.get(), 0) == cuda::kSuccess);
    RANK_TRY(tuttiAllReduce(x_.data(), y_.data(), x_.count(), tuttiFloat, tuttiSum, r_.comm, other.asTutti()));
    gate.open();
    if (std::string why = other.synchronize(); !why.empty()) return why;
    return y_.check(0, y_.count(), 2.0F * static_cast<float>(r_.nRanks * r_.nRanks));
  }

 private:
  const Rank& r_;
  const GpuRank& own_;
  DeviceFloats x_, y_;
  cuda::Graph graph_ = nullptr;
  cuda::GraphExec exec_ = nullptr;
};

/// The same calls by a rank on the CPU, whose calls nobody captures.
std::string replayOnCpu(const Rank& r, int times, float value, bool broadcasts) {
  constexpr size_t kCount = 70'001;
  std::vector<float> x(kCount, value), y(kCount);
  for (int i = 0; i < times; ++i) {
    RANK_TRY(tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, nullptr));
    if (broadcasts) RANK_TRY(tuttiBroadcast(y.data(), x.data(), kCount, tuttiFloat, r.nRanks - 1, r.comm, nullptr));
    x = y;
  }
  return "";
}

std::string checkGraphs(const Rank& r, const GpuRank* own) {
  constexpr size_t kCount = 70'001;
  if (own == nullptr) {
    for (const int times : {1, 4}) {
      if (std::string why = replayOnCpu(r, times, 1, true); !why.empty()) return why;
    }
    std::vector<float> x(kCount, 2), y(kCount);
    RANK_TRY(tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, nullptr));
    RANK_TRY(tuttiBroadcast(y.data(), x.data(), kCount, tuttiFloat, r.nRanks - 1, r.comm, nullptr));
    RANK_TRY(tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, nullptr));
    return "";
  }
  Captured captured(r, *own, kCount);
  if (std::string why = captured.make(); !why.empty()) return "capture: " + why;
  for (const int times : {1, 4}) {
    if (std::string why = captured.replay(times); !why.empty()) return "replay: " + why;
  }
  const GpuRank other(own->ordinal());
  if (std::string why = captured.thenCall(other); !why.empty()) return "after a replay: " + why;
  return "";
}

/// Between devices that reach each other nothing passes through the host, and the other way round.
std::string checkTraffic(const Job& job, const Rank& r) {
  const auto& executor = static_cast<const CudaExecutor&>(r.comm->comm->executor());
  DeviceEndpoints::Traffic all;
  for (int peer = 0; peer < r.nRanks; ++peer) {
    const DeviceEndpoints::Traffic sent = executor.sentTo(peer);
    const bool reached = job.reach(r.rank, peer);
    const auto to = [&](const char* what) { return what + (" to rank " + std::to_string(peer)); };
    if (reached && sent.throughHost > 0) return to("bytes passed through the host");
    if (!reached && sent.byDevice > 0) return to("bytes went by device");
    if (peer != r.rank && sent.byDevice + sent.throughHost == 0) return to("nothing was sent");
    all.byDevice += sent.byDevice;
    all.throughHost += sent.throughHost;
  }
  std::printf("rank %d sent %llu bytes by device links, %llu through the host\n", r.rank,
              static_cast<unsigned long long>(all.byDevice), static_cast<unsigned long long>(all.throughHost));
  return "";
}

std::string check(const Job& job, const Rank& r, const GpuRank* own) {
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{300'001}}) {
    for (const bool inPlace : {false, true}) {
      CheckOptions o;
      if (own != nullptr) o = own->options(count, inPlace, inPlace ? 0 : 4, r.nRanks - 1);
      if (own == nullptr)
        o = {.count = count, .inPlace = inPlace, .shift = size_t{inPlace ? 0u : 4u}, .root = r.nRanks - 1};
      if (std::string why = checkEverything(r, o); !why.empty()) return why;
    }
  }
  if (std::string why = checkGraphs(r, own); !why.empty()) return why;
  return own != nullptr ? checkTraffic(job, r) : "";
}

/// The last process goes after a few replays; every other rank hears of it, and its stream is let go.
std::string abandoned(const Job& job, const Rank& r, const GpuRank& own) {
  Captured captured(r, own, 70'001);
  if (std::string why = captured.make(); !why.empty()) return why;
  (void)captured.replay(3);  // the last process may leave before others have all that it sent
  if (job.process == static_cast<int>(job.hosts.size()) - 1) _exit(0);
  (void)captured.replay(1);
  tuttiResult_t seen = tuttiSuccess;
  RANK_TRY(tuttiCommGetAsyncError(r.comm, &seen));
  RANK_CHECK(seen == tuttiRemoteError);
  return "";
}

std::string rankOf(const Job& job, int rank, const tuttiUniqueId& id) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = job.onCpu(rank) ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
  config.timeoutMs = 60'000;
  std::unique_ptr<GpuRank> own;
  if (!job.onCpu(rank)) {
    int devices = 1;
    (*cuda::driver())->cuDeviceGetCount(&devices);
    own = std::make_unique<GpuRank>(rank % devices);
  }
  tuttiComm_t comm = nullptr;
  if (std::string why = failed(tuttiCommInitRankConfig(&comm, job.nRanks(), id, rank, &config), "join"); !why.empty())
    return why;
  const Rank r{rank, job.nRanks(), comm};
  const auto reach = [&](int peer) { return job.reach(rank, peer); };
  std::string why = job.leave    ? abandoned(job, r, *own)
                    : job.levels ? checkLevels(r, *own, job.nHosts(), reach)
                                 : check(job, r, own.get());
  if (why.empty() && !job.leave) return failed(tuttiCommDestroy(comm), "destroy");
  tuttiCommAbort(comm);
  return why;
}

/// All processes get the id that the first one makes.
std::string shareId(tuttiUniqueId* id) {
  tuttiComm_t processes = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = TUTTI_DEVICE_HOST;
  if (std::string why = failed(tuttiCommInitEnv(&processes, &config), "init"); !why.empty()) return why;
  int rank = 0;
  tuttiCommUserRank(processes, &rank);
  if (rank == 0) tuttiGetUniqueId(id);
  if (std::string why = failed(tuttiBroadcast(id, id, sizeof *id, tuttiInt8, 0, processes, nullptr), "share");
      !why.empty())
    return why;
  return failed(tuttiCommDestroy(processes), "destroy");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string how = argc > 4 ? argv[4] : "";
  Job job{argv[1],        std::atoi(argv[2]), argv[3],
          how == "leave", how == "levels",    std::stoi(number(std::getenv("TUTTI_RANK")))};
  const char host[] = {static_cast<char>(std::tolower(job.hosts[static_cast<size_t>(job.process)])), '\0'};
  setenv("TUTTI_HOSTID", host, 1);
  std::string why;
  {
    const Gpu gpu(job.settings.c_str());
    tuttiUniqueId id{};
    why = shareId(&id);
    setenv("TUTTI_DEVICE", "cuda", 1);  // of tuttiMemAlloc
    if (job.levels) askForLevels();
    std::vector<std::string> whys(static_cast<size_t>(job.threads));
    std::vector<std::thread> threads;
    for (int t = 0; t < job.threads && why.empty(); ++t) {
      threads.emplace_back([&, t] {
        std::string& said = whys[static_cast<size_t>(t)];
        said = rankOf(job, job.process * job.threads + t, id);
        if (!said.empty()) said = "rank " + std::to_string(job.process * job.threads + t) + ": " + said + "\n";
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& said : whys) why += said;
  }
  if (why.empty()) why = complaintsAtLast();
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
