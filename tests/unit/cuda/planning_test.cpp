// What communicators on devices are told by the planner: the devices' costs, the same on all ranks.
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

tuttiResult_t ask(const Rank& r, tuttiCall_t call, size_t count, tuttiEstimate_t* e) {
  *e = TUTTI_ESTIMATE_INITIALIZER;
  const bool message = call == tuttiCallSend || call == tuttiCallRecv;
  return tuttiCommEstimate(r.comm, call, count, tuttiFloat32, tuttiSum, message ? (r.rank + 1) % r.nRanks : 0, e);
}

std::string text(const tuttiEstimate_t& e) {
  return std::to_string(e.timeUs) + " " + e.algorithm + " " + e.protocol + " " + std::to_string(e.nChannels) + "\n";
}

/// All calls' estimates of all ranks, which are the same.
std::string estimates(int nRanks, int devices) {
  std::vector<std::string> said(static_cast<size_t>(nRanks));
  CHECK(onGpuRanks(nRanks, devices, [&](const Rank& r, GpuRank&) -> std::string {
          for (int call = 0; call < tuttiNumCalls; ++call) {
            for (const size_t count : {size_t{2}, size_t{1} << 14, size_t{1} << 26}) {
              tuttiEstimate_t e;
              RANK_TRY(ask(r, static_cast<tuttiCall_t>(call), count, &e));
              said[static_cast<size_t>(r.rank)] += text(e);
            }
          }
          return "";
        }) == "");
  for (const std::string& s : said) CHECK(s == said[0]);
  return said[0];
}

}  // namespace

TEST_CASE("ranks of a device agree on what its memory and not the host's costs") {
  const Gpu gpu("devices=1");
  for (const int nRanks : {2, 8}) {
    const std::string said = estimates(nRanks, 1);
    CAPTURE(nRanks, said);
    CHECK(said.find("onepass direct") != std::string::npos);
    CHECK(said.find("paramserver") == std::string::npos);
  }
}

TEST_CASE("plans of blocks that are asked for take what the device's memory takes") {
  const Gpu gpu("devices=1");
  if (FakeCuda::get().reset == nullptr) return;  // the test driver's device has the memory of an H200
  const Variable asked("TUTTI_ALGO", "allreduce:twoshot");
  CHECK(onGpuRanks(4, 1, [](const Rank& r, GpuRank&) -> std::string {
          tuttiEstimate_t small, large;
          RANK_TRY(ask(r, tuttiCallAllReduce, 2, &small));
          RANK_TRY(ask(r, tuttiCallAllReduce, size_t{1} << 26, &large));
          RANK_CHECK(std::string(large.algorithm) == "twoshot");
          const double memoryUs = 11.0 * (size_t{1} << 28) / (0.9 * 4916.7 * 1e3);  // 3 n - 1 times the vector
          RANK_CHECK(large.timeUs > memoryUs);
          RANK_CHECK(large.timeUs < 3 * memoryUs);  // the test driver has few blocks
          RANK_CHECK(small.timeUs > 6.6 && small.timeUs < 15);
          return "";
        }) == "");
}

TEST_CASE("blocks of plans are as many as the program lets them be") {
  const Variable asked("TUTTI_ALGO", "allreduce:twoshot");
  const int most = GENERATE(2, 64);
  const Gpu gpu("devices=1");
  CHECK(onThreads(2, [most](int rank, const tuttiUniqueId& id) {
          GpuRank own(0);
          tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
          config.device = TUTTI_DEVICE_CUDA;
          config.maxChannels = most;
          return asRank(rank, 2, id, config, [&](const Rank& r) -> std::string {
            tuttiEstimate_t e;
            RANK_TRY(ask(r, tuttiCallAllReduce, size_t{1} << 20, &e));
            RANK_CHECK(most == 2 ? e.nChannels == 2 : e.nChannels > 2);
            return checkAllReduce(r, own.options(size_t{1} << 18, false, 0, 0));
          });
        }) == "");
}

TEST_CASE("each way of carrying calls out has costs of its own") {
  const Gpu gpu("devices=2");
  if (!gpu.has(2)) return;
  std::vector<double> us;
  for (const char* asked : {"resident", "stream", "proxy"}) {
    const Variable way("TUTTI_CUDA_EXECUTOR", asked);
    CHECK(onGpuRanks(2, 2, [&](const Rank& r, GpuRank&) -> std::string {
            tuttiEstimate_t e;
            RANK_TRY(ask(r, tuttiCallAllReduce, 2, &e));
            if (r.rank == 0) us.push_back(e.timeUs);
            RANK_CHECK(e.timeUs > 6);
            return "";
          }) == "");
  }
  REQUIRE(us.size() == 3);
  CHECK(us[0] < us[1]);
  CHECK(us[1] < us[2]);
}

TEST_CASE("hierarchical algorithms know the ranks of a device") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident"));
  const Variable asked("TUTTI_ALGO", "allreduce:hierarchical"), strict("TUTTI_ALGO_STRICT", "1");
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    CHECK(onGpuRanks(6, 2, [](const Rank& r, GpuRank& own) -> std::string {
            tuttiEstimate_t e;
            RANK_TRY(ask(r, tuttiCallAllReduce, 3000, &e));
            RANK_CHECK(std::string(e.algorithm) == "hierarchical");
            return checkAllReduce(r, own.options(3000, false, 0, 0));
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("channels that start apart give the same on devices") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident")), strict("TUTTI_ALGO_STRICT", "1");
  const Variable asked("TUTTI_ALGO", "allreduce:hierarchical,allgather:hierarchical,broadcast:hierarchical");
  const Variable channels("TUTTI_NCHANNELS", "3"), slots("TUTTI_SLOT_BYTES", "4096");
  {
    const Gpu gpu("devices=2");
    if (!gpu.has(2)) return;
    CHECK(onGpuRanks(5, 2, [](const Rank& r, GpuRank& own) -> std::string {
            for (auto* check : {checkAllReduce, checkAllGather, checkBroadcast}) {
              for (const bool inPlace : {false, true}) {
                if (std::string why = check(r, own.options(50'001, inPlace, 0, 0)); !why.empty()) return why;
              }
            }
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("a device's figures are those of its driver, the slowest device's count") {
  const Gpu gpu("devices=1");
  const auto device = cuda::CudaDevice::open(0);
  REQUIRE(device.status().message() == "");
  CHECK((*device)->memoryGBps() >= 0);
  CHECK((*device)->computeCapability() >= 70);
  if (FakeCuda::get().reset != nullptr) CHECK((*device)->memoryGBps() == Approx(2 * 3.201 * 6144 / 8).epsilon(1e-6));
}
