// Communicators made of others on devices, and several of them side by side.
#include <barrier>
#include <catch2/catch.hpp>

#include "tests/support/gpu.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// A communicator that calls of a non-blocking one have begun to make.
std::string arrive(tuttiResult_t begun, const tuttiComm_t* made) {
  if (begun != tuttiSuccess && begun != tuttiInProgress) return tuttiGetLastError(nullptr);
  tuttiComm_t comm = *made;
  tuttiResult_t state = tuttiInProgress;
  while (state == tuttiInProgress) {
    RANK_TRY(tuttiCommGetAsyncError(comm, &state));
    cuda::pauseBetweenLooks();
  }
  return state == tuttiSuccess ? "" : tuttiGetLastError(comm);
}

/// An all-reduce of ones and an all-to-all, each of which is in the stream only when comm is no longer under way.
std::string sums(tuttiComm_t comm, GpuRank& own) {
  constexpr size_t kCount = 3000;
  int rank = 0, n = 0;
  RANK_TRY(tuttiCommUserRank(comm, &rank));
  RANK_TRY(tuttiCommCount(comm, &n));
  FloatBuffer x(kCount, 0, Memory::Other), sent(static_cast<size_t>(n), 0, Memory::Other);
  FloatBuffer received(static_cast<size_t>(n), 0, Memory::Other);
  for (size_t i = 0; i < kCount; ++i) x.set(i, 1);
  for (size_t i = 0; i < sent.count(); ++i) sent.set(i, static_cast<float>(rank));
  std::string why = arrive(tuttiAllReduce(x.at(0), x.at(0), kCount, tuttiFloat, tuttiSum, comm, own.asTutti()), &comm);
  if (!why.empty()) return why;
  why = arrive(tuttiAllToAll(sent.at(0), received.at(0), 1, tuttiFloat, comm, own.asTutti()), &comm);
  if (!why.empty()) return why;
  RANK_CHECK(own.synchronize().empty());
  for (size_t i = 0; i < kCount; ++i) RANK_CHECK(x.get(i) == static_cast<float>(n));
  for (size_t i = 0; i < received.count(); ++i) RANK_CHECK(received.get(i) == static_cast<float>(i));
  return "";
}

/// A sum of x over the three ranks of comm, again and again.
struct Tripling {
  tuttiComm_t comm;
  FloatBuffer x;
  Tripling(tuttiComm_t c, size_t count) : comm(c), x(count, 0, Memory::Other) {
    for (size_t i = 0; i < count; ++i) x.set(i, 1);
  }
  tuttiResult_t call(const GpuRank& own) {
    return tuttiAllReduce(x.at(0), x.at(0), x.count(), tuttiFloat, tuttiSum, comm, own.asTutti());
  }
  bool is(float value) const { return x.get(0) == value && x.get(x.count() - 1) == value; }
};

}  // namespace

