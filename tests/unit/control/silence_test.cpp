// Hosts that fall silent: what ranks tell each other of it, and that all hear of it, neighbours or not, long before a
// silent host counts as dead.
#include <catch2/catch.hpp>

#include "src/control/silence.hpp"
#include "tests/unit/control/sim_job.hpp"

using namespace tutti;
using Lines = std::vector<std::string>;

namespace {

/// What rank `to` makes of a message that another one's find() gave.
std::optional<bool> bring(const std::optional<std::string>& message, Silences* to, int64_t nowNs) {
  REQUIRE(message);
  Reader in(*message);
  REQUIRE(in.u8() == static_cast<uint8_t>(MessageType::Silence));
  return to->onMessage(in, nowNs);
}

Silences silencesOf(int rank, int nRanks = 4) {
  return {rank, nRanks, [](int r) { return cat("10.0.0.", r, ":7"); }};
}

/// Ranks 0 and 1 on node0, the others on node1.
std::vector<HostOfRank> twoHosts() { return {{7, "node0"}, {7, "node0"}, {9, "node1"}, {9, "node1"}}; }

}  // namespace

TEST_CASE("a host that is silent is told of once, with all its ranks, and when it answers again") {
  Silences zero = silencesOf(0), one = silencesOf(1);
  for (Silences* rank : {&zero, &one}) rank->setHosts(twoHosts());
  CHECK(!zero.find({}, kSecond));
  const auto first = zero.find({{2, 2100}}, 5 * kSecond);
  CHECK(!zero.find({{2, 3100}}, 6 * kSecond));  // the same ranks
  CHECK(bring(first, &one, 5 * kSecond) == true);
  CHECK(bring(first, &one, 5 * kSecond) == false);  // the other way round the overlay
  const Lines expected = {
      "host node1 (ranks 2 and 3) has answered rank 0 nothing for 2100 ms: it is down, or the network to it; "
      "TUTTI_HOST_GONE_MS says when its ranks count as dead"};
  for (Silences* rank : {&zero, &one}) {
    CHECK(rank->takeWarnings() == expected);
    CHECK(rank->silentSinceNs(2) == 5 * kSecond - 2100 * kMs);
    CHECK(rank->silentSinceNs(3) == kNoTimer);
  }
  // Rank 1 finds the other rank of that host silent: known already.
  const auto also = one.find({{3, 2500}}, 6 * kSecond);
  CHECK(bring(also, &zero, 6 * kSecond) == true);
  for (Silences* rank : {&zero, &one}) CHECK(rank->takeWarnings().empty());
  const auto again = zero.find({}, 7 * kSecond);
  CHECK(bring(again, &one, 7 * kSecond) == true);
  CHECK(one.takeWarnings().empty());  // not for rank 1
  CHECK(bring(one.find({}, 8 * kSecond), &zero, 8 * kSecond) == true);
  for (Silences* rank : {&zero, &one}) {
    CHECK(rank->takeWarnings() == Lines{"host node1 (ranks 2 and 3) answers again"});
    CHECK(rank->silentSinceNs(2) == kNoTimer);
  }
  // Again within ten seconds: known, and not said.
  CHECK(bring(zero.find({{2, 2000}}, 9 * kSecond), &one, 9 * kSecond) == true);
  CHECK(one.silentSinceNs(2) == 7 * kSecond);
  CHECK(bring(zero.find({}, 10 * kSecond), &one, 10 * kSecond) == true);
  CHECK(one.takeWarnings().empty());
}

TEST_CASE("before ranks know where the others are, they tell of silent ones by address") {
  Silences zero = silencesOf(0);
  CHECK(zero.find({{1, 2000}, {3, 2400}}, 5 * kSecond));
  const Lines lines = zero.takeWarnings();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("rank 1 at 10.0.0.1:7 has answered rank 0 nothing for 2000 ms"));
  CHECK(lines[1].starts_with("rank 3 at 10.0.0.3:7 has answered"));
}

TEST_CASE("an older message than the newest of its sender changes nothing, and one that cannot be is refused") {
  Silences zero = silencesOf(0), one = silencesOf(1);
  const auto older = zero.find({{2, 2000}}, 5 * kSecond), newer = zero.find({}, 6 * kSecond);
  CHECK(bring(newer, &one, 6 * kSecond) == true);
  CHECK(bring(older, &one, 6 * kSecond) == false);
  CHECK(one.silentSinceNs(2) == kNoTimer);
  Silences fewer = silencesOf(1, 2);
  CHECK(!bring(silencesOf(0).find({{2, 2000}}, kSecond), &fewer, kSecond));
  CHECK(!bring(silencesOf(3).find({{1, 2000}}, kSecond), &fewer, kSecond));
  const std::string whole = *silencesOf(0).find({{1, 2000}}, kSecond);
  for (size_t bytes = 1; bytes < whole.size(); ++bytes) {
    Reader in(std::string_view(whole).substr(1, bytes - 1));
    CHECK(!fewer.onMessage(in, kSecond));
  }
}

TEST_CASE("all ranks know of a host that fell silent within five seconds, neighbours or not, and nobody fails") {
  for (const int nRanks : {2, 3, 8, 13}) {
    CAPTURE(nRanks);
    SimWorld world(static_cast<uint64_t>(nRanks));
    SimJob job(world, {.nRanks = nRanks, .nGathers = 1, .idleNs = 20 * kSecond});
    const int silent = nRanks / 2;
    world.at(kSecond, [&] {
      for (int r = 0; r < nRanks; ++r)
        if (r != silent) world.cut(job.rank(r).node, job.rank(silent).node);
      for (const LinkId link : world.links(job.rank(silent).node)) world.dropLink(link, SimWorld::Loss::Silent);
    });
    int told = 0;
    world.at(6 * kSecond, [&] {
      for (int r = 0; r < nRanks; ++r) {
        SimJob::Rank& rank = job.rank(r);
        for (int other = 0; other < nRanks; ++other) {
          const bool known = rank.bootstrap->silentSinceNs(rank.member, other) != kNoTimer;
          // Who is cut off has heard nothing of anybody.
          if (r != silent) CHECK(known == (other == silent));
          told += known && r != silent ? 1 : 0;
        }
      }
    });
    REQUIRE(job.run(60 * kSecond) == "");
    CHECK(told == nRanks - 1);
    for (int r = 0; r < nRanks; ++r) CHECK(!job.rank(r).failure);
  }
}
