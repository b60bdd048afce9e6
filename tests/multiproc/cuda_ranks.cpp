// One of a few ranks as processes that share CUDA devices: every collective through memory opened by IPC handles, and
// registered memory, which peers map by descriptors.
//   usage: cuda_ranks DEVICES [SETTINGS [host|abort|stop|leave]]
//   SETTINGS  of tests/fake_cuda; % is the rank's number on its host
//   host      bytes are to pass through the host
//   abort     one rank aborts while others read what is registered
//   stop      the last rank stops while it has registered memory of rank 0 open, and goes on later
//   leave     the last rank ends like that, without a word
// Exit status 0 if every element was right and the driver has nothing to complain about.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "tests/support/gpu.hpp"

using namespace tutti::test;

namespace {

/// Twice, so that what peers have mapped of the first is gone when the second is there.
std::string registered(const Rank& r, GpuRank& gpu, bool byHost) {
  constexpr size_t kCount = 200'003;
  const auto sum = static_cast<float>(r.nRanks * (r.nRanks + 1) / 2);
  for (int round = 0; round < 2; ++round) {
    const DeviceFloats x(gpu, kCount), y(gpu, kCount);
    void* handle = nullptr;
    RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &handle));
    x.fill(static_cast<float>(r.rank + 1));
    RANK_TRY(tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, gpu.asTutti()));
    if (std::string why = y.check(0, kCount, sum); !why.empty()) return "registered: " + why;
    for (int root = 0; root < r.nRanks; ++root) {  // so every rank reads another's, whatever the all-reduce was planned
      RANK_TRY(tuttiBroadcast(x.data(), x.data(), kCount, tuttiFloat, root, r.comm, gpu.asTutti()));
    }
    if (std::string why = x.check(0, kCount, 1); !why.empty()) return "registered broadcast: " + why;
    RANK_TRY(tuttiCommDeregister(r.comm, handle));
  }
  if (FakeCuda::get().calls == nullptr) return "";
  const bool maps = FakeCuda::get().calls("cuMemImportFromShareableHandle") > 0;
  if (byHost) return maps ? "registered memory of other processes was mapped" : "";
  return maps ? "" : "registered memory of other processes was not mapped";
}

void* at(const DeviceFloats& x, size_t element) { return x.data() + element; }

/// Memory of cuMemAlloc, which peers open by handles: places inside of an allocation that is registered twice, and with
/// a second communicator, too.
std::string registeredPlain(const Rank& r, GpuRank& gpu, tuttiComm_t second) {
  constexpr size_t kCount = 150'001, kInside = 1003;
  const auto sum = static_cast<float>(r.nRanks * (r.nRanks + 1) / 2);
  const DeviceFloats x(gpu, kCount + kInside, DeviceFloats::Source::Driver);
  const DeviceFloats y(gpu, kCount, DeviceFloats::Source::Driver);
  void *whole = nullptr, *inside = nullptr, *other = nullptr;
  RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &whole));
  RANK_TRY(tuttiCommRegister(r.comm, at(x, kInside), kCount * 4, &inside));
  RANK_TRY(tuttiCommRegister(second, x.data(), x.bytes(), &other));
  for (tuttiComm_t comm : {r.comm, second}) {
    x.fill(static_cast<float>(r.rank + 1));
    RANK_TRY(tuttiAllReduce(at(x, kInside), y.data(), kCount, tuttiFloat, tuttiSum, comm, gpu.asTutti()));
    if (std::string why = y.check(0, kCount, sum); !why.empty()) return "plain memory: " + why;
    for (int root = 0; root < r.nRanks; ++root) {
      RANK_TRY(tuttiBroadcast(at(x, 1), at(x, 1), kCount, tuttiFloat, root, comm, gpu.asTutti()));
    }
    if (std::string why = x.check(1, kCount, 1); !why.empty()) return "broadcast: " + why;
    if (comm == r.comm) RANK_TRY(tuttiCommDeregister(comm, whole));
  }
  RANK_TRY(tuttiCommDeregister(r.comm, inside));
  // The others are in the middle of this, and have to close what rank 0 is about to free all the same.
  if (r.rank == 0) RANK_TRY(tuttiCommDeregister(second, other));
  RANK_TRY(tuttiBroadcast(y.data(), y.data(), 1, tuttiFloat, 0, second, gpu.asTutti()));
  if (std::string why = gpu.synchronize(); !why.empty()) return why;
  if (r.rank != 0) RANK_TRY(tuttiCommDeregister(second, other));
  return "";
}

