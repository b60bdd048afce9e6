// Links of the overlay that are reset while both ranks live, in the simulated world: what was under way is lost, the
// link is made again, and ranks get every blob once.  A rank that dies meanwhile is found without waiting.
// A failing seed is printed; TUTTI_TEST_SEED=<seed> runs it alone.
#include <catch2/catch.hpp>

#include "src/control/resumable_link.hpp"
#include "src/control/wire.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/control/sim_job.hpp"

using namespace tutti;

namespace {

/// Empty, or what went wrong: a rank that hangs, wrong bytes, or a failure of any rank.
std::string complaintOf(SimJob& job) {
  std::string complaint = job.run(60 * kSecond);
  for (int r = 0; r < job.nRanks() && complaint.empty(); ++r) {
    if (job.rank(r).failure) complaint = cat("rank ", r, ": ", job.rank(r).failure->status.message());
  }
  return complaint;
}

JobOptions gathering(int nRanks) {
  return {.nRanks = nRanks, .nGathers = 4, .window = 2, .idleNs = 5 * kMs, .inquireWhenIdle = true};
}

}  // namespace

TEST_CASE("a link that is reset at any message of a job is made again, and nothing is lost or repeated", "[thorough]") {
  for (int nRanks : {2, 3, 5}) {
    uint64_t resets = 0, message = 0;
    for (bool ended = false; !ended; message += test::kThorough || nRanks == 2 ? 1 : 3) {
      CAPTURE(nRanks, message);
      SimWorld world(7);
      SimJob job(world, gathering(nRanks));
      world.resetAtMessage(message);
      REQUIRE(complaintOf(job) == "");
      resets += world.nResets();
      ended = world.nMessages() < message;
    }
    CHECK(resets > 10);
  }
}

TEST_CASE("links that are reset again and again still carry all", "[thorough]") {
  uint64_t resets = 0;
  const std::vector<uint64_t> seeds = testSeeds(1, test::kThorough ? 400 : 60);
  for (const uint64_t seed : seeds) {
    CAPTURE(seed);
    SimWorld world(seed);
    SimJob job(world, gathering(2 + static_cast<int>(seed % 9)));
    // From when all are up; where ranks meet, one that comes back late is taken for dead.
    world.at(20 * kMs, [&] { world.resetByChance(30'000, 2 * kSecond); });
    REQUIRE(complaintOf(job) == "");
    resets += world.nResets();
  }
  CHECK(resets >= seeds.size() / 10);
}

TEST_CASE("links that fall silent are made again beside, and nothing is lost or repeated", "[thorough]") {
  int held = 0;  // jobs that were held up by it
  const std::vector<uint64_t> seeds = testSeeds(1, test::kThorough ? 200 : 40);
  for (const uint64_t seed : seeds) {
    CAPTURE(seed);
    SimWorld world(seed);
    JobOptions options = gathering(2 + static_cast<int>(seed % 7));
    options.nGathers = 60;
    options.gatherNs = 10 * kSecond;
    SimJob job(world, options);
    // Links of one rank, some of them or all, once all ranks are up.
    std::function<void()> silence = [&] {
      for (int r = 0; r < job.nRanks(); ++r) {
        if (job.rank(r).upNs < 0) return world.at(world.nowNs() + kMs, silence);
      }
      const std::vector<LinkId> links = world.links(job.rank(static_cast<int>(world.random()) & 1).node);
      for (const LinkId link : links) {
        if (world.random() % 2 == 0) world.dropLink(link, SimWorld::Loss::Silent);
      }
    };
    world.at(kMs, silence);
    REQUIRE(complaintOf(job) == "");
    int64_t endNs = 0;
    for (int r = 0; r < job.nRanks(); ++r) endNs = std::max(endNs, job.rank(r).endNs);
    held += endNs > kSecond ? 1 : 0;
    CHECK(endNs < 6 * kSecond);  // a beat, a look, and once more for a link that took its place while it was made
  }
  CHECK(held > static_cast<int>(seeds.size()) / 4);
}

TEST_CASE("a rank that dies while its links are made again is found at once") {
  for (uint64_t seed : testSeeds(1, 40)) {
    CAPTURE(seed);
    SimWorld world(seed);
    SimJob job(world, {.nRanks = 4, .nGathers = 1, .idleNs = 100 * kSecond});
    const int64_t resetNs = 500 * kMs, deathNs = resetNs + static_cast<int64_t>(seed) * 100 * kUs;
    world.at(resetNs, [&] {
      for (const LinkId link : world.links(job.rank(1).node)) world.dropLink(link, SimWorld::Loss::Reset);
    });
    world.at(deathNs, [&] { world.kill(job.rank(1).node); });
    REQUIRE(job.run(60 * kSecond) == "");
    for (const int r : {0, 2, 3}) {
      REQUIRE(job.rank(r).failure);
      CHECK(job.rank(r).failure->rank == 1);
      CHECK(job.rank(r).endNs < deathNs + 250 * kMs);
    }
  }
}

TEST_CASE("a link that breaks and finds no answer any more is given up in bounded time") {
  SimWorld world(3);
  SimJob job(world, {.nRanks = 2, .nGathers = 1, .idleNs = 100 * kSecond});
  world.at(500 * kMs, [&] {
    world.cut(job.rank(0).node, job.rank(1).node);
    for (const LinkId link : world.links(job.rank(1).node)) world.dropLink(link, SimWorld::Loss::Reset);
  });
  REQUIRE(job.run(60 * kSecond) == "");
  for (const int r : {0, 1}) {
    REQUIRE(job.rank(r).failure);
    CHECK(job.rank(r).failure->rank == 1 - r);
    const std::string why(job.rank(r).failure->status.message());
    CHECK(why.find("it could not be made again within 8000 ms") != std::string::npos);
    CHECK(job.rank(r).endNs < 500 * kMs + 9 * kSecond);
  }
}

TEST_CASE("a peer that counts wrongly is not believed") {
  const auto counts = [](MessageType type, uint64_t count, bool resume) {
    Writer w(type);
    w.u64(count);
    if (resume) w.text("sim:1");
    return w.take();
  };
  SimWorld world(1);
  Network& network = world.network(world.addNode());
  const LinkId to = network.dial(SimWorld::controlAddress(world.addNode()));
  using Came = ResumableLink::Came;
  ResumableLink link(network);
  link.connect(to, true, "sim:0");
  link.send("one");
  link.send("two");
  CHECK(link.onMessage(counts(MessageType::Heartbeat, 0, false)) == Came::Nonsense);  // before its Resume
  CHECK(link.onMessage(counts(MessageType::Resume, 3, true)) == Came::Nonsense);
  CHECK(link.onMessage(counts(MessageType::Resume, 0, true)) == Came::Known);
  CHECK(link.onMessage(counts(MessageType::Resume, 0, true)) == Came::Nonsense);  // once of each connection
  CHECK(link.onMessage(counts(MessageType::Heartbeat, 2, false)) == Came::Known);
  CHECK(link.kept() == 0);
  CHECK(link.onMessage(counts(MessageType::Heartbeat, 1, false)) == Came::Nonsense);  // it had more
  CHECK(link.onMessage(counts(MessageType::Heartbeat, 3, false)) == Came::Nonsense);
  CHECK(link.onMessage(counts(MessageType::Rest, 0, false)) == Came::Nonsense);
  link.connect(to, false, "sim:0");
  CHECK_FALSE(link.flows());
  link.send("three");
  CHECK(link.onMessage(counts(MessageType::Resume, 2, true)) == Came::Known);
  CHECK(link.flows());
  CHECK(link.kept() == 1);
}
