// How two ends of a link prove to each other that they know a communicator's secret, without sending it.
//
//   dialer                                          acceptor
//   Hello      purpose, who, whom, encrypts, nonce, HMAC("hello", all that) ->
//                                              <-   Challenge  own nonce, encrypts, HMAC("acceptor", transcript)
//   Proof      HMAC("dialer", transcript)      ->
//                                              <-   Accepted   HMAC("accepted", transcript)
//
// A dialer that cannot follow the challenge's HMAC says OtherSecret instead of its proof and closes.  Anybody may say
// that, so it is a hint for those who wait for a rank, and breaks nothing.
//
// The tag of a Hello proves no more than that somebody who knows the secret has made it once: it may be a recorded one.
// The rendezvous, which sees each for the first time, then knows that a rank has begun to join, and that it is gone if
// its link closes before the proof.
//
// A dialer that gives up before it has proven itself says Withdrawn, so that this is no end of its rank.
//
// Each end says whether it encrypts (TUTTI_ENCRYPT); a link is encrypted where both do, and where one does not ranks
// hear of it by a link under tags, over which nothing else goes (Meeting::unlike).
//
// Both ends make the link's keys, one for each direction, of the secret and the transcript by HKDF-SHA256, so that
// every link has its own (sealed_links.hpp).
//
// The transcript is the whole Hello and both nonces.  Each side adds a fresh nonce, so nothing can be replayed; each
// role has its own label, so nothing can be reflected; the purpose and the ranks are part of it, so a proof for one
// link is worth nothing on another.  HMAC-SHA256 (RFC 2104); compared in constant time.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "src/base/sha256.hpp"
#include "src/base/status.hpp"
#include "src/control/bootstrap_node.hpp"

namespace tutti {

using Mac = Digest;
using Nonce = std::array<unsigned char, 32>;

Mac hmacSha256(const Secret& key, std::string_view data);

/// More ranks than this are not believed (fingerprints have 24 bits for a root).
inline constexpr int kMaxRanks = 1 << 24;

/// What a link is for.
enum class Purpose : uint8_t {
  Meet = 1,
  Overlay = 2,
  Stream = 3,
  Summon = 4,  // "dial me for a stream": says all it has to say by being proven, and is closed then
  Agreement = 5,
  Recall = 6,  // "our overlay link is broken, dial me": says all by being proven; one that has left answers
};

struct Hello {
  Purpose purpose = Purpose::Meet;
  CommId commId{};
  int dialer = 0;     // rank
  int acceptor = -1;  // rank; -1 for the rendezvous
  int nRanks = 1;
  StreamIndex index = 0;  // of the stream; overlay and recall: of the connection, from 0
  bool encrypts = false;  // the dialer
};

std::string otherSecretMessage();
std::string withdrawnMessage();

/// The dialer's side; the calls in this order, each answer is the next message to send.
class DialerProof {
 public:
  DialerProof(const Secret& secret, const Hello& hello, const Nonce& nonce);
  const std::string& hello() const { return hello_; }
  /// Errors: RemoteError: not a challenge; InvalidUsage: the other end has another secret.
  Result<std::string> onChallenge(std::string_view message);
  Status onAccepted(std::string_view message) const;
  /// From onChallenge() on: whether the acceptor encrypts, and the dialer's keys.
  bool peerEncrypts() const { return peerEncrypts_; }
  DirectionKeys keys() const;

 private:
  bool peerEncrypts_ = false;
  Secret secret_;
  std::string hello_;
  std::string transcript_;
};

/// The acceptor's side.
class AcceptorProof {
 public:
  /// What the stranger wants, to be believed after onProof only.  Errors: RemoteError: not a well-formed Hello.
  static Result<Hello> readHello(std::string_view message);
  /// The tag of a well-formed Hello, if it was made with this secret.
  static std::optional<Mac> tagOfHello(const Secret& secret, std::string_view message);
  AcceptorProof(const Secret& secret, std::string_view hello, const Nonce& nonce, bool encrypts = false);
  const std::string& challenge() const { return challenge_; }
  /// Whether the dialer says that it has another secret.
  static bool isOtherSecret(std::string_view message);
  /// Errors: RemoteError: the dialer does not know the secret.
  Result<std::string> onProof(std::string_view message) const;
  /// The acceptor's.
  DirectionKeys keys() const;

 private:
  Secret secret_;
  std::string transcript_;
  std::string challenge_;
};

}  // namespace tutti
