// What a receiver says of how long a message took.
#include "src/base/clock.hpp"
#include "tests/unit/transport/shm_pair.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int64_t kHourNs = int64_t{3600} * 1'000'000'000;

struct Timed {
  explicit Timed(Ends ends) : pair(ends, 4, 40'000), data(pattern(100'000, 3)), out(data.size()) {}

  bool send(size_t bytes, int64_t beganNs, bool lends) {
    Endpoint& a = pair.a();
    a.timeSends(beganNs);
    const bool gone = lends ? *a.postSend(data.data(), bytes, callNumber(number)) != 0
                            : *a.send(data.data(), bytes, callNumber(number));
    a.timeSends(0);
    return gone;
  }
  bool receive(size_t bytes) { return *pair.b().receive(out.data(), {bytes, callNumber(number)}); }

  ShmPair pair;
  std::vector<std::byte> data, out;
  uint64_t number = 1;
};

}  // namespace

TEST_CASE("a message that is there before its receiver is timed from when the receiver comes, however it goes") {
  for (const Ends ends : {Ends::Threads, Ends::Processes}) {
    Timed t(ends);
    // In the ring, in a slot, in a slot by steps, in pieces of slots.
    for (const size_t bytes : {200, 3'000, 30'000, 90'000}) {
      for (const bool lends : {false, true}) {
        INFO(bytes << (lends ? " lent" : ""));
        if (lends && !t.pair.a().canOffer(t.data.data(), bytes)) continue;
        REQUIRE(t.send(bytes, nowNs() - kHourNs, lends));
        CHECK(!t.pair.a().timedNs());
        const int64_t before = nowNs();
        REQUIRE(t.receive(bytes));
        const auto ns = t.pair.a().timedNs();
        REQUIRE(ns);
        CHECK(*ns > 0);
        CHECK(*ns <= nowNs() - before);
        ++t.number;
      }
    }
  }
}

TEST_CASE("a message that its receiver waits for is timed from when its send was called") {
  Timed t(Ends::Processes);
  CHECK(!t.receive(3'000));
  REQUIRE(t.send(3'000, nowNs() - 1'000'000, false));
  REQUIRE(t.receive(3'000));
  REQUIRE(t.pair.a().timedNs());
  CHECK(*t.pair.a().timedNs() >= 1'000'000);
}

TEST_CASE("nothing is said of messages that nobody times, and of those of another clock") {
  Timed t(Ends::Processes);
  REQUIRE(t.send(3'000, 0, false));
  REQUIRE(t.receive(3'000));
  CHECK(!t.pair.a().timedNs());

  ++t.number;
  CHECK(!t.receive(3'000));
  REQUIRE(t.send(3'000, nowNs() + kHourNs, false));
  REQUIRE(t.receive(3'000));
  CHECK(!t.pair.a().timedNs());

  ++t.number;
  CHECK(!t.receive(3'000));
  REQUIRE(t.send(3'000, nowNs() - kHourNs, false));
  REQUIRE(t.receive(3'000));
  CHECK(!t.pair.a().timedNs());
}

TEST_CASE("a time is that of the last timed message alone") {
  Timed t(Ends::Processes);
  REQUIRE(t.send(3'000, nowNs(), false));
  REQUIRE(t.receive(3'000));
  REQUIRE(t.pair.a().timedNs());
  ++t.number;
  REQUIRE(t.send(3'000, nowNs(), false));
  CHECK(!t.pair.a().timedNs());
  REQUIRE(t.receive(3'000));
  CHECK(t.pair.a().timedNs());
}
