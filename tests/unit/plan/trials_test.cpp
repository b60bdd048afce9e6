// The trials of one kind of call, with times that the test invents.
#include "src/plan/trials.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <random>

using namespace tutti;

namespace {

/// Ranks that make the same calls.
struct Ranks {
  /// nanoseconds of a call of a rank by a way
  using Times = std::function<int64_t(int rank, int way)>;

  explicit Ranks(int n, int ways, bool rooted = false, int64_t planNs = 0)
      : trials(static_cast<size_t>(n), Trials({.planNs = planNs})), nWays(ways), leaders(rooted) {}

  void prepare() {
    if (trials[0].wants() == Trials::Wants::Times) {
      std::vector<uint64_t> all;
      for (const Trials& t : trials) {
        const std::vector<uint64_t> times = t.times();
        all.insert(all.end(), times.begin(), times.end());
      }
      for (Trials& t : trials) t.settle(all, leaders);
      ++comparisons;
    }
    if (trials[0].wants() == Trials::Wants::Ways) {
      for (Trials& t : trials) t.offer(nWays);
    }
    REQUIRE(trials[0].wants() == Trials::Wants::Nothing);
  }

  /// The way that the call took.
  int call(const Times& times) {
    prepare();
    const int way = trials[0].way();
    for (size_t rank = 0; rank < trials.size(); ++rank) {
      REQUIRE(trials[rank].wants() == Trials::Wants::Nothing);
      const Trials::Turn turn = trials[rank].take();
      REQUIRE(turn.way == way);
      const int64_t ns = times(static_cast<int>(rank), way);
      if (turn.timed) trials[rank].record(turn, {ns});
    }
    return way;
  }

