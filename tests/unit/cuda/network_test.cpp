// Ranks on CUDA devices of several hosts whose adapters read and write the devices' memory (GPUDirect RDMA), on the
// driver and the libibverbs of the tests.  Hosts are threads with a TUTTI_HOSTID of their own; what adapters write is
// there only after a flush, as on devices that do not order it.
#include <dlfcn.h>

#include <catch2/catch.hpp>

#include "tests/multiproc/cuda_levels.hpp"
#include "tests/support/fake_verbs/fake_verbs.hpp"
#include "tests/support/said.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/cuda/network_hosts.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// What adapters read and write is said on that level.  The library reads the variable once.
const bool kLogs = ::setenv("TUTTI_LOG", "warn,verbs:info,ncclnet:info", 1) == 0;

std::string onHosts(const std::string& hosts, const HostBody& body) { return test::onHosts("verbs", hosts, body); }

template <class Function>
Function* ofVerbs(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libibverbs.so.1", RTLD_NOW), name));
}

}  // namespace

TEST_CASE("between hosts all collectives go by adapters, inside by device links, and nothing through the host",
          "[thorough]") {
  const std::string hosts = GENERATE("ab", "abc", "aabb", "aab", "abcde", "aabbccdd");
  if (!kThorough && hosts.size() > 4) return;
  CAPTURE(hosts);
  const bool flush = hosts.size() != 3;
  {
    const Gpu gpu((flush ? "devices=8;flush=1" : "devices=8"));
    const bool inside = hosts.find("aa") == 0;
    CHECK(onHosts(hosts, [&](const Rank& r, GpuRank* own) -> std::string {
            for (const size_t count : {size_t{1}, size_t{30'001}}) {
              Traffic counted;
              if (std::string why = countedCalls(r, *own, count, &counted); !why.empty()) return why;
              RANK_CHECK(counted.throughHost == 0);
              RANK_CHECK(counted.receivedThroughHost == 0);
              RANK_CHECK(counted.byAdapter > 0);
              RANK_CHECK((counted.byDevice > 0) == (inside && (r.nRanks != 3 || r.rank < 2)));
            }
            return "";
          }) == "");
    CHECK(ofVerbs<fake_verbs::CountDmaBufs>(fake_verbs::kCountDmaBufs)() == 0);  // of those that are left
    CHECK((FakeCuda::get().calls("cuFlushGPUDirectRDMAWrites") > 0) == flush);
    CHECK(FakeCuda::get().calls("cuMemGetHandleForAddressRange") >= static_cast<int>(hosts.size()));
  }
  CHECK(Gpu::lastComplaints() == "");
}

namespace {

constexpr size_t kGathered = 50'001;

/// Three gathers of two ranks on two hosts, of changing values.
std::string gathers(const Rank& r, const GpuRank& own, const DeviceFloats& x, const DeviceFloats& y) {
  for (int round = 1; round < 4; ++round) {
    x.fill(static_cast<float>(10 * round + r.rank));
    y.fill(-1);
    RANK_TRY(tuttiAllGather(x.data(), y.data(), kGathered, tuttiFloat, r.comm, own.asTutti()));
    if (std::string why = own.synchronize(); !why.empty()) return why;
    for (size_t rank = 0; rank < 2; ++rank) {
      const float expected = static_cast<float>(10 * round) + static_cast<float>(rank);
      if (std::string why = y.check(rank * kGathered, (rank + 1) * kGathered, expected); !why.empty()) return why;
    }
  }
  RANK_CHECK(trafficOf(r).byAdapter >= 3 * kGathered * sizeof(float));
  RANK_CHECK(trafficOf(r).receivedThroughHost == 0);
  return "";
}

}  // namespace

TEST_CASE("adapters read and write registered memory of devices where it lies, which saves a copy at each end") {
  int copies[3] = {};
  for (const int registers : {0, 1, 2}) {  // nothing, where messages come, and where they come from as well
    const Gpu gpu("devices=2;flush=1");
    CHECK(onHosts("ab", [&](const Rank& r, GpuRank* own) -> std::string {
            const DeviceFloats x(*own, kGathered, DeviceFloats::Source::Driver), y(*own, 2 * kGathered);
            void* handles[2] = {};
            if (registers > 0) RANK_TRY(tuttiCommRegister(r.comm, y.data(), y.bytes(), &handles[0]));
            if (registers > 1) RANK_TRY(tuttiCommRegister(r.comm, x.data(), x.bytes(), &handles[1]));
            if (std::string why = gathers(r, *own, x, y); !why.empty()) return why;
            if (registers > 0) RANK_TRY(tuttiCommDeregister(r.comm, handles[0]));
            if (registers > 1) RANK_TRY(tuttiCommDeregister(r.comm, handles[1]));
            return "";
          }) == "");
    copies[registers] = FakeCuda::get().calls("cuMemcpyAsync");
  }
  CAPTURE(copies[0], copies[1], copies[2]);
  CHECK(copies[1] < copies[0]);
  CHECK(copies[2] < copies[1]);
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("sends and receives of registered memory go by adapters, in a group that goes round") {
  {
    const Gpu gpu("devices=3;flush=1");
    CHECK(onHosts("abc", goRound) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("ranks on the CPU meet ranks whose messages lie in devices' memory") {
  {
    const Gpu gpu("devices=3;flush=1");
    CHECK(onHosts("abB", [&](const Rank& r, GpuRank* own) -> std::string {
            for (const size_t count : {size_t{1}, size_t{40}, size_t{2000}, size_t{60'001}}) {
              if (std::string why = everything(r, own, count); !why.empty()) return why;
            }
            return "";
          }) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("memory that adapters cannot be given is staged by the host, and that is said once") {
  struct Row {
    const char* settings;
    const char* said;
    size_t times;
    bool byAdapter;  // of some rank
  };
  const Row row = GENERATE(values<Row>({
      {"devices=2;dmabuf=0", "device memory passes through the host: CUDA device", 2, false},
      {"devices=2;rdma=0", "does not let adapters read and write its memory", 2, false},
      {"devices=2;fail=cuMemGetHandleForAddressRange:1:801",
       "pass through the host, as adapters cannot be given its memory: fake_", 1, true},
  }));
  CAPTURE(row.settings);
  {
    const Gpu gpu(row.settings);
    const Said said;
    CHECK(kLogs);
    std::atomic<uint64_t> byAdapter{0}, staged{0};
    CHECK(onHosts("ab", [&](const Rank& r, GpuRank* own) -> std::string {
            for (int times = 0; times < 2; ++times) {
              if (std::string why = everything(r, own, 30'001); !why.empty()) return why;
            }
            byAdapter += trafficOf(r).byAdapter;
            staged += trafficOf(r).throughHost;
            return "";
          }) == "");
    CHECK(said.times(row.said) == row.times);
    CHECK(staged > 0);
    CHECK((byAdapter > 0) == row.byAdapter);
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("a rank that ends in the middle of a call leaves no adapter behind that writes its memory") {
  constexpr size_t kCount = 3'000'000;
  {
    const Gpu gpu("devices=2;flush=1");
    CHECK(onHosts("ab", [&](const Rank& r, GpuRank* own) -> std::string {
            const DeviceFloats x(*own, kCount);
            x.fill(1);
            RANK_TRY(tuttiAllReduce(x.data(), x.data(), kCount, tuttiFloat, tuttiSum, r.comm, own->asTutti()));
            return r.rank == 0 ? "gone on purpose" : "";
          }).find("rank 0: gone on purpose") == 0);
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("levels send over the network what their schedules say, byte for byte, and all of it by adapters",
          "[thorough]") {
  const std::string hosts = GENERATE("aabb", "aabbccdd");
  if (!kThorough && hosts.size() > 4) return;
  CAPTURE(hosts);
  askForLevels();
  {
    const Gpu gpu("devices=8;flush=1");
    CHECK(onHosts(hosts, [&](const Rank& r, GpuRank* own) -> std::string {
            const auto sameHost = [&](int peer) {
              return hosts[static_cast<size_t>(peer)] == hosts[static_cast<size_t>(r.rank)];
            };
            return checkLevels(r, *own, r.nRanks / 2, sameHost);
          }) == "");
  }
  ::unsetenv("TUTTI_ALGO");
  ::unsetenv("TUTTI_ALGO_STRICT");
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("messages between devices survive the loss of a rail") {
  fake_verbs::Fail* const fail = ofVerbs<fake_verbs::Fail>(fake_verbs::kFail);
  const auto fault = GENERATE(fake_verbs::Fault::Lost, fake_verbs::Fault::Unacknowledged);
  {
    const Gpu gpu("devices=2;flush=1");
    const Variable rails("TUTTI_IB_RAILS", "2");
    CHECK(onHosts("ab", [&](const Rank& r, GpuRank* own) -> std::string {
            for (int times = 0; times < 4; ++times) {
              if (r.rank == 0 && times == 1) fail("fake_1", fault, 20);
              if (std::string why = everything(r, own, 60'001); !why.empty()) return why;
            }
            return "";
          }) == "");
    fail("fake_1", fake_verbs::Fault::None, 0);
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("calls between devices of two hosts are captured, and replayed by adapters") {
  constexpr size_t kCount = 70'001;
  {
    const Gpu gpu("devices=2;flush=1");
    CHECK(onHosts("ab", [&](const Rank& r, GpuRank* own) { return replayedCalls(r, *own, kCount); }) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}
