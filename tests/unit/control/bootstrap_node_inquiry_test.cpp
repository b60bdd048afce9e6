// Inquiries over the overlay: everyone asks at once, ranks are silent, absent or different, and all hear one verdict.
#include <catch2/catch.hpp>

#include "src/base/types.hpp"
#include "tests/unit/control/sim_job.hpp"

using namespace tutti;

namespace {

/// Ranks that are up, idle, and say of their calls what a test wants.
struct Idle {
  Idle(uint64_t seed, int nRanks)
      : world(seed),
        job(world, {.nRanks = nRanks, .nGathers = 0, .idleNs = 1000 * kSecond}),
        states(static_cast<size_t>(nRanks)) {
    world.runUntil(
        [&] {
          for (int r = 0; r < nRanks; ++r)
            if (job.rank(r).member == 0 || !job.rank(r).bootstrap->up(job.rank(r).member)) return false;
          return true;
        },
        10 * kSecond);
    for (int r = 0; r < nRanks; ++r) {
      RankState& state = states[static_cast<size_t>(r)];
      job.rank(r).bootstrap->setState(job.rank(r).member, [&state] { return state; });
    }
  }
  void inside(int r, uint64_t sequence, int waitingOn, Collective kind = Collective::AllReduce) {
    const Fingerprint call = makeFingerprint({.sequence = static_cast<uint32_t>(sequence),
                                              .kind = static_cast<uint32_t>(kind),
                                              .dtype = tuttiFloat32,
                                              .count = 4});
    states[static_cast<size_t>(r)] = {
        .entered = sequence, .inside = true, .waitingOn = waitingOn, .recent = {{sequence, call}}};
  }
  void inquire(int r, InquiryReason reason, uint64_t sequence, int suspect, int64_t graceNs) {
    job.rank(r).bootstrap->inquire(job.rank(r).member, reason, sequence, suspect, graceNs);
  }
  bool settled() {
    for (int r = 0; r < job.nRanks(); ++r)
      if (job.survives(r) && !failure(r) && job.rank(r).bootstrap->inquiryPending(job.rank(r).member)) return false;
    return true;
  }
  bool allFailed() {
    for (int r = 0; r < job.nRanks(); ++r)
      if (job.survives(r) && !failure(r)) return false;
    return true;
  }
  const std::optional<Failure>& failure(int r) { return job.rank(r).bootstrap->failure(job.rank(r).member); }

  SimWorld world;
  SimJob job;
  std::vector<RankState> states;
};

}  // namespace

TEST_CASE("ranks that disagree all hear of the odd one and both calls within 50 ms") {
  for (int nRanks : {2, 3, 8, 64}) {
    CAPTURE(nRanks);
    Idle idle(17, nRanks);
    for (int r = 0; r < nRanks; ++r)
      idle.inside(r, 17, (r + 1) % nRanks, r == 1 ? Collective::Broadcast : Collective::AllReduce);
    const int64_t beganNs = idle.world.nowNs();
    for (int r : {0, 1, nRanks - 1}) idle.inquire(r, InquiryReason::Mismatch, 17, (r + 1) % nRanks, 50 * kMs);
    REQUIRE(idle.world.runUntil([&] { return idle.allFailed(); }, beganNs + 50 * kMs));
    for (int r = 0; r < nRanks; ++r) {
      const Failure& failure = *idle.failure(r);
      CHECK(failure.rank == (nRanks == 2 ? -1 : 1));
      CHECK(failure.status.code() == tuttiInvalidUsage);
      CHECK(failure.status.message().find("rank 1 called Broadcast number 17") != std::string::npos);
      CHECK(failure.status.message().find("called AllReduce number 17") != std::string::npos);
    }
  }
}