  std::vector<Trials> trials;
  int nWays;
  bool leaders;
  int comparisons = 0;
};

// So slow that a block has the fewest calls.
constexpr std::array<int64_t, 5> kCosts = {100'000, 190'000, 70'000, 120'000, 110'000};

}  // namespace

TEST_CASE("the fastest way is found within 150 calls, and trying costs a few of them") {
  for (const int nWays : {2, 3, 5}) {
    Ranks ranks(3, nWays);
    const auto cost = [&] {
      return kCosts[static_cast<size_t>(ranks.call([](int, int way) { return kCosts[static_cast<size_t>(way)]; }))];
    };
    int64_t spent = 0;
    for (int call = 0; call < 150; ++call) spent += cost();
    INFO(nWays);
    const int best = nWays == 2 ? 0 : 2;
    CHECK(ranks.trials[0].taken() == best);
    CHECK(spent < 160 * kCosts[0]);
    for (int call = 150; call < 5000; ++call) spent += cost();
    CHECK(ranks.trials[0].settled());
    CHECK(ranks.trials[0].taken() == best);
    CHECK(ranks.comparisons <= 5);
    CHECK(static_cast<double>(spent) < 5000 * (1 + Trials::kPrice) * static_cast<double>(kCosts[0]));
  }
}

TEST_CASE("what ranks tell before a call they may hear before the next, which goes by the fastest so far") {
  const auto times = [](int, int way) { return kCosts[static_cast<size_t>(way)]; };
  Ranks ranks(3, 5);
  Trials& one = ranks.trials[0];
  int comparisons = 0;
  for (int call = 0; call < 5000; ++call) {
    if (one.wants() != Trials::Wants::Nothing) {
      const Trials::Wants wants = one.wants();
      for (Trials& t : ranks.trials) t.putOff();
      REQUIRE(one.wants() == Trials::Wants::Nothing);
      for (Trials& t : ranks.trials) {
        const Trials::Turn turn = t.take();
        CHECK(turn.way == one.taken());
        CHECK_FALSE(turn.timed);
      }
      REQUIRE(one.wants() == wants);
      ++comparisons;
    }
    ranks.call(times);
  }
  CHECK(one.settled());
  CHECK(one.taken() == 2);
  CHECK(comparisons >= 3);
  CHECK(comparisons >= ranks.comparisons);
}

TEST_CASE("a way that is slower is tried rarely") {
  const auto times = [](int, int way) { return way == 0 ? 100'000 : 150'000; };
  Ranks ranks(2, 3);
  for (int call = 0; call < 150; ++call) ranks.call(times);
  int others = 0;
  for (int call = 0; call < 1000; ++call) others += ranks.call(times) != 0;
  CHECK(others <= 1000 * 2 * Trials::kPrice);  // each loses half a call
  CHECK(others > 30);
}

TEST_CASE("ways are planned once that costs little beside the calls") {
  constexpr int64_t kPlanNs = 100'000'000, kCallNs = 100'000;
  for (const int nRanks : {2, 5}) {
    Ranks ranks(nRanks, 5, false, kPlanNs);
    int calls = 0;
    while (ranks.call([](int, int) { return kCallNs; }) == 0 && calls < 1'000'000) ++calls;
    CHECK(static_cast<double>(calls) * kCallNs * Trials::kPrice >= kPlanNs * 0.99);
    CHECK(static_cast<double>(calls) * kCallNs * Trials::kPrice <= kPlanNs * 1.02);
  }
}

TEST_CASE("times of small calls are compared once that costs little beside them") {
  const auto callsBefore = [](double callNs) {
    Trials trials({.comparisonNs = 500'000, .callNs = callNs});
    int64_t calls = 0;
    for (; trials.wants() == Trials::Wants::Nothing; ++calls) CHECK(trials.take().way == 0);
    return calls;
  };
  CHECK(callsBefore(100) == 100'000);
  CHECK(callsBefore(100'000) == 100);
  CHECK(callsBefore(1e9) == Trials::kFirstCalls);
  CHECK(callsBefore(0) == Trials::kMostFirstCalls);
}

TEST_CASE("calls that use memory for the first time, which takes long, decide nothing") {
  constexpr int kUntouched = 70;
  Trials trials({.untouched = kUntouched});
  int calls[2] = {};
  for (int call = 0; call < 500; ++call) {
    if (trials.wants() == Trials::Wants::Times) trials.settle(trials.times(), true);
    if (trials.wants() == Trials::Wants::Ways) trials.offer(2);
    const Trials::Turn turn = trials.take();
    const int64_t ns = ++calls[turn.way] <= kUntouched ? 9'000'000 : turn.way == 0 ? 100'000 : 50'000;
    if (turn.timed) trials.record(turn, {ns});
  }
  CHECK(trials.taken() == 1);
  CHECK(trials.nsOf(0) == 100'000);
  CHECK(trials.nsOf(1) == 50'000);
}

TEST_CASE("the first calls go by the planner's way, and where there is no other all do") {
  Ranks ranks(2, 5);
  for (int call = 0; call < Trials::kFirstCalls; ++call) CHECK(ranks.call([](int, int) { return 10; }) == 0);
  Ranks alone(2, 1);
  for (int call = 0; call < 5000; ++call) CHECK(alone.call([](int, int) { return 10; }) == 0);
  CHECK(alone.comparisons == 1);
  CHECK(alone.trials[0].settled());
}

TEST_CASE("a way that is hardly faster than the planner's is not worth a change") {
  Ranks ranks(2, 2);
  for (int call = 0; call < 1000; ++call) ranks.call([](int, int way) { return way == 0 ? 1000 : 980; });
  CHECK(ranks.trials[1].taken() == 0);
}

TEST_CASE("single calls that something disturbed decide nothing") {
  std::mt19937 random(7);
  int right = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    Ranks ranks(4, 5);
    const auto disturbed = [&](int, int way) {
      const int64_t ns = kCosts[static_cast<size_t>(way)];
      return random() % 50 == 0 ? ns * 40 : ns + static_cast<int64_t>(random() % 50);
    };
    for (int call = 0; call < 2000; ++call) ranks.call(disturbed);
    right += ranks.trials[0].taken() == 2;
  }
  CHECK(right > kRounds * 99 / 100);
}

TEST_CASE("ranks that come late wait for nobody, and their times count") {
  // Rank 0 comes first and waits long by the fast way, rank 1 last.
  const auto times = [](int rank, int way) { return rank == 0 ? 9000 - way * 1000 : 500 - way * 200; };
  Ranks ranks(2, 2);
  for (int call = 0; call < 2000; ++call) ranks.call(times);
  CHECK(ranks.trials[0].taken() == 1);
}

TEST_CASE("a way that is fast for the rank that comes late alone is not taken") {
  // Rank 0 comes late and finds in its slots by way 1 what rank 1 has put there, which waits all the longer.
  const auto times = [](int rank, int way) {
    return rank == 0 ? (way == 0 ? 16'000 : 11'500) : (way == 0 ? 17'000 : 36'000);
  };
  Ranks ranks(2, 2);
  for (int call = 0; call < 2000; ++call) ranks.call(times);
  CHECK(ranks.trials[0].taken() == 0);
}

TEST_CASE("what is learned in memory of one kind holds for no calls in the other") {
  for (const bool mixes : {false, true}) {
    for (const bool mapped : {false, true}) {
      CAPTURE(mixes, mapped);
      std::vector<Trials> trials(2);
      for (int call = 0; call < 60'000; ++call) {
        if (trials[0].wants() == Trials::Wants::Times) {
          std::vector<uint64_t> all = trials[0].times();
          const std::vector<uint64_t> others = trials[1].times();
          all.insert(all.end(), others.begin(), others.end());
          for (Trials& t : trials) t.settle(all, false);
        }
        for (Trials& t : trials) {
          if (t.wants() == Trials::Wants::Ways) t.offer(2);
          const Trials::Turn turn = t.take();
          // Rank 1's memory is plain, rank 0's of one kind, or of the other from some call on.
          const bool now = &t == trials.data() && mapped != (mixes && call > 2000);
          if (turn.timed) t.record(turn, {turn.way == 0 ? 2000 : 1000, 0, now});
        }
      }
      CHECK(trials[0].taken() == (mixes ? 0 : 1));
      CHECK(trials[1].taken() == trials[0].taken());
      CHECK(trials[1].inPlainMemory() == (!mixes && !mapped));
    }
  }
}

TEST_CASE("a machine that becomes slower in the middle of a turn does not decide") {
  for (const int faster : {0, 1}) {
    CAPTURE(faster);
    Trials trials;
    int comparisons = 0;
    while (comparisons < 3) {
      if (trials.wants() == Trials::Wants::Times) trials.settle(trials.times(), false), ++comparisons;
      if (trials.wants() == Trials::Wants::Ways) trials.offer(2);
      if (trials.wants() != Trials::Wants::Nothing) continue;
      const Trials::Turn turn = trials.take();
      // In the last round: the faster way has three slow turns of five, the other one two.
      const bool slow = comparisons == 2 && turn.block >= (turn.way == faster ? 2 : 3);
      if (turn.timed) trials.record(turn, {(turn.way == faster ? 100'000 : 120'000) * (slow ? 3 : 1)});
    }
    CHECK(trials.taken() == faster);
  }
}

TEST_CASE("calls are in a row where every rank makes the next at once") {
  for (const int64_t awayNs : {100, 5000}) {
    CAPTURE(awayNs);
    std::vector<Trials> trials(2);
    for (Trials& t : trials) {
      int64_t now = 1'000'000;
      for (int call = 0; t.wants() == Trials::Wants::Nothing; ++call) {
        // Rank 0 stays away now and then; rank 1 waits for it in its calls.
        const bool first = &t == trials.data();
        const int64_t ns = first ? 1000 : 900 + awayNs;
        if (const Trials::Turn turn = t.take(); turn.timed) t.record(turn, {ns, now});
        now += ns + (first ? call % 7 == 0 ? 20'000 : awayNs : 100);
      }
    }
    std::vector<uint64_t> all = trials[0].times();
    const std::vector<uint64_t> others = trials[1].times();
    all.insert(all.end(), others.begin(), others.end());
    for (Trials& t : trials) {
      t.settle(all, true);
      CHECK(t.inRow() == (awayNs == 100));
    }
  }
}

TEST_CASE("where a root leaves early, the slowest rank counts") {
  const auto times = [](int rank, int way) { return rank == 0 ? (way == 0 ? 100 : 10) : (way == 0 ? 1000 : 2000); };
  Ranks rooted(2, 2, true);
  for (int call = 0; call < 2000; ++call) rooted.call(times);
  CHECK(rooted.trials[0].taken() == 0);
}

TEST_CASE("it looks again, ever more seldom, and finds what has become faster") {
  Ranks ranks(2, 3);
  const auto before = [](int, int way) { return way == 1 ? 100'000 : 130'000; };
  const auto after = [](int, int way) { return way == 2 ? 100'000 : 130'000; };
  for (int call = 0; call < 1000; ++call) ranks.call(before);
  CHECK(ranks.trials[0].taken() == 1);
  int others = 0;
  for (int call = 0; call < 4000; ++call) others += ranks.call(after) != ranks.trials[0].taken();
  CHECK(ranks.trials[0].taken() == 2);
  CHECK(others < 4000 * Trials::kPrice);
  const int comparisons = ranks.comparisons;
  for (int call = 0; call < 1'000'000; ++call) ranks.call(after);
  CHECK(ranks.comparisons > comparisons);
  CHECK(ranks.comparisons < comparisons + 25);
}

TEST_CASE("calls without a time, as those of groups, leave everything as it was planned") {
  std::vector<Trials> trials(2);
  for (Trials& t : trials) {
    for (int call = 0; call < 1000; ++call) {
      if (t.wants() == Trials::Wants::Times)
        t.settle(std::vector<uint64_t>(2 * Trials::kFigures, Trials::kNoTime), false);
      if (t.wants() == Trials::Wants::Ways) t.offer(4);
      t.take();
    }
    CHECK(t.settled());
    CHECK(t.taken() == 0);
  }
}
