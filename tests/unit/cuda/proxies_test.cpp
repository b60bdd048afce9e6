// Proxies of several communicators on the one thread of the progress engine: none waits for another's ranks.
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>

#include "src/base/clock.hpp"
#include "tests/support/gpu.hpp"
#include "tests/support/named_threads.hpp"
#include "tests/support/variable.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr size_t kSummed = 20'000;

/// A rank's part in a communicator of two: a stream and memory of its own.
struct Member {
  GpuRank own;
  DeviceFloats x;
  tuttiComm_t comm;
  Member(tuttiComm_t c, int ordinal) : own(ordinal), x(own, kSummed), comm(c) {}
  /// Enqueued; the stream waits for the other rank.
  tuttiResult_t sum() {
    x.fill(1);
    return call();
  }
  tuttiResult_t call() const {
    return tuttiAllReduce(x.data(), x.data(), kSummed, tuttiFloat, tuttiSum, comm, own.asTutti());
  }
  std::string result() const {
    if (std::string why = own.synchronize(); !why.empty()) return why;
    return x.check(0, kSummed, 2);
  }
};

/// Two ranks, each on a device, with two communicators; other's calls have a deadline of otherMs.
using Body = std::function<std::string(int rank, Member& a, Member& other)>;
std::string onBoth(int otherMs, const Body& body) {
  const Variable where("TUTTI_DEVICE", "cuda"), way("TUTTI_CUDA_EXECUTOR", "proxy"),
      deadline("TUTTI_TIMEOUT_MS", "60000");
  return onGpuRanks(2, 2, [&](const Rank& r, GpuRank&) -> std::string {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.device = TUTTI_DEVICE_CUDA;
    config.timeoutMs = otherMs;
    tuttiComm_t second = nullptr;
    RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &second, &config));
    std::string why;
    {
      Member a(r.comm, r.rank), other(second, r.rank);
      why = body(r.rank, a, other);
      if (other.comm != nullptr) tuttiCommAbort(other.comm);
    }
    return why;
  });
}

/// A rank that gives up does not keep the other at a barrier.
struct Meeting {
  std::barrier<>& both;
  ~Meeting() { both.arrive_and_drop(); }
  void operator()() const { both.arrive_and_wait(); }
};

}  // namespace

TEST_CASE("all proxies of a process have one thread, which sleeps while nothing is under way") {
  {
    const Gpu gpu("devices=2");
    CHECK(threadsNamed("tutti-progress") == 0);
    std::barrier both(2);
    std::atomic<bool> sleeps{false};
    CHECK(onBoth(20'000, [&](int rank, Member& a, Member& other) -> std::string {
            const Meeting meet{both};
            for (int call = 0; call < 3; ++call) {
              RANK_TRY(a.sum());
              RANK_TRY(other.sum());
              if (std::string why = a.result() + other.result(); !why.empty()) return why;
            }
            meet();
            RANK_CHECK(threadsNamed("tutti-progress") == 1);
            for (int looks = 0; rank == 0 && !sleeps && looks < 100; ++looks) {
              const long before = switchesOf("tutti-progress");
              ::usleep(100'000);
              sleeps = switchesOf("tutti-progress") == before;
            }
            meet();
            RANK_CHECK(sleeps);
            return "";
          }) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("a rank that comes late to one communicator's call holds up no other's") {
  {
    const Gpu gpu("devices=2");
    CHECK(onBoth(20'000, [&](int rank, Member& a, Member& other) -> std::string {
            if (rank == 0) RANK_TRY(a.sum());
            for (int call = 0; call < 5; ++call) {
              RANK_TRY(other.sum());
              if (std::string why = other.result(); !why.empty()) return why;
            }
            if (rank == 1) RANK_TRY(a.sum());
            return a.result();
          }) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("a call expires and names its rank while another communicator's calls go on") {
  {
    const Gpu gpu("devices=2");
    std::barrier both(2);
    std::atomic<bool> over{false};
    CHECK(onBoth(300, [&](int rank, Member& a, Member& other) -> std::string {
            const Meeting meet{both};
            if (rank == 0) RANK_TRY(other.sum());
            tuttiResult_t state = tuttiSuccess;
            int calls = 0;
            for (const Deadline deadline = Deadline::inMs(20'000); !over; ++calls) {
              RANK_TRY(a.sum());
              if (std::string why = a.result(); !why.empty()) return why;
              if (rank == 0) RANK_TRY(tuttiCommGetAsyncError(other.comm, &state));
              meet();
              if (rank == 0) over = state != tuttiSuccess || deadline.passed();
              meet();
            }
            RANK_CHECK(calls > 1);
            if (rank == 1) return "";
            RANK_CHECK(state == tuttiTimeout);
            const std::string said = tuttiGetLastError(other.comm);
            return said.find("rank 1") != std::string::npos ? "" : "it says: " + said;
          }) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}

TEST_CASE("a communicator is aborted while another's call is under way, and while its own streams have yet to come") {
  const bool heldUp = GENERATE(false, true);
  CAPTURE(heldUp);
  {
    const Gpu gpu("devices=2");
    std::atomic<bool> aborted{false};
    CHECK(onBoth(60'000, [&](int rank, Member& a, Member& other) -> std::string {
            const Gate gate(rank);
            if (rank == 0) {
              RANK_TRY(a.sum());
              other.x.fill(1);
              if (heldUp) RANK_CHECK(gate.holdsUp(other.own, other.own.stream()));
              RANK_TRY(other.call());
              RANK_TRY(tuttiCommAbort(other.comm));
              other.comm = nullptr;
              aborted = true;
              gate.open();
              if (std::string why = other.own.synchronize(); !why.empty()) return why;
            } else {
              // Only then does the other communicator's call end.
              for (const Deadline deadline = Deadline::inMs(30'000); !aborted;) {
                RANK_CHECK(!deadline.passed());
                ::usleep(1000);
              }
              RANK_TRY(a.sum());
            }
            return a.result();
          }) == "");
  }
  CHECK(Gpu::lastComplaints() == "");
}