std::string plain(const Rank& r, GpuRank& gpu, bool byHost) {
  tuttiComm_t second = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &second, nullptr));
  const auto opened = [] { return FakeCuda::get().calls == nullptr ? 0 : FakeCuda::get().calls("cuIpcOpenMemHandle"); };
  const int before = opened();
  for (int round = 0; round < 3; ++round) {
    if (std::string why = registeredPlain(r, gpu, second); !why.empty()) return why;
  }
  RANK_TRY(tuttiCommDestroy(second));
  if (!byHost && FakeCuda::get().calls != nullptr && opened() - before < 3) return "plain memory was not opened";
  return "";
}

tuttiResult_t join(Rank* r) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = TUTTI_DEVICE_CUDA;
  const tuttiResult_t result = tuttiCommInitEnv(&r->comm, &config);
  if (result != tuttiSuccess) return result;
  tuttiCommUserRank(r->comm, &r->rank);
  tuttiCommCount(r->comm, &r->nRanks);
  return result;
}

/// What is under way when one rank gives up reads registered memory of the others; all of it can be freed then.
std::string abandoned(GpuRank& gpu) {
  Rank r{};
  RANK_TRY(join(&r));
  constexpr size_t kCount = 300'000;
  const DeviceFloats x(gpu, kCount, DeviceFloats::Source::Driver), y(gpu, kCount, DeviceFloats::Source::Driver);
  void* handle = nullptr;
  RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &handle));
  x.fill(1);
  // Rank 0 may have given up before others are through with the first call.
  tuttiResult_t seen = tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, gpu.asTutti());
  if (seen == tuttiSuccess) {
    const std::string why = y.check(0, kCount, static_cast<float>(r.nRanks));
    tuttiResult_t broken = tuttiSuccess;
    RANK_TRY(tuttiCommGetAsyncError(r.comm, &broken));
    if (!why.empty() && (r.rank == 0 || broken != tuttiRemoteError)) return why;
    if (r.rank != 0) seen = tuttiAllReduce(x.data(), y.data(), kCount, tuttiFloat, tuttiSum, r.comm, gpu.asTutti());
  }
  RANK_CHECK(seen == (r.rank == 0 ? tuttiSuccess : tuttiRemoteError));
  RANK_TRY(tuttiCommAbort(r.comm));
  return gpu.synchronize();
}

/// A process that does not run while this lives.
class Stopped {
 public:
  explicit Stopped(pid_t process) : process_(process) {
    kill(process_, SIGSTOP);
    while (state() != 'T') std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Stopped() { kill(process_, SIGCONT); }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  char state() const {
    std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
    std::string line;
    std::getline(file, line);
    const size_t end = line.rfind(") ");
    return end == std::string::npos ? 'T' : line[end + 2];  // gone: its rank will be missed
  }
  pid_t process_;
};

/// A communicator, and memory of rank 0 that the last rank has open, whose process `other` gets.
std::string openByLast(Rank* joined, GpuRank& gpu, const DeviceFloats& x, void** handle, pid_t* other) {
  RANK_TRY(join(joined));
  const Rank& r = *joined;
  RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), handle));
  x.fill(static_cast<float>(r.rank));
  RANK_TRY(tuttiBroadcast(x.data(), x.data(), x.bytes() / 4, tuttiFloat, 0, r.comm, gpu.asTutti()));
  if (std::string why = x.check(0, x.bytes() / 4, 0); !why.empty()) return "broadcast: " + why;
  const DeviceFloats process(gpu, 1);
  process.fill(static_cast<float>(getpid()));  // exact: below 2^24
  RANK_TRY(tuttiBroadcast(process.data(), process.data(), 1, tuttiFloat, r.nRanks - 1, r.comm, gpu.asTutti()));
  *other = static_cast<pid_t>(process.values().front());
  return "";
}

