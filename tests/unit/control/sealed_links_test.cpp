// Seals of control links: whatever is done to what travels, a reader gets the sender's messages in their order, and
// then an error.  A failing seed is printed; TUTTI_TEST_SEED=<seed>, or 1-100000, runs it alone.
#include <catch2/catch.hpp>
#include <random>

#include "src/control/handshake.hpp"
#include "src/control/sealed_links.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/control/sim_job.hpp"

using namespace tutti;

namespace {

std::vector<bool> waysToSeal() {
  return Gcm::available().ok() ? std::vector<bool>{false, true} : std::vector<bool>{false};
}

/// Does something to one of the messages that travel; which one then is the first that may not be taken.
size_t misbehave(std::vector<std::string>* wire, std::mt19937_64* dice) {
  const auto upTo = [&](size_t most) { return static_cast<size_t>((*dice)() % (most + 1)); };
  const size_t at = upTo(wire->size() - 1);
  std::string& message = (*wire)[at];
  switch (upTo(8)) {
    case 0: wire->erase(wire->begin() + static_cast<std::ptrdiff_t>(at)); break;
    case 1: wire->insert(wire->begin() + static_cast<std::ptrdiff_t>(at), (*wire)[upTo(wire->size() - 1)]); break;
    case 2: message.resize(upTo(message.size() - 1)); break;
    case 3: message += static_cast<char>(upTo(255)); break;
    default: message[upTo(message.size() - 1)] ^= static_cast<char>(1 << upTo(7)); break;
  }
  return at;
}

}  // namespace

TEST_CASE("a message that was changed, left out, repeated or moved is never taken for one") {
  for (const bool encrypts : waysToSeal()) {
    for (const uint64_t seed : testSeeds(1, 1000)) {
      CAPTURE(encrypts, seed);
      std::mt19937_64 dice(seed);
      const Secret key = Secret::random();
      Sealer from(key, encrypts), to(key, encrypts);
      std::vector<std::string> sent, wire;
      for (int i = 0; i < 6; ++i) {
        sent.push_back(std::string(dice() % 40, static_cast<char>('a' + i)));
        wire.push_back(from.seal(sent.back()));
        REQUIRE(wire.back().size() == sent.back().size() + kSealBytes);
      }
      const std::vector<std::string> before = wire;
      const size_t at = misbehave(&wire, &dice);
      size_t taken = 0;
      for (const std::string& message : wire) {
        const Result<std::string> opened = to.open(message);
        if (!opened.ok()) break;
        REQUIRE(taken < sent.size());
        REQUIRE(*opened == sent[taken]);
        ++taken;
      }
      // Leaving out the last is what an end of the connection does, too.
      const bool same = wire == before || (wire.size() < before.size() && at == wire.size());
      if (!same) REQUIRE(taken <= at + 1);
      if (!same && wire.size() == before.size()) REQUIRE(taken == at);
    }
  }
}

TEST_CASE("both ends make the same keys, one for each direction, and others for every link") {
  const Secret secret = {1, 2, 3};
  const Hello hello{Purpose::Overlay, {7}, 1, 0, 2, 0};
  const auto keysOf = [&](const Hello& said, Nonce dialers, Nonce acceptors) {
    DialerProof dialer(secret, said, dialers);
    AcceptorProof acceptor(secret, dialer.hello(), acceptors, true);
    REQUIRE(dialer.onChallenge(acceptor.challenge()).ok());
    CHECK(dialer.peerEncrypts());
    CHECK(dialer.keys().send == acceptor.keys().receive);
    CHECK(dialer.keys().receive == acceptor.keys().send);
    CHECK_FALSE(dialer.keys().send == dialer.keys().receive);
    return dialer.keys();
  };
  const DirectionKeys keys = keysOf(hello, {1}, {2});
  CHECK_FALSE(keysOf(hello, {3}, {2}).send == keys.send);
  CHECK_FALSE(keysOf(hello, {1}, {3}).send == keys.send);
  CHECK_FALSE(keysOf({Purpose::Overlay, {7}, 2, 0, 3, 0}, {1}, {2}).send == keys.send);
  // An acceptor that says of itself what is not so makes another transcript.
  DialerProof dialer(secret, hello, {1});
  std::string challenge = AcceptorProof(secret, dialer.hello(), {2}, true).challenge();
  challenge[1 + sizeof(Nonce)] = 0;
  CHECK_FALSE(dialer.onChallenge(challenge).ok());
}

TEST_CASE("a bit that flips between ranks never becomes wrong data, and ends the job by name or not at all",
          "[thorough]") {
  int failed = 0, named = 0;
  for (const uint64_t seed : testSeeds(1, test::kThorough ? 300 : 40)) {
    CAPTURE(seed);
    SimWorld world(seed);
    JobOptions options;
    options.nRanks = 2 + static_cast<int>(seed % 4);
    options.rendezvousWithRank0 = seed % 2 == 0;
    SimJob job(world, options);
    world.damageMessage(seed % 97);
    REQUIRE(job.run(30 * kSecond) == "");
    for (int r = 0; r < job.nRanks(); ++r) {
      const std::optional<Failure>& failure = job.rank(r).failure;
      if (!failure) continue;
      ++failed;
      CAPTURE(failure->status.message());
      CHECK_FALSE(failure->status.message().empty());
      if (failure->status.message().find("is not as it was sent (wrong tag)") != std::string::npos) ++named;
    }
  }
  CHECK(failed > 0);
  CHECK(named > failed / 3);
}

namespace {

/// How two ranks and the rendezvous end, each of which encrypts or does not.
std::vector<std::string> meet(bool placeEncrypts, bool firstEncrypts, bool secondEncrypts) {
  SimWorld world(1);
  std::vector<std::unique_ptr<BootstrapNode>> nodes;
  for (const bool encrypts : {placeEncrypts, firstEncrypts, secondEncrypts}) {
    const int node = world.addNode();
    nodes.push_back(std::make_unique<BootstrapNode>(
        world.network(node), [] {}, encrypts));
    world.attach(node, nodes.back().get());
  }
  nodes[0]->serveRendezvous({5}, {6}, "place");
  std::vector<MemberId> members;
  for (const int rank : {0, 1}) {
    JoinRequest request{.commId = {5}, .secret = {6}, .rank = rank, .nRanks = 2, .deadlineNs = 10 * kSecond};
    request.self = SimWorld::controlAddress(rank + 1);
    request.rendezvous = SimWorld::controlAddress(0);
    members.push_back(nodes[static_cast<size_t>(rank) + 1]->join(request));
  }
  const auto over = [&](size_t r) { return nodes[r + 1]->up(members[r]) || nodes[r + 1]->failure(members[r]); };
  REQUIRE(world.runUntil([&] { return over(0) && over(1); }, kSecond));
  std::vector<std::string> said;
  for (const size_t r : {size_t{0}, size_t{1}}) {
    const std::optional<Failure>& failure = nodes[r + 1]->failure(members[r]);
    said.push_back(failure ? failure->status.message() : "");
  }
  return said;
}

}  // namespace

TEST_CASE("ranks that differ in whether they encrypt all hear so at once") {
  if (!Gcm::available().ok()) return;
  for (const std::string& said : meet(true, true, true)) CHECK(said.empty());
  for (const std::string& said : meet(true, true, false))
    CHECK(said.find("TUTTI_ENCRYPT is 0 on rank 1 and 1 where ranks meet") == 0);
  for (const std::string& said : meet(false, true, false))
    CHECK(said.find("TUTTI_ENCRYPT is 1 on rank 0 and 0 where ranks meet") == 0);
}