TEST_CASE("when all ranks reach their deadline at once, one verdict names the absent or silent one") {
  for (const bool frozen : {false, true})
    for (int nRanks : {2, 5, 24}) {
      CAPTURE(frozen, nRanks);
      Idle idle(3, nRanks);
      for (int r = 0; r < nRanks; ++r) idle.inside(r, 9, r == 1 ? 0 : 1);
      idle.states[1].inside = false;
      idle.states[1].waitingOn = -1;
      idle.states[1].entered = 8;
      idle.states[1].recent.clear();
      if (frozen) idle.world.freeze(idle.job.rank(1).node);
      const int64_t beganNs = idle.world.nowNs();
      const uint64_t before = idle.world.nMessages();
      for (int r = 0; r < nRanks; ++r)
        if (r != 1) idle.inquire(r, InquiryReason::Deadline, 9, 1, 500 * kMs);
      REQUIRE(idle.world.runUntil([&] { return idle.allFailed(); }, beganNs + 500 * kMs));
      CHECK(idle.world.nMessages() - before < static_cast<uint64_t>(80 * nRanks));
      for (int r = 0; r < nRanks; ++r) {
        if (frozen && r == 1) continue;
        CHECK(idle.failure(r)->rank == 1);
        CHECK(idle.failure(r)->status.message().find(frozen ? "rank 1 does not answer"
                                                            : "rank 1 has not entered AllReduce number 9") == 0);
      }
    }
}

TEST_CASE("a stalled inquiry that finds nothing harms nobody, also when many ask again and again") {
  Idle idle(5, 20);
  for (int round = 0; round < 5; ++round) {
    for (int r = 0; r < 20; ++r) idle.inside(r, 4, (r + 1) % 20);
    for (int r = 19; r >= 0; r -= 1 + round) idle.inquire(r, InquiryReason::Stalled, 4, (r + 1) % 20, 100 * kMs);
    REQUIRE(idle.world.runUntil([&] { return idle.settled(); }, idle.world.nowNs() + 300 * kMs));
    for (int r = 0; r < 20; ++r) REQUIRE_FALSE(idle.failure(r));
  }
}

TEST_CASE("what a rank wanted to know of a wait that is over is not asked, and nobody waits for the answer") {
  Idle idle(9, 5);
  idle.inquire(3, InquiryReason::Stalled, 0, 1, 200 * kMs);
  idle.inquire(4, InquiryReason::Deadline, 0, 1, 200 * kMs);
  for (const int r : {3, 4}) idle.job.rank(r).bootstrap->withdrawInquiry(idle.job.rank(r).member);
  CHECK_FALSE(idle.job.rank(3).bootstrap->inquiryPending(idle.job.rank(3).member));
  CHECK(idle.job.rank(4).bootstrap->inquiryPending(idle.job.rank(4).member));  // it must end in a failure
}

