// The same over network plugins written for NCCL, of every version of its interface, which read and write the devices'
// memory and flush what they have written (tests/support/net_plugin).
#include <catch2/catch.hpp>

#include "tests/multiproc/cuda_levels.hpp"
#include "tests/support/net_plugin/net_plugin.hpp"
#include "tests/support/said.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/cuda/network_hosts.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// By the plugin of this version.
std::string onHosts(int version, const std::string& hosts, const HostBody& body) {
  const Variable plugin("TUTTI_NET_PLUGIN", netPluginPath(version));
  return test::onHosts("ncclnet", hosts, body);
}

/// No rule is broken, and nothing is left: neither by the driver nor by the plugin.
void checkTidy(int version) {
  CAPTURE(version);
  CHECK(Gpu::lastComplaints() == "");
  CHECK(netPluginCount(version, "Complaints") == 0);
  CHECK(netPluginCount(version, "Alive") == 0);
}

struct Row {
  const char* hosts;
  int version;
  const char* memory;  // NET_PLUGIN_MEMORY
  bool flush;          // the device does not order what is written
};

}  // namespace

TEST_CASE("plugins of every version read and write memory of devices between hosts, and nothing goes through the host",
          "[thorough]") {
  const Row row = GENERATE(values<Row>({{"ab", 8, "cuda", true},
                                        {"abc", 9, "dmabuf", true},
                                        {"ab", 10, "cuda,dmabuf", false},
                                        {"aabb", 11, "dmabuf", true},
                                        {"aab", 12, "dmabuf,flush", false},
                                        {"abcde", 12, "dmabuf", true},
                                        {"aabbccdd", 8, "dmabuf", true},
                                        {"aabbccdd", 11, "cuda", true}}));
  const std::string hosts = row.hosts;
  if (!kThorough && hosts.size() > 4) return;
  CAPTURE(hosts, row.version, row.memory);
  const std::string memory = row.memory;
  const bool byDmaBuf = memory.find("dmabuf") != std::string::npos;
  const bool flushes = row.flush || memory.find("flush") != std::string::npos;
  const int before[] = {netPluginCount(row.version, "DmaBufs"), netPluginCount(row.version, "Flushes")};
  {
    const Gpu gpu(row.flush ? "devices=8;flush=1" : "devices=8");
    const Variable takes("NET_PLUGIN_MEMORY", row.memory);
    const bool inside = hosts.find("aa") == 0;
    CHECK(onHosts(row.version, hosts, [&](const Rank& r, GpuRank* own) -> std::string {
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
    CHECK(FakeCuda::get().calls("cuFlushGPUDirectRDMAWrites") == 0);  // the plugin does it
  }
  CHECK((netPluginCount(row.version, "DmaBufs") > before[0]) == byDmaBuf);
  CHECK((netPluginCount(row.version, "Flushes") > before[1]) == flushes);
  checkTidy(row.version);
}

TEST_CASE("levels send by plugins what their schedules say, byte for byte, and all of it from memory of devices",
          "[thorough]") {
  const std::string hosts = GENERATE("aabb", "aabbccdd");
  if (!kThorough && hosts.size() > 4) return;
  CAPTURE(hosts);
  askForLevels();
  {
    const Gpu gpu("devices=8;flush=1");
    CHECK(onHosts(12, hosts, [&](const Rank& r, GpuRank* own) -> std::string {
            const auto sameHost = [&](int peer) {
              return hosts[static_cast<size_t>(peer)] == hosts[static_cast<size_t>(r.rank)];
            };
            return checkLevels(r, *own, r.nRanks / 2, sameHost);
          }) == "");
  }
  ::unsetenv("TUTTI_ALGO");
  ::unsetenv("TUTTI_ALGO_STRICT");
  checkTidy(12);
}

TEST_CASE("sends and receives of registered memory go by plugins where it lies, in a group that goes round") {
  {
    const Gpu gpu("devices=3;flush=1");
    CHECK(onHosts(11, "abc", goRound) == "");
  }
  checkTidy(11);
}

TEST_CASE("all ranks may send by plugins before any of them receives") {
  constexpr size_t kCount = 3'000;
  {
    const Gpu gpu("devices=3;flush=1");
    CHECK(onHosts(12, "abc", [&](const Rank& r, GpuRank* own) -> std::string {
            const DeviceFloats x(*own, kCount), y(*own, kCount);
            const int next = (r.rank + 1) % r.nRanks, before = (r.rank + r.nRanks - 1) % r.nRanks;
            for (int times = 1; times < 5; ++times) {
              x.fill(static_cast<float>(times * 10 + r.rank));
              const bool together = times == 1;  // endpoints come up when both ends ask for them
              if (together) RANK_TRY(tuttiGroupStart());
              RANK_TRY(tuttiSend(x.data(), kCount, tuttiFloat, next, r.comm, own->asTutti()));
              RANK_TRY(tuttiRecv(y.data(), kCount, tuttiFloat, before, r.comm, own->asTutti()));
              if (together) RANK_TRY(tuttiGroupEnd());
              if (std::string why = own->synchronize(); !why.empty()) return why;
              if (std::string why = y.check(0, kCount, static_cast<float>(times * 10 + before)); !why.empty())
                return why;
            }
            return "";
          }) == "");
  }
  checkTidy(12);
}

TEST_CASE("what a rank has sent by a plugin leaves after its call, while it is in no other") {
  constexpr size_t kCount = 5'000;
  std::atomic<int> sent{0}, received{0};
  {
    const Gpu gpu("devices=2;flush=1");
    CHECK(onHosts(10, "ab", [&](const Rank& r, GpuRank* own) -> std::string {
            const DeviceFloats x(*own, kCount);
            x.fill(static_cast<float>(r.rank));
            for (int round = 0; round < 4; ++round) {
              if (r.rank == 0) {
                RANK_TRY(tuttiSend(x.data(), kCount, tuttiFloat, 1, r.comm, own->asTutti()));
                if (std::string why = own->synchronize(); !why.empty()) return why;
                sent = round + 1;
                while (received <= round) cuda::pauseBetweenLooks();  // in no call until the other has it
                continue;
              }
              while (sent <= round && round > 0) cuda::pauseBetweenLooks();  // the first brings the endpoints up
              RANK_TRY(tuttiRecv(x.data(), kCount, tuttiFloat, 0, r.comm, own->asTutti()));
              std::string why = own->synchronize();
              received = round + 1;
              if (why.empty()) why = x.check(0, kCount, 0);
              if (!why.empty()) return why;
            }
            return "";
          }) == "");
  }
  checkTidy(10);
}

TEST_CASE("ranks on the CPU meet ranks on devices over a plugin: what these tell each other passes through the host") {
  {
    const Gpu gpu("devices=3;flush=1");
    CHECK(onHosts(12, "abB", [&](const Rank& r, GpuRank* own) -> std::string {
            for (const size_t count : {size_t{1}, size_t{40}, size_t{2000}, size_t{60'001}}) {
              if (std::string why = everything(r, own, count); !why.empty()) return why;
            }
            return "";
          }) == "");
  }
  checkTidy(12);
}

TEST_CASE("memory that a plugin does not take is staged by the host, and the log says why") {
  struct Case {
    const char* settings;
    const char* memory;
    const char* fault;
    const char* said;
    bool byAdapter;  // of some rank
  };
  const Case row = GENERATE(values<Case>({
      {"devices=2", "host", "", "v9, device net0 says that it takes memory of the host alone", false},
      {"devices=2;rdma=0", "cuda", "", "does not let adapters read and write its memory", false},
      {"devices=2;dmabuf=0", "dmabuf", "", "device memory passes through the host: CUDA device", false},
      {"devices=2", "cuda", "regMrOfDevice", "cannot be registered: regMr gave ncclSystemError (too much memory)",
       false},
      {"devices=2", "dmabuf", "regMrOfDevice", "cannot be registered: regMrDmaBuf gave ncclSystemError", false},
      {"devices=2;fail=cuMemGetHandleForAddressRange:1:801", "dmabuf", "",
       "pass through the host, as adapters cannot be given its memory", true},
  }));
  CAPTURE(row.settings, row.memory, row.fault);
  {
    const Gpu gpu(row.settings);
    const Variable takes("NET_PLUGIN_MEMORY", row.memory), fault("NET_PLUGIN_FAULT", row.fault);
    const Said said;
    std::atomic<uint64_t> byAdapter{0}, staged{0};
    CHECK(onHosts(9, "ab", [&](const Rank& r, GpuRank* own) -> std::string {
            for (int times = 0; times < 2; ++times) {
              if (std::string why = everything(r, own, 30'001); !why.empty()) return why;
            }
            byAdapter += trafficOf(r).byAdapter;
            staged += trafficOf(r).throughHost;
            return "";
          }) == "");
    CHECK(said.times(row.said) > 0);
    CHECK(staged > 0);
    CHECK((byAdapter > 0) == row.byAdapter);
  }
  checkTidy(9);
}

TEST_CASE("a flush that fails ends the call by the plugin's name") {
  {
    const Gpu gpu("devices=2;flush=1");
    const Variable fault("NET_PLUGIN_FAULT", "iflush");
    const std::string why = onHosts(12, "ab", [&](const Rank& r, GpuRank* own) -> std::string {
      const DeviceFloats x(*own, 30'001);
      x.fill(1);
      RANK_TRY(tuttiAllReduce(x.data(), x.data(), 30'001, tuttiFloat, tuttiSum, r.comm, own->asTutti()));
      tuttiResult_t seen = tuttiSuccess;
      for (const Deadline last = Deadline::inMs(20'000); seen == tuttiSuccess && !last.passed();) {
        RANK_TRY(tuttiCommGetAsyncError(r.comm, &seen));
        cuda::pauseBetweenLooks();
      }
      (void)own->synchronize();
      return tuttiGetLastError(r.comm);
    });
    CAPTURE(why);
    CHECK(why.find("iflush gave ncclSystemError (nothing answers)") != std::string::npos);
  }
  CHECK(netPluginCount(12, "Complaints") == 0);
}

TEST_CASE("a rank that ends in the middle of a call leaves no plugin behind that writes its memory") {
  constexpr size_t kCount = 3'000'000;
  {
    const Gpu gpu("devices=2;flush=1");
    CHECK(onHosts(11, "ab", [&](const Rank& r, GpuRank* own) -> std::string {
            const DeviceFloats x(*own, kCount);
            x.fill(1);
            RANK_TRY(tuttiAllReduce(x.data(), x.data(), kCount, tuttiFloat, tuttiSum, r.comm, own->asTutti()));
            return r.rank == 0 ? "gone on purpose" : "";
          }).find("rank 0: gone on purpose") == 0);
  }
  CHECK(Gpu::lastComplaints() == "");
  CHECK(netPluginCount(11, "Complaints") == 0);
}

TEST_CASE("calls between devices of two hosts are captured, and replayed by a plugin") {
  constexpr size_t kCount = 70'001;
  {
    const Gpu gpu("devices=2;flush=1");
    CHECK(onHosts(8, "ab", [&](const Rank& r, GpuRank* own) { return replayedCalls(r, *own, kCount); }) == "");
  }
  checkTidy(8);
}