/// Memory stays its owner's to free until a reader that does not run has closed it, and the owner hears whose it is.
std::string stopped(GpuRank& gpu) {
  Rank r{};
  {
    const DeviceFloats x(gpu, 100'000, DeviceFloats::Source::Driver);
    void* handle = nullptr;
    pid_t last = 0;
    if (std::string why = openByLast(&r, gpu, x, &handle, &last); !why.empty()) return why;
    if (r.rank == 0) {
      const Stopped stop(last);
      RANK_TRY(tuttiCommSetTimeout(r.comm, 200));
      RANK_CHECK(tuttiCommDeregister(r.comm, handle) == tuttiTimeout);
      const std::string said = tuttiGetLastError(r.comm);
      const std::string name = "rank " + std::to_string(r.nRanks - 1) + " still has the registered memory open";
      if (said.find(name) == std::string::npos) return "the error names no reader: " + said;
    }
    RANK_TRY(tuttiCommSetTimeout(r.comm, 60'000));
    RANK_TRY(tuttiCommDeregister(r.comm, handle));
  }
  const DeviceFloats y(gpu, 5000);
  y.fill(1);
  RANK_TRY(tuttiAllReduce(y.data(), y.data(), 5000, tuttiFloat, tuttiSum, r.comm, gpu.asTutti()));
  if (std::string why = y.check(0, 5000, static_cast<float>(r.nRanks)); !why.empty()) return "afterwards: " + why;
  RANK_TRY(tuttiCommDestroy(r.comm));
  return "";
}

/// A reader that ends without closing anything keeps nobody from freeing memory and going on.
std::string left(GpuRank& gpu) {
  Rank r{};
  const DeviceFloats x(gpu, 100'000, DeviceFloats::Source::Driver);
  void* handle = nullptr;
  pid_t last = 0;
  if (std::string why = openByLast(&r, gpu, x, &handle, &last); !why.empty()) return why;
  // Once rank 0 has made its call in which this one told it who it is.
  const DeviceFloats there(gpu, 1);
  RANK_TRY(tuttiBroadcast(there.data(), there.data(), 1, tuttiFloat, 0, r.comm, gpu.asTutti()));
  if (std::string why = gpu.synchronize(); !why.empty()) return why;
  if (r.rank == r.nRanks - 1) _exit(0);
  RANK_TRY(tuttiCommDeregister(r.comm, handle));
  const tuttiResult_t ended = tuttiCommDestroy(r.comm);
  return ended == tuttiSuccess || ended == tuttiRemoteError ? "" : "destroy gives " + std::to_string(ended);
}

int localRank() {
  const char* number = std::getenv("TUTTI_LOCAL_RANK");
  return number == nullptr ? 0 : std::atoi(number);
}

std::string run(int devices, bool byHost) {
  GpuRank gpu(localRank() % devices);
  Rank r{};
  RANK_TRY(join(&r));
  for (const size_t count : {size_t{1}, size_t{5000}, size_t{400'001}}) {
    for (const bool inPlace : {false, true}) {
      const CheckOptions o = gpu.options(count, inPlace, inPlace ? 0 : 4, r.nRanks - 1);
      if (std::string why = checkEverything(r, o); !why.empty()) return why;
    }
  }
  // What others have is opened with access; their devices need no contexts here, and may have room for none.
  RANK_CHECK(FakeCuda::get().calls == nullptr || FakeCuda::get().calls("cuCtxEnablePeerAccess") == 0);
  if (std::string why = registered(r, gpu, byHost); !why.empty()) return why;
  if (std::string why = plain(r, gpu, byHost); !why.empty()) return why;
  RANK_TRY(tuttiCommDestroy(r.comm));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  setenv("TUTTI_DEVICE", "cuda", 1);
  std::string settings = argc > 2 ? argv[2] : "devices=2";
  if (const size_t at = settings.find('%'); at != std::string::npos)
    settings.replace(at, 1, std::to_string(localRank()));
  const char* executor = std::getenv("TUTTI_CUDA_EXECUTOR");
  const bool byHost =
      (argc > 3 && argv[3] == std::string("host")) || (executor != nullptr && executor == std::string("proxy"));
  const Gpu gpu(settings.c_str());
  const int devices = argc > 1 ? std::atoi(argv[1]) : 1;
  std::string why;
  const std::string what = argc > 3 ? argv[3] : "";
  if (what == "abort" || what == "stop" || what == "leave") {
    {
      GpuRank own(localRank() % devices);
      why = what == "abort" ? abandoned(own) : what == "stop" ? stopped(own) : left(own);
    }
    if (why.empty()) why = complaintsAtLast();
  } else {
    why = run(devices, byHost);
  }
  if (why.empty()) why = Gpu::complaints();
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
