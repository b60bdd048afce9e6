// What messages on devices are like: of several chunks, of every type, and beyond four gigabytes.
#include <catch2/catch.hpp>

#include "src/exec/reduce/reduce.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

// Values whose sums and products are exact in every type.
int valueAt(int rank, size_t i) { return static_cast<int>((static_cast<size_t>(rank) + i) % 3); }

double combined(tuttiRedOp_t op, bool isBool, size_t i) {
  const int a = valueAt(0, i), b = valueAt(1, i), c = valueAt(2, i);
  const bool any = a != 0 || b != 0 || c != 0, all = a != 0 && b != 0 && c != 0;
  if (isBool) {
    if (op == tuttiBxor) return (a != 0) != ((b != 0) != (c != 0));
    return op == tuttiAvg ? any : combineBool(op, combineBool(op, a, b), c);
  }
  switch (op) {
    case tuttiSum: return a + b + c;
    case tuttiProd: return a * b * c;
    case tuttiMax: return std::max({a, b, c});
    case tuttiMin: return std::min({a, b, c});
    case tuttiAvg: return 1;  // 0, 1 and 2 in some order
    case tuttiBand: return a & b & c;
    case tuttiBor: return a | b | c;
    case tuttiBxor: return a ^ b ^ c;
    case tuttiLand: return all;
    default: return any;
  }
}

std::string reduceAll(const Rank& r, GpuRank& own, tuttiDataType_t type, tuttiRedOp_t op, void* data) {
  constexpr size_t kElements =
      1500;  // more than one packet's worth of the largest, no multiple of a pack of the smallest
  const size_t bytes = dataTypeBytes(type);
  std::vector<char> want(kElements * bytes);
  for (size_t i = 0; i < kElements; ++i) {
    putValue(type, static_cast<char*>(data) + i * bytes, valueAt(r.rank, i));
    putValue(type, want.data() + i * bytes, combined(op, type == tuttiBool, i));
  }
  RANK_TRY(tuttiAllReduce(data, data, kElements, type, op, r.comm, own.asTutti()));
  if (std::string why = own.synchronize(); !why.empty()) return why;
  const long bad = firstDifference(type, data, want.data(), kElements);
  if (bad < 0) return "";
  return std::string(dataTypeName(type)) + " " + std::string(redOpName(op)) + ": element " + std::to_string(bad);
}

/// Three times to the next rank of a ring; what is sent is overwritten at once, in the order of the stream.
std::string passRound(const Rank& r, GpuRank& own, bool captured) {
  constexpr size_t kElements = (size_t{1} << 18) + 5;  // a little more than is read where it lies
  const cuda::Driver& d = own.driver();
  const DeviceFloats out(own, kElements, DeviceFloats::Source::Driver),
      in(own, kElements, DeviceFloats::Source::Driver);
  const int next = (r.rank + 1) % r.nRanks, previous = (r.rank + r.nRanks - 1) % r.nRanks;
  const auto pass = [&]() -> std::string {
    RANK_TRY(tuttiGroupStart());
    RANK_TRY(tuttiSend(out.data(), kElements, tuttiFloat, next, r.comm, own.asTutti()));
    RANK_TRY(tuttiRecv(in.data(), kElements, tuttiFloat, previous, r.comm, own.asTutti()));
    RANK_TRY(tuttiGroupEnd());
    RANK_CHECK(d.cuMemsetD32Async(cuda::addressOf(out.data()), 0, kElements, own.stream()) == cuda::kSuccess);
    return "";
  };
  cuda::Graph graph = nullptr;
  cuda::GraphExec exec = nullptr;
  if (captured) {
    RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
    if (std::string why = pass(); !why.empty()) return why;
    RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
    RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
  }
  for (int round = 0; round < 3; ++round) {
    out.fill(static_cast<float>(10 * round + r.rank + 1));
    if (captured) {
      RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
    } else if (std::string why = pass(); !why.empty()) {
      return why;
    }
    if (std::string why = in.check(0, kElements, static_cast<float>(10 * round + previous + 1)); !why.empty())
      return why;
  }
  if (captured) d.cuGraphExecDestroy(exec);
  if (captured) d.cuGraphDestroy(graph);
  return "";
}

}  // namespace