TEST_CASE("communicators on devices are split, shrunk and made without blocking") {
  const std::string asked = GENERATE("stream", "resident", "proxy");
  const Variable way("TUTTI_CUDA_EXECUTOR", asked.c_str());
  {
    // With a proxy the stream of a rank waits for calls to which the others' streams have yet to come.
    const Gpu gpu(asked == "proxy" ? "devices=1" : "devices=1;queues=1");
    std::barrier ended(4);
    CHECK(onThreads(4, [&ended](int rank, const tuttiUniqueId& id) -> std::string {
            GpuRank own(0);
            tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
            config.device = TUTTI_DEVICE_CUDA;
            config.blocking = 0;
            tuttiComm_t all = nullptr, half = nullptr, three = nullptr;
            std::string why = arrive(tuttiCommInitRankConfig(&all, 4, id, rank, &config), &all);
            if (why.empty()) why = arrive(tuttiCommSplit(all, rank % 2, -rank, &half, nullptr), &half);
            if (why.empty()) why = sums(half, own);
            if (why.empty()) why = sums(all, own);
            const int left = 2;
            if (why.empty() && rank != left) {
              why = arrive(tuttiCommShrink(all, &left, 1, &three, nullptr, TUTTI_SHRINK_DEFAULT), &three);
              if (why.empty()) why = sums(three, own);
            }
            ended.arrive_and_wait();  // an abort ends what was split from the communicator
            for (tuttiComm_t comm : {three, half, all}) {
              if (comm != nullptr) tuttiCommAbort(comm);
            }
            return why;
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("several communicators work on one device and on streams of their own") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident"));
  {
    const Gpu gpu("devices=1;queues=1");
    CHECK(onGpuRanks(3, 1, [](const Rank& r, GpuRank& own) -> std::string {
            GpuRank other(0);
            tuttiComm_t second = nullptr;
            RANK_TRY(tuttiCommSplit(r.comm, 0, (r.rank + 1) % 3, &second, nullptr));
            Tripling a(r.comm, 20'000), b(second, 7);
            for (int round = 0; round < 3; ++round) {  // work of the one is under way while the other's is enqueued
              RANK_TRY(a.call(own));
              RANK_TRY(b.call(other));
            }
            RANK_CHECK(own.synchronize().empty() && other.synchronize().empty());
            RANK_CHECK(a.is(27) && b.is(27));
            RANK_TRY(tuttiCommDestroy(second));
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

// The handle of threads' default streams means another stream on any thread that helps.
TEST_CASE("a group gives several communicators the default stream of its thread") {
  const Variable way("TUTTI_CUDA_EXECUTOR", GENERATE("stream", "resident", "proxy"));
  {
    const Gpu gpu("devices=1;delay=200");
    CHECK(onGpuRanks(3, 1, [](const Rank& r, GpuRank& own) -> std::string {
            const auto handle = reinterpret_cast<tuttiStream_t>(cuda::kStreamPerThread);
            const cuda::Driver& d = own.driver();
            tuttiComm_t second = nullptr;
            RANK_TRY(tuttiCommSplit(r.comm, 0, (r.rank + 1) % 3, &second, nullptr));
            Tripling a(r.comm, 20'000), b(second, 7);
            const Gate gate;
            RANK_CHECK(gate.holdsUp(own, cuda::kStreamPerThread));
            for (int round = 0; round < 2; ++round) {
              RANK_TRY(tuttiGroupStart());
              RANK_TRY(tuttiAllReduce(a.x.at(0), a.x.at(0), a.x.count(), tuttiFloat, tuttiSum, a.comm, handle));
              RANK_TRY(tuttiAllReduce(b.x.at(0), b.x.at(0), b.x.count(), tuttiFloat, tuttiSum, b.comm, handle));
              RANK_TRY(tuttiGroupEnd());
            }
            RANK_CHECK(a.is(1) && b.is(1));  // the stream has not come to the calls
            gate.open();
            RANK_CHECK(d.cuStreamSynchronize(cuda::kStreamPerThread) == cuda::kSuccess);
            RANK_CHECK(a.is(9) && b.is(9));
            RANK_TRY(tuttiCommDestroy(second));
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}

TEST_CASE("calls of several communicators are in one graph") {
  const int devices = GENERATE(1, 3);
  const Variable way("TUTTI_CUDA_EXECUTOR", devices == 1 ? "auto" : "resident");
  {
    const Gpu gpu(devices == 1 ? "devices=1" : "devices=3");
    if (!gpu.has(devices)) return;
    CHECK(onGpuRanks(3, devices, [](const Rank& r, GpuRank& own) -> std::string {
            const cuda::Driver& d = own.driver();
            tuttiComm_t second = nullptr;
            RANK_TRY(tuttiCommSplit(r.comm, 0, (r.rank + 1) % 3, &second, nullptr));
            Tripling a(r.comm, 20'000), b(second, 7);
            cuda::Graph graph = nullptr;
            cuda::GraphExec exec = nullptr;
            RANK_CHECK(d.cuStreamBeginCapture(own.stream(), cuda::kCaptureModeThreadLocal) == cuda::kSuccess);
            RANK_TRY(b.call(own));
            RANK_TRY(a.call(own));
            RANK_TRY(b.call(own));
            RANK_CHECK(d.cuStreamEndCapture(own.stream(), &graph) == cuda::kSuccess);
            RANK_CHECK(d.cuGraphInstantiateWithFlags(&exec, graph, 0) == cuda::kSuccess);
            for (int round = 0; round < 2; ++round) {
              RANK_CHECK(d.cuGraphLaunch(exec, own.stream()) == cuda::kSuccess);
            }
            RANK_CHECK(own.synchronize().empty());
            RANK_CHECK(a.is(9) && b.is(81));
            d.cuGraphExecDestroy(exec);
            d.cuGraphDestroy(graph);
            RANK_TRY(tuttiCommDestroy(second));
            return "";
          }) == "");
  }
  CHECK(Gpu::complaints() == "");
}
