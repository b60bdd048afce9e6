// The proof of the secret: what is accepted, and what a liar, an echo or a recording gets.
#include <catch2/catch.hpp>

#include "src/base/text.hpp"
#include "src/control/authentication.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/handshake.hpp"
#include "src/control/wire.hpp"
#include "tests/support/sim/world.hpp"

using namespace tutti;

namespace {

const Secret kSecret = {1, 2, 3};
const Secret kOther = {3, 2, 1};
const Hello kHello = {Purpose::Stream, {7, 7}, 2, 5, 8, 3};
const Nonce kNonceA = {0xa};
const Nonce kNonceB = {0xb};

}  // namespace

TEST_CASE("HMAC-SHA256 agrees with RFC 4231, test case 1") {
  // The key of the RFC has 20 bytes; HMAC pads keys with zeros, so ours of 32 is the same key.
  Secret::Raw key{};
  std::fill_n(key.begin(), 20, static_cast<unsigned char>(0x0b));
  const Mac mac = hmacSha256(Secret(key), "Hi There");
  CHECK(toHex(mac.data(), mac.size()) == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

TEST_CASE("two ends with one secret prove it, and the secret does not travel") {
  DialerProof dialer(kSecret, kHello, kNonceA);
  const Result<Hello> read = AcceptorProof::readHello(dialer.hello());
  REQUIRE(read.ok());
  CHECK(read->purpose == Purpose::Stream);
  CHECK(read->commId == kHello.commId);
  CHECK(read->dialer == 2);
  CHECK(read->acceptor == 5);
  CHECK(read->nRanks == 8);
  CHECK(read->index == 3);
  AcceptorProof acceptor(kSecret, dialer.hello(), kNonceB);
  const Result<std::string> proof = dialer.onChallenge(acceptor.challenge());
  REQUIRE(proof.ok());
  const Result<std::string> accepted = acceptor.onProof(*proof);
  REQUIRE(accepted.ok());
  CHECK(dialer.onAccepted(*accepted).ok());
  const std::string secret(reinterpret_cast<const char*>(kSecret.data()), kSecret.size());
  for (const std::string& message : {dialer.hello(), acceptor.challenge(), *proof, *accepted}) {
    CHECK(message.find(secret) == std::string::npos);
    CHECK(message.size() < 128);
  }
}

TEST_CASE("whoever lies is refused") {
  DialerProof dialer(kSecret, kHello, kNonceA);
  AcceptorProof acceptor(kSecret, dialer.hello(), kNonceB);
  const std::string proof = *dialer.onChallenge(acceptor.challenge());

  SECTION("an acceptor without the secret") {
    AcceptorProof liar(kOther, dialer.hello(), kNonceB);
    CHECK(DialerProof(kSecret, kHello, kNonceA).onChallenge(liar.challenge()).status().message().find("secret") !=
          std::string::npos);
  }
  SECTION("a dialer without the secret") {
    DialerProof liar(kOther, kHello, kNonceA);
    CHECK_FALSE(liar.onChallenge(acceptor.challenge()).ok());
    CHECK_FALSE(acceptor.onProof(std::string(33, '\x03')).ok());
  }
  SECTION("a recorded proof, played to a new challenge") {
    AcceptorProof later(kSecret, dialer.hello(), Nonce{0xc});
    CHECK_FALSE(later.onProof(proof).ok());
  }
  SECTION("a recorded challenge, played to a new hello") {
    CHECK_FALSE(DialerProof(kSecret, kHello, Nonce{0xd}).onChallenge(acceptor.challenge()).ok());
  }
  SECTION("the acceptor's own proof, reflected") {
    std::string echo = acceptor.challenge().substr(2 + sizeof(Nonce));
    echo.insert(echo.begin(), static_cast<char>(MessageType::Proof));
    CHECK_FALSE(acceptor.onProof(echo).ok());
  }
  SECTION("a hello reflected to the rank that sent it") {
    // Rank 2's own hello comes back to it: it is for rank 5, and the answer of one role is none of the other's.
    AcceptorProof self(kSecret, dialer.hello(), kNonceB);
    CHECK_FALSE(self.onProof(self.challenge()).ok());
  }
  SECTION("a proof made for another purpose, rank or communicator") {
    for (Hello changed : {Hello{Purpose::Overlay, {7, 7}, 2, 5, 8, 3}, Hello{Purpose::Stream, {7, 8}, 2, 5, 8, 3},
                          Hello{Purpose::Stream, {7, 7}, 1, 5, 8, 3}, Hello{Purpose::Stream, {7, 7}, 2, 4, 8, 3},
                          Hello{Purpose::Stream, {7, 7}, 2, 5, 8, 4}}) {
      AcceptorProof other(kSecret, DialerProof(kSecret, changed, kNonceA).hello(), kNonceB);
      CHECK_FALSE(other.onProof(proof).ok());
    }
  }
}

TEST_CASE("a hello cut short, too long, or with ranks that cannot be is refused") {
  const std::string hello = DialerProof(kSecret, kHello, kNonceA).hello();
  for (size_t bytes = 0; bytes < hello.size(); ++bytes)
    CHECK_FALSE(AcceptorProof::readHello(std::string_view(hello).substr(0, bytes)).ok());
  CHECK_FALSE(AcceptorProof::readHello(hello + "x").ok());
  for (Hello bad : {Hello{Purpose::Overlay, {}, 8, 1, 8, 0}, Hello{Purpose::Overlay, {}, 1, 8, 8, 0},
                    Hello{Purpose::Overlay, {}, -1, 1, 8, 0}, Hello{Purpose::Meet, {}, 1, 0, 8, 0},
                    Hello{Purpose::Meet, {}, 0, -1, 0, 0}, Hello{static_cast<Purpose>(7), {}, 0, 1, 2, 0},
                    Hello{Purpose::Stream, {}, 0, 1, 2, -1}, Hello{Purpose::Meet, {}, 0, -1, kMaxRanks + 1, 0}})
    CHECK_FALSE(AcceptorProof::readHello(DialerProof(kSecret, bad, kNonceA).hello()).ok());
}

TEST_CASE("the tag of a hello is of somebody who knows the secret, and of that hello alone") {
  const std::string hello = DialerProof(kSecret, kHello, kNonceA).hello();
  REQUIRE(AcceptorProof::tagOfHello(kSecret, hello));
  CHECK_FALSE(AcceptorProof::tagOfHello(kOther, hello));
  CHECK(AcceptorProof::tagOfHello(kSecret, hello) !=
        AcceptorProof::tagOfHello(kSecret, DialerProof(kSecret, kHello, kNonceB).hello()));
  for (size_t byte = 0; byte < hello.size(); ++byte) {
    std::string changed = hello;
    changed[byte] ^= 1;
    CHECK_FALSE(AcceptorProof::tagOfHello(kSecret, changed));
  }
  CHECK_FALSE(AcceptorProof::tagOfHello(kSecret, "short"));
}

TEST_CASE("children get secrets and names of their own") {
  CHECK(deriveSecret(kSecret, "split 1") == deriveSecret(kSecret, "split 1"));
  CHECK(deriveSecret(kSecret, "split 1") != deriveSecret(kSecret, "split 2"));
  CHECK(deriveSecret(kSecret, "split 1") != deriveSecret(kOther, "split 1"));
  CHECK(deriveCommId(kSecret, "split 1") != deriveCommId(kSecret, "split 2"));
}

namespace {

/// Someone who holds a link to a BootstrapNode and sends what he likes.
class Stranger : public Machine {
 public:
  void onAccepted(LinkId) override {}
  void onConnected(LinkId link) override { links.push_back(link); }
  void onMessage(LinkId, std::string_view message) override { got.emplace_back(message); }
  void onClosed(LinkId, const Status&) override { ++nClosed; }
  int64_t nextTimerNs() const override { return kNoTimer; }
  void onTimer() override {}
  std::vector<LinkId> links;
  std::vector<std::string> got;
  size_t nClosed = 0;
};

}  // namespace

TEST_CASE("strangers get little room and little time") {
  SimWorld world(1);
  const int node = world.addNode(), other = world.addNode();
  BootstrapNode bootstrap(world.network(node), [] {});
  Stranger stranger;
  world.attach(node, &bootstrap);
  world.attach(other, &stranger);
  const auto run = [&](int64_t ns) { world.runUntil([] { return false; }, world.nowNs() + ns); };
  const auto dial = [&](int n) {
    for (int i = 0; i < n; ++i) world.network(other).dial(SimWorld::controlAddress(node));
    run(10'000'000);
  };
  SECTION("one who says nothing is cut off") {
    dial(1);
    run(kStrangerNs - 20'000'000);
    CHECK(stranger.nClosed == 0);
    run(40'000'000);
    CHECK(stranger.nClosed == 1);
  }
  SECTION("one who talks nonsense, or much, is cut off at once") {
    dial(3);
    world.network(other).send(stranger.links[0], "GET / HTTP/1.1\r\n\r\n");
    world.network(other).send(stranger.links[1], "");
    world.network(other).send(stranger.links[2], std::string(kMaxStrangerBytes + 1, 'x'));
    run(10'000'000);
    CHECK(stranger.nClosed == 3);
  }
  SECTION("of too many, the oldest give way") {
    dial(static_cast<int>(kMaxStrangers) + 5);
    CHECK(stranger.nClosed == 5);
    CHECK(world.links(node).size() == kMaxStrangers);
  }
  SECTION("one who asks for a communicator that is not here yet waits, and is answered when it is") {
    dial(1);
    const Hello hello{Purpose::Meet, {4}, 0, -1, 2, 0};
    world.network(other).send(stranger.links[0], DialerProof(kSecret, hello, kNonceA).hello());
    run(10'000'000);
    CHECK(stranger.got.empty());
    CHECK(bootstrap.messageLimit(world.links(node)[0]) == kMaxStrangerBytes);
    bootstrap.serveRendezvous({4}, kSecret, "place");
    run(10'000'000);
    REQUIRE(stranger.got.size() == 1);
    CHECK(DialerProof(kSecret, hello, kNonceA).onChallenge(stranger.got[0]).ok());
  }
}