TEST_CASE("ranks on devices reduce every type with every operator") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident", "proxy"));
  {
    const Gpu gpu;
    CHECK(onGpuRanks(3, 1, [](const Rank& r, GpuRank& own) -> std::string {
            FloatBuffer room(1500 * 2, 0, Memory::Other);
            for (const tuttiDataType_t type : allTypes()) {
              for (const tuttiRedOp_t op : opsOf(type)) {
                if (std::string why = reduceAll(r, own, type, op, room.at(0)); !why.empty()) return why;
              }
            }
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

// Log-round algorithms send several chunks in a round: in one message, or each in its own.
TEST_CASE("several chunks of a round share a message, which takes fewer operations of a stream") {
  const Variable algorithm("TUTTI_ALGO", "circulant");
  const std::string way = GENERATE("stream", "proxy");
  const Variable executor("TUTTI_CUDA_EXECUTOR", way.c_str());
  CAPTURE(way);
  const char* const operation = way == "stream" ? "cuStreamBatchMemOp" : "cuEventRecord";
  int operations[2] = {};
  for (const bool joined : {false, true}) {
    CAPTURE(joined);
    const Variable join("TUTTI_JOIN", joined ? "1" : "0");
    {
      const Gpu gpu(way == "stream" ? "devices=2;queues=1" : "devices=2");
      const int devices = gpu.has(2) ? 2 : 1;
      CHECK(onGpuRanks(5, devices, [](const Rank& r, GpuRank& own) {
              std::string why = checkEverything(r, own.options(777, false, 4, 3));
              if (why.empty()) why = checkEverything(r, own.options(1203, true, 0, 0));
              return why;
            }) == "");
      if (FakeCuda::get().calls != nullptr) operations[joined ? 1 : 0] = FakeCuda::get().calls(operation);
    }
    CHECK(Gpu::complaints() == "");
  }
  CAPTURE(operations[0], operations[1]);
  if (FakeCuda::get().calls != nullptr) CHECK(operations[1] < operations[0]);
}

// Of one process, so that their addresses mean the same; half of what the message costs else are its copies.
TEST_CASE("ranks that share a device read each other's large messages where they lie") {
  const Variable way("TUTTI_CUDA_EXECUTOR", "stream");
  const bool captured = GENERATE(false, true);
  const int devices = GENERATE(1, 2);
  CAPTURE(captured, devices);
  int copies[2] = {};
  for (const bool lent : {false, true}) {
    const Variable protocol("TUTTI_PROTO", lent ? "" : "slots");
    {
      const Gpu gpu(devices == 1 ? "devices=1;queues=8;delay=50" : "devices=2;delay=50");
      if (!gpu.has(devices)) return;
      CHECK(onGpuRanks(3, devices, [&](const Rank& r, GpuRank& own) { return passRound(r, own, captured); }) == "");
      if (FakeCuda::get().calls != nullptr) copies[lent ? 1 : 0] = FakeCuda::get().calls("cuMemcpyAsync");
    }
    CHECK(Gpu::complaints() == "");
  }
  CAPTURE(copies[0], copies[1]);
  if (FakeCuda::get().calls == nullptr) return;
  // Filling and checking is a copy each, too.  On two devices there is one pair that shares one.
  const int messages = captured ? 3 : 9;
  CHECK((devices == 1 ? copies[1] == 18 + messages : copies[1] < copies[0]));
}

TEST_CASE("blocks lie beyond four gigabytes") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident", "proxy"));
  constexpr size_t kFar = (size_t{5} << 30) + 3;  // bytes; what nobody touches takes no memory
  const std::vector<size_t> counts = {5000, 70'001}, displs = {kFar, 0};
  {
    const Gpu gpu;
    if (FakeCuda::get().reset == nullptr) return;
    CHECK(onGpuRanks(2, 1, [&](const Rank& r, GpuRank& own) -> std::string {
            const auto me = static_cast<size_t>(r.rank);
            auto* all = static_cast<unsigned char*>(Gpu::allocate(kFar + counts[0], 0, true));
            auto* back = static_cast<unsigned char*>(Gpu::allocate(counts[1], 0, true));
            RANK_CHECK(all != nullptr && back != nullptr);
            std::memset(back, r.rank + 7, counts[me]);
            RANK_TRY(tuttiAllGatherv(back, counts[me], all, counts.data(), displs.data(), tuttiUint8, r.comm,
                                     own.asTutti()));
            RANK_CHECK(own.synchronize().empty());
            for (size_t p = 0; p < 2; ++p) {
              for (size_t i = 0; i < counts[p]; ++i) RANK_CHECK(all[displs[p] + i] == p + 7);
            }
            RANK_TRY(tuttiReduceScatterv(all, back, counts.data(), displs.data(), tuttiUint8, tuttiSum, r.comm,
                                         own.asTutti()));
            RANK_CHECK(own.synchronize().empty());
            for (size_t i = 0; i < counts[me]; ++i) RANK_CHECK(back[i] == 2 * (me + 7));
            Gpu::free(all);
            Gpu::free(back);
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}
