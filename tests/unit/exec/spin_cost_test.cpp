// When a thread that spins finds that others want its core.
#include "src/exec/spin_cost.hpp"

#include <catch2/catch.hpp>

using namespace tutti;

namespace {

constexpr int64_t kLook = SpinCost::kBetweenLooksNs;

struct Thread {
  std::optional<ThreadTime> time = ThreadTime();
  std::optional<TurnCost::CoreTime> core;
  int64_t now = 1'000'000'000;
  int looks = 0;
  SpinCost cost{[this] { return ++looks, time; }, [this] { return core; }};

  /// After `ns`, for a part of which it had no core, before so many turns; other tasks had it for so long.
  bool after(int64_t ns, int64_t delayed, int64_t others = 0, int64_t turns = 1) {
    now += ns;
    if (time) time->delayNs += delayed, time->ranNs += ns - delayed, time->turns += turns;
    if (core) core->tasksNs += ns - delayed + others;
    return cost.briefly(now);
  }
};

}  // namespace

TEST_CASE("a thread that is kept from its core spins little, until it is not any more") {
  Thread thread;
  CHECK(!thread.after(kLook, kLook));  // from here on the delay is known
  CHECK(!thread.after(kLook, kLook / SpinCost::kDelayedPart - 1));
  CHECK(thread.after(kLook, kLook / SpinCost::kDelayedPart));
  CHECK(thread.after(kLook, kLook / 2));
  CHECK(!thread.after(kLook, 1000));
}

TEST_CASE("between two looks what the first has found holds") {
  Thread thread;
  CHECK(!thread.after(kLook, 0));
  CHECK(thread.after(kLook, kLook / 2));
  for (int64_t ns = 0; ns < kLook - 1; ns += kLook / 10) CHECK(thread.after(ns == 0 ? 0 : kLook / 10, 0));
  CHECK(thread.looks == 2);
}

TEST_CASE("what counts is the part of the time since the last look, however long that was") {
  Thread thread;
  CHECK(!thread.after(kLook, 0));
  CHECK(!thread.after(100 * kLook, kLook));
  CHECK(thread.after(100 * kLook, 50 * kLook));
}

TEST_CASE("where the system does not tell who had the core threads spin on") {
  Thread thread;
  thread.time.reset();
  for (int i = 0; i < 10; ++i) CHECK(!thread.after(kLook, kLook));
}

TEST_CASE("work of the system that takes the core often and briefly is no reason to sleep") {
  constexpr int64_t kTurns = kLook / 2 / SpinCost::kLeastTurnNs;
  Thread thread;
  CHECK(!thread.after(kLook, 0));
  CHECK(!thread.after(kLook, kLook / 2, 0, kTurns + 1));
  CHECK(thread.after(kLook, kLook / 2, 0, kTurns));
  CHECK(!thread.after(kLook, kLook / 2, 0, kTurns + 1));
}

TEST_CASE("a core that the system wants for itself is none that others want, as far as that is known") {
  constexpr int64_t kPart = kLook / 2, kLooks = SpinCost::kWindowNs / kLook;
  Thread thread;
  thread.core = TurnCost::CoreTime();
  CHECK(!thread.after(kLook, 0));
  for (int i = 0; i < kLooks; ++i) CHECK(thread.after(kLook, kPart));  // it has to be found out first
  int64_t trusted = 0;
  for (; !thread.after(kLook, kPart); trusted += kLook) REQUIRE(trusted < 2 * SpinCost::kLeastTrustNs);
  CHECK(trusted == SpinCost::kLeastTrustNs);
  for (int i = 1; i < kLooks; ++i) CHECK(thread.after(kLook, kPart));
  for (trusted = 0; !thread.after(kLook, kPart); trusted += kLook) REQUIRE(trusted < 3 * SpinCost::kLeastTrustNs);
  CHECK(trusted == 2 * SpinCost::kLeastTrustNs);  // it is believed for longer
}

TEST_CASE("a program that comes beside what the system does is seen") {
  constexpr int64_t kPart = kLook / 2;
  Thread thread;
  thread.core = TurnCost::CoreTime();
  CHECK(!thread.after(kLook, 0));
  for (int64_t ns = 0; ns < 2 * SpinCost::kWindowNs; ns += kLook) CHECK(thread.after(kLook, kPart, kPart / 2));
  thread.core->core = 1;  // a thread that moves to another core
  for (int64_t ns = 0; ns < SpinCost::kWindowNs; ns += kLook) CHECK(thread.after(kLook, kPart));
}
