// Streams between ranks in the simulated world: whoever wants one first, it is dialed once.
#include <catch2/catch.hpp>
#include <random>

#include "tests/unit/control/sim_job.hpp"

using namespace tutti;

namespace {

/// Ranks of a child communicator, which need no rendezvous.
struct Ranks {
  Ranks(SimWorld& w, int n) : world(w) {
    request = {.commId = {5}, .secret = {6}, .nRanks = n, .deadlineNs = 10 * kSecond};
    for (int r = 0; r < n; ++r) {
      const int node = world.addNode();
      bootstraps.push_back(std::make_unique<BootstrapNode>(world.network(node), [] {}));
      world.attach(node, bootstraps.back().get());
      request.members.push_back(SimWorld::controlAddress(node));
    }
    for (int r = 0; r < n; ++r) join(r);
  }
  void join(int r) {
    request.rank = r;
    request.self = request.members[static_cast<size_t>(r)];
    members.push_back(bootstraps[static_cast<size_t>(r)]->join(request));
  }
  BootstrapNode& bootstrap(int r) { return *bootstraps[static_cast<size_t>(r)]; }
  MemberId member(int r) { return members[static_cast<size_t>(r)]; }
  bool up() {
    for (int r = 0; r < request.nRanks; ++r)
      if (!bootstrap(r).up(member(r))) return false;
    return true;
  }
  /// Both ends of the stream, as links of the world that are each other's other end.
  bool joined(int a, int b, int index) {
    const auto atA = world.streams(a).find(BootstrapNode::streamKey(request.commId, b, index));
    const auto atB = world.streams(b).find(BootstrapNode::streamKey(request.commId, a, index));
    return atA != world.streams(a).end() && atB != world.streams(b).end() && (atA->second ^ 1) == atB->second;
  }

  SimWorld& world;
  JoinRequest request;
  std::vector<std::unique_ptr<BootstrapNode>> bootstraps;
  std::vector<MemberId> members;
};

/// Pairs want streams at random moments: the lower rank, the higher one, or both.  Empty, or what is wrong.
std::string openAtRandom(uint64_t seed) {
  SimWorld world(seed);
  std::mt19937_64 rng(seed);
  const int n = 2 + static_cast<int>(rng() % 6);
  Ranks ranks(world, n);
  if (!world.runUntil([&] { return ranks.up(); }, 5 * kSecond)) return "not up";
  const uint64_t dialsBefore = world.nDials();
  uint64_t summons = 0, streams = 0;
  for (int low = 0; low < n; ++low) {
    for (int high = low + 1; high < n; ++high) {
      for (int index = 0; index < 2; ++index, ++streams) {
        const uint64_t who = 1 + rng() % 3;
        const auto later = [&] { return world.nowNs() + static_cast<int64_t>(rng() % (2 * kMs)); };
        if (who & 1)
          world.at(later(), [&, low, high, index] { ranks.bootstrap(low).dialStream(ranks.member(low), high, index); });
        if (who & 2) {
          ++summons;
          world.at(later(),
                   [&, low, high, index] { ranks.bootstrap(high).summonStream(ranks.member(high), low, index); });
        }
      }
    }
  }
  world.runUntil([] { return false; }, world.nowNs() + kSecond);
  for (int low = 0; low < n; ++low)
    for (int high = low + 1; high < n; ++high)
      for (int index = 0; index < 2; ++index)
        if (!ranks.joined(low, high, index)) return cat("no stream ", index, " between ", low, " and ", high);
  if (world.nDials() - dialsBefore != streams + summons)
    return cat(world.nDials() - dialsBefore, " dials for ", streams, " streams and ", summons, " summons");
  return "";
}

}  // namespace

TEST_CASE("streams open once whichever rank wants them first") {
  for (const uint64_t seed : testSeeds(1, 300)) {
    CAPTURE(seed);
    CHECK(openAtRandom(seed) == "");
  }
}

TEST_CASE("where time is up, a rank that a host does not even answer names it, whoever asks") {
  for (const uint64_t seed : testSeeds(1, 100)) {
    CAPTURE(seed);
    SimWorld world(seed);
    Ranks ranks(world, 6);  // where ranks 1 and 4 are no neighbours
    REQUIRE(world.runUntil([&] { return ranks.up(); }, 5 * kSecond));
    world.cut(1, 4);
    const bool summons = seed % 2 == 0;
    if (summons) ranks.bootstrap(4).summonStream(ranks.member(4), 1, 0);
    if (!summons) ranks.bootstrap(1).dialStream(ranks.member(1), 4, 0);
    world.runUntil([] { return false; }, world.nowNs() + 7 * kSecond);
    ranks.bootstrap(0).inquire(ranks.member(0), InquiryReason::Stalled, 0, -1, kSecond);
    world.runUntil([] { return false; }, world.nowNs() + 2 * kSecond);
    for (int r = 0; r < 6; ++r) REQUIRE(!ranks.bootstrap(r).failure(ranks.member(r)));  // the network may heal
    ranks.bootstrap(2).inquire(ranks.member(2), InquiryReason::Deadline, 0, 3, kSecond);
    world.runUntil([] { return false; }, world.nowNs() + kSecond);
    const std::string expected =
        summons ? "rank 1 cannot be reached by rank 4 (sim:1 " : "rank 4 cannot be reached by rank 1 (sim:4 ";
    for (int r = 0; r < 6; ++r) {
      const auto& failure = ranks.bootstrap(r).failure(ranks.member(r));
      REQUIRE(failure);
      CHECK(failure->status.message().find(expected) == 0);
    }
  }
}

TEST_CASE("a summons that reaches a rank before it is up is heeded then") {
  for (const uint64_t seed : testSeeds(1, 200)) {
    CAPTURE(seed);
    SimWorld world(seed);
    Ranks ranks(world, 4);
    bool summoned = false;
    world.runUntil(
        [&] {
          if (!summoned && ranks.bootstrap(3).up(ranks.member(3))) {
            ranks.bootstrap(3).summonStream(ranks.member(3), 0, 1);
            summoned = true;
          }
          return summoned && ranks.up();
        },
        5 * kSecond);
    REQUIRE(summoned);
    world.runUntil([&] { return ranks.joined(0, 3, 1); }, world.nowNs() + kSecond);
    CHECK(ranks.joined(0, 3, 1));
  }
}