TEST_CASE("ranks that leave in order are not taken for early ones because of a wait that is over") {
  for (const uint64_t seed : testSeeds(1, 200)) {
    CAPTURE(seed);
    SimWorld dice(seed);
    Idle idle(seed, 5);
    const auto after = [&](int64_t mostNs) {
      (void)idle.world.runUntil([] { return false; }, idle.world.nowNs() + dice.randomBetween(1'000, mostNs));
    };
    // Rank 3 waited for rank 1, asked, and went on; rank 1 was done, and leaves.
    idle.inquire(3, InquiryReason::Stalled, 0, 1, 200 * kMs);
    after(2 * kMs);
    idle.job.rank(3).bootstrap->withdrawInquiry(idle.job.rank(3).member);
    idle.job.rank(1).bootstrap->leave(idle.job.rank(1).member);
    after(300 * kMs);
    for (const int r : {0, 2, 3, 4}) REQUIRE_FALSE(idle.failure(r));
  }
}

// An inquiry of 64 ranks takes some 1,600 messages.  Where they do not ask one after another, it is 4,600 a round.
TEST_CASE("many ranks that wait together, and look around again and again, are as one that does") {
  Idle idle(7, 64);
  for (int r = 0; r < 64; ++r) idle.inside(r, 4, (r + 1) % 64);
  const uint64_t before = idle.world.nMessages();
  for (int round = 0; round < 20; ++round) {
    for (int r = 63; r >= 0; --r) idle.inquire(r, InquiryReason::Stalled, 4, (r + 1) % 64, 200 * kMs);
    (void)idle.world.runUntil([] { return false; }, idle.world.nowNs() + 100 * kMs);
  }
  REQUIRE(idle.world.runUntil([&] { return idle.settled(); }, idle.world.nowNs() + 300 * kMs));
  CHECK(idle.world.nMessages() - before < 20 * 2'000);
  for (int r = 0; r < 64; ++r) REQUIRE_FALSE(idle.failure(r));
}

TEST_CASE("whoever dies or stops while all inquire is named, at any moment") {
  for (uint64_t seed : testSeeds(1, 300)) {
    CAPTURE(seed);
    SimWorld dice(seed);
    const int nRanks = static_cast<int>(dice.randomBetween(3, 20));
    const int victim = static_cast<int>(dice.randomBetween(0, nRanks - 1));
    const bool kill = dice.random() % 2 == 0;
    const bool stalled = dice.random() % 3 == 0;
    Idle idle(seed, nRanks);
    // All wait for the victim, which is late; it has nothing to wait for.
    for (int r = 0; r < nRanks; ++r) idle.inside(r, r == victim ? 4 : 5, r == victim ? -1 : victim);
    const int64_t beganNs = idle.world.nowNs();
    for (int r = 0; r < nRanks; ++r)
      idle.world.at(beganNs + dice.randomBetween(0, 3 * kMs), [&idle, r, stalled, victim] {
        if (idle.job.survives(r))
          idle.inquire(r, stalled && r % 2 == 0 ? InquiryReason::Stalled : InquiryReason::Deadline, 5, victim,
                       200 * kMs);
      });
    idle.world.at(beganNs + dice.randomBetween(0, 8 * kMs), [&] {
      const int node = idle.job.rank(victim).node;
      kill ? idle.world.kill(node) : idle.world.freeze(node);
    });
    CHECK(idle.world.runUntil([&] { return idle.allFailed() && idle.world.nowNs() > beganNs + 9 * kMs; },
                              beganNs + kSecond));
    for (int r = 0; r < nRanks; ++r) {
      if (!idle.job.survives(r) || !idle.failure(r)) continue;
      CAPTURE(r, idle.failure(r)->status.message());
      CHECK(idle.failure(r)->rank == victim);
    }
  }
}

// As on a machine where a rank gets no core for a while.
TEST_CASE("a rank that asks and then is slow is not taken for the one to blame") {
  for (uint64_t seed : testSeeds(1, 100)) {
    CAPTURE(seed);
    SimWorld dice(seed);
    const int nRanks = static_cast<int>(dice.randomBetween(3, 20));
    const int late = nRanks - 1;
    Idle idle(seed, nRanks);
    for (int r = 0; r < nRanks; ++r) idle.inside(r, r == late ? 4 : 5, r == late ? -1 : late);
    idle.states[static_cast<size_t>(late)].inside = false;
    const int64_t beganNs = idle.world.nowNs();
    for (int r = 0; r < late; ++r) {
      const int64_t askNs = r == 0 ? 0 : dice.randomBetween(0, 3 * kMs);  // rank 0's question is the one that counts
      idle.world.at(beganNs + askNs,
                    [&idle, r, late] { idle.inquire(r, InquiryReason::Deadline, 5, late, 200 * kMs); });
    }
    const int node = idle.job.rank(0).node;
    idle.world.at(beganNs + dice.randomBetween(1, 2 * kMs), [&] { idle.world.freeze(node); });
    idle.world.at(beganNs + dice.randomBetween(260 * kMs, 400 * kMs), [&] { idle.world.thaw(node); });
    CHECK(idle.world.runUntil([&] { return idle.allFailed() && idle.failure(0); }, beganNs + kSecond));
    for (int r = 0; r < nRanks; ++r) {
      REQUIRE(idle.failure(r));
      CAPTURE(r, idle.failure(r)->status.message());
      CHECK(idle.failure(r)->rank == late);
    }
  }
}

// As on a machine where none of the ranks gets a core for a while.
TEST_CASE("a verdict that is put off is given by what a rank answers so late") {
  for (uint64_t seed : testSeeds(1, 100)) {
    SimWorld dice(seed);
    const bool putOff = seed % 4 != 0;
    const int nRanks = static_cast<int>(dice.randomBetween(2, 20));
    const int late = static_cast<int>(dice.randomBetween(0, nRanks - 1));
    CAPTURE(seed, putOff, nRanks, late);
    Idle idle(seed, nRanks);
    for (int r = 0; r < nRanks; ++r) idle.inside(r, r == late ? 4 : 5, r == late ? -1 : late);
    idle.states[static_cast<size_t>(late)].inside = false;
    const int64_t beganNs = idle.world.nowNs();
    const int node = idle.job.rank(late).node;
    idle.world.freeze(node);
    idle.world.at(beganNs + 700 * kMs, [&] { idle.world.thaw(node); });
    for (int r = 0; r < nRanks; ++r) {
      if (r == late) continue;
      BootstrapNode& rank = *idle.job.rank(r).bootstrap;
      const MemberId member = idle.job.rank(r).member;
      idle.world.at(beganNs + dice.randomBetween(0, 3 * kMs),
                    [&idle, r, late] { idle.inquire(r, InquiryReason::Deadline, 5, late, 200 * kMs); });
      for (int64_t ns : {100 * kMs, 150 * kMs})
        if (putOff) idle.world.at(beganNs + ns, [&rank, member] { rank.putOffVerdict(member, 500 * kMs); });
    }
    CHECK(idle.world.runUntil([&] { return idle.allFailed(); }, beganNs + 2 * kSecond));
    CHECK(idle.world.nowNs() < beganNs + (putOff ? 800 : 300) * kMs);
    for (int r = 0; r < nRanks; ++r) {
      if (!idle.failure(r)) continue;
      CAPTURE(r, idle.failure(r)->status.message());
      CHECK(idle.failure(r)->rank == late);
      const std::string start = cat("rank ", late, putOff ? " has not entered" : " does not answer");
      CHECK(idle.failure(r)->status.message().starts_with(start));
    }
  }
}

TEST_CASE("leaving in order is no failure, unless someone still needs the rank") {
  Idle idle(8, 6);
  SimJob& job = idle.job;
  job.rank(2).bootstrap->leave(job.rank(2).member);
  job.rank(2).phase = SimJob::Rank::Phase::Done;
  job.rank(2).node = idle.world.addNode();  // nobody looks at it any more
  idle.world.runUntil([] { return false; }, idle.world.nowNs() + 100 * kMs);
  for (int r : {0, 1, 3, 4, 5}) REQUIRE_FALSE(idle.failure(r));
  const auto others = [&](auto&& what) {
    for (int r : {0, 1, 3, 4, 5}) what(r);
    idle.world.runUntil([] { return false; }, idle.world.nowNs() + 300 * kMs);
    for (int r : {0, 1, 3, 4, 5}) {
      REQUIRE(idle.failure(r));
      CHECK(idle.failure(r)->rank == 2);
      CHECK(idle.failure(r)->status.message().find("rank 2 has destroyed its communicator") == 0);
    }
  };
  SECTION("a gather does") {
    others([&](int r) { job.rank(r).bootstrap->allGather(job.rank(r).member, "x"); });
  }
  SECTION("a collective does, as a stalled inquiry finds out") {
    others([&](int r) {
      idle.inside(r, 1, 2);
      if (r == 5) idle.inquire(r, InquiryReason::Stalled, 1, 2, 200 * kMs);
    });
  }
}

TEST_CASE("a reported failure reaches everyone with its words") {
  Idle idle(9, 33);
  idle.job.rank(4).bootstrap->reportFailure(idle.job.rank(4).member,
                                            {7, systemError("rank 7: no space left on device")});
  REQUIRE(idle.world.runUntil([&] { return idle.allFailed(); }, idle.world.nowNs() + 20 * kMs));
  for (int r = 0; r < 33; ++r) {
    CHECK(idle.failure(r)->rank == 7);
    CHECK(idle.failure(r)->status.code() == tuttiSystemError);
    CHECK(idle.failure(r)->status.message() == "rank 7: no space left on device");
  }
}
