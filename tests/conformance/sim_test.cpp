// The simulated endpoints' own promises: a seed replays exactly, links break and ranks die by seed, and the counters of
// the slots keep their rules throughout.
#include <catch2/catch.hpp>

#include "tests/conformance/traffic.hpp"
#include "tests/support/sim/link.hpp"

using namespace tutti;
using namespace tutti::conformance;

namespace {

// Rank r sends to r + 1 and receives from r - 1 around a ring, all at once.
struct Ring {
  Ring(uint64_t seed, const SimOptions& options, int ranks, int messages)
      : world(seed), fabric(world, options, ranks), nRanks(ranks) {
    for (int r = 0; r < nRanks; ++r) {
      const auto transport = fabric.transport(r);
      next.push_back(connect(*transport, (r + 1) % nRanks));
      prev.push_back(connect(*transport, (r + nRanks - 1) % nRanks));
    }
    const auto traffic = randomMessages(seed, messages, options.slotBytes, options.maxDirectBytes);
    for (int r = 0; r < nRanks; ++r) {
      actors.push_back(std::make_unique<Sender>(*next[size_t(r)], traffic, seed));
      actors.push_back(std::make_unique<Receiver>(*prev[size_t(r)], traffic, seed));
    }
  }
  static std::unique_ptr<Endpoint> connect(Transport& transport, int peer) {
    return std::move(*awaitEndpoint(transport, peer, cat("sim:", peer), 0, Deadline::never()));
  }

  // Until all are done or have failed; "" or the rule that broke.
  std::string run() {
    errors.assign(actors.size(), "");
    for (int events = 0; events < 1'000'000; ++events) {
      bool over = true;
      bool moved = false;
      for (size_t i = 0; i < actors.size(); ++i) {
        const int rank = static_cast<int>(i / 2);
        if (actors[i]->done() || !errors[i].empty() || !world.alive(fabric.node(rank))) continue;
        over = false;
        const Result<bool> result = actors[i]->step();
        if (!result.ok()) errors[i] = result.status().message();
        moved = moved || !result.ok() || *result;
        if (result.status().code() == tuttiInternalError) return errors[i];
        const std::string rule = dynamic_cast<sim::SimEndpoint&>(actors[i]->endpoint()).check();
        if (!rule.empty()) return rule;
      }
      if (over) return "";
      if (!world.step() && !moved) return "nothing moves any more";
    }
    return "no end";
  }

  SimWorld world;
  SimFabric fabric;
  int nRanks;
  std::vector<std::unique_ptr<Endpoint>> next, prev;
  std::vector<std::unique_ptr<Actor>> actors;
  std::vector<std::string> errors;  // by actor
};

}  // namespace

TEST_CASE("rings of simulated ranks exchange everything under any seed, and a seed replays exactly") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const SimOptions options{.slots = 1 + static_cast<uint32_t>(seed % 4), .slotBytes = 500};
    const int nRanks = 3 + static_cast<int>(seed % 6);
    Ring first(seed, options, nRanks, 30);
    REQUIRE(first.run() == "");
    for (const std::string& error : first.errors) CHECK(error == "");
    Ring second(seed, options, nRanks, 30);
    REQUIRE(second.run() == "");
    CHECK(first.world.traceHash() == second.world.traceHash());
    CHECK(first.world.nowNs() == second.world.nowNs());
  }
}

TEST_CASE("a link that breaks by seed is an error at both of its ends that names the other") {
  int broken = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Ring ring(seed, {.slots = 2, .slotBytes = 500, .breaksPerMillion = 2000}, 5, 40);
    REQUIRE(ring.run() == "");
    for (size_t i = 0; i < ring.actors.size(); ++i) {
      if (ring.errors[i].empty()) continue;
      ++broken;
      const int rank = static_cast<int>(i / 2);
      const int peer = (i % 2 == 0 ? rank + 1 : rank + ring.nRanks - 1) % ring.nRanks;
      CAPTURE(ring.errors[i], rank);
      CHECK(ring.errors[i].find(cat("rank ", peer)) != std::string::npos);
    }
  }
  CHECK(broken > 10);
}

TEST_CASE("the neighbours of a rank that dies get an error that names it; nobody waits for ever") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    Ring ring(seed, {.slots = 2, .slotBytes = 500}, 5, 40);
    const int victim = static_cast<int>(seed % 5);
    ring.world.at(ring.world.randomBetween(0, 20'000'000), [&] { ring.fabric.kill(victim); });
    REQUIRE(ring.run() == "");
    const size_t sendsToVictim = 2 * static_cast<size_t>((victim + 4) % 5);
    const size_t receivesFromVictim = 2 * static_cast<size_t>((victim + 1) % 5) + 1;
    for (const size_t i : {sendsToVictim, receivesFromVictim}) {
      CAPTURE(ring.errors[i]);
      CHECK((ring.actors[i]->done() || ring.errors[i].find(cat("rank ", victim)) != std::string::npos));
    }
  }
}

TEST_CASE("a frozen rank delays the others and breaks nothing") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Ring ring(seed, {.slots = 2, .slotBytes = 500}, 4, 30);
    ring.world.at(2'000'000, [&] { ring.world.freeze(ring.fabric.node(1)); });
    ring.world.at(900'000'000, [&] { ring.world.thaw(ring.fabric.node(1)); });
    REQUIRE(ring.run() == "");
    for (const std::string& error : ring.errors) CHECK(error == "");
  }
}

TEST_CASE("what was offered can be taken back") {
  SimWorld world(1);
  SimFabric fabric(world, {}, 2);
  const auto a = Ring::connect(*fabric.transport(0), 1);
  const auto b = Ring::connect(*fabric.transport(1), 0);
  std::vector<std::byte> memory(10'000);
  REQUIRE(*a->postSend(memory.data(), memory.size(), callNumber(1)) != 0);
  a->cancel();
  memory = {};
  while (world.step()) {
  }
  const Result<const std::byte*> answer = b->peek({10'000, callNumber(1)});
  CHECK(answer.status().code() == tuttiRemoteError);
  CHECK(answer.status().message().find("rank 0") != std::string::npos);
}
