#include "src/control/handshake.hpp"

#include <algorithm>

#include "src/base/hkdf.hpp"
#include "src/control/wire.hpp"

namespace tutti {

namespace {

constexpr std::string_view kMagic = "TUTTI-8\n";  // the number is the protocol's version

/// Without its tag.
std::string encodeHello(const Hello& hello, const Nonce& nonce) {
  Writer w(MessageType::Hello);
  w.raw(kMagic.data(), kMagic.size());
  w.u8(static_cast<uint8_t>(hello.purpose));
  w.raw(hello.commId.data(), hello.commId.size());
  w.i32(hello.dialer);
  w.i32(hello.acceptor);
  w.i32(hello.nRanks);
  w.i64(hello.index);
  w.u8(hello.encrypts ? 1 : 0);
  w.raw(nonce.data(), nonce.size());
  return w.take();
}

/// What the acceptor adds to a Hello.
std::string acceptorPart(const Nonce& nonce, bool encrypts) {
  Writer w;
  w.raw(nonce.data(), nonce.size());
  w.u8(encrypts ? 1 : 0);
  return w.take();
}

Secret keyOfDialer(const Secret& secret, std::string_view transcript) {
  return hkdfSha256(secret, transcript, "tutti link, dialer to acceptor");
}
Secret keyOfAcceptor(const Secret& secret, std::string_view transcript) {
  return hkdfSha256(secret, transcript, "tutti link, acceptor to dialer");
}

/// The label's length is fixed by its 16 bytes, so that label and transcript cannot be confused.
Mac prove(const Secret& secret, std::string_view label, std::string_view transcript) {
  std::string data(label);
  data.resize(16, '\0');
  data.append(transcript);
  return hmacSha256(secret, data);
}

std::string macMessage(MessageType type, const Mac& mac) {
  Writer w(type);
  w.raw(mac.data(), mac.size());
  return w.take();
}

/// Whether `message` is of this type and carries just this MAC.
bool carriesMac(std::string_view message, MessageType type, const Mac& expected) {
  Reader r(message);
  const uint8_t got = r.u8();
  Mac mac;
  r.raw(mac.data(), mac.size());
  return r.done() && got == static_cast<uint8_t>(type) && sameDigest(mac, expected);
}

std::string taggedHello(const Secret& secret, const Hello& hello, const Nonce& nonce) {
  std::string message = encodeHello(hello, nonce);
  const Mac tag = prove(secret, "hello", message);
  return message.append(reinterpret_cast<const char*>(tag.data()), tag.size());
}

}  // namespace

Mac hmacSha256(const Secret& key, std::string_view data) { return hmacSha256(key.view(), data); }

std::string otherSecretMessage() { return Writer(MessageType::OtherSecret).take(); }
std::string withdrawnMessage() { return Writer(MessageType::Withdrawn).take(); }

DialerProof::DialerProof(const Secret& secret, const Hello& hello, const Nonce& nonce)
    : secret_(secret), hello_(taggedHello(secret, hello, nonce)) {}

Result<std::string> DialerProof::onChallenge(std::string_view message) {
  Reader r(message);
  const uint8_t type = r.u8();
  Nonce nonce;
  Mac mac;
  r.raw(nonce.data(), nonce.size());
  const uint8_t encrypts = r.u8();
  r.raw(mac.data(), mac.size());
  if (!r.done() || type != static_cast<uint8_t>(MessageType::Challenge) || encrypts > 1)
    return remoteError(ErrorCode::Malformed, "what answers there does not speak Tutti's protocol");
  peerEncrypts_ = encrypts == 1;
  transcript_ = hello_ + acceptorPart(nonce, peerEncrypts_);
  if (!sameDigest(mac, prove(secret_, "acceptor", transcript_)))
    return invalidUsage(ErrorCode::SecretDiffers, "what answers there has another secret for this communicator");
  return macMessage(MessageType::Proof, prove(secret_, "dialer", transcript_));
}

Status DialerProof::onAccepted(std::string_view message) const {
  if (carriesMac(message, MessageType::Accepted, prove(secret_, "accepted", transcript_))) return {};
  return remoteError(ErrorCode::Malformed, "the answer to the proof of the secret is malformed");
}

Result<Hello> AcceptorProof::readHello(std::string_view message) {
  Reader r(message);
  const uint8_t type = r.u8();
  char magic[8];
  static_assert(sizeof magic == kMagic.size());
  r.raw(magic, sizeof magic);
  Hello hello;
  const uint8_t purpose = r.u8();
  hello.purpose = static_cast<Purpose>(purpose);
  r.raw(hello.commId.data(), hello.commId.size());
  hello.dialer = r.i32();
  hello.acceptor = r.i32();
  hello.nRanks = r.i32();
  hello.index = r.i64();
  const uint8_t encrypts = r.u8();
  hello.encrypts = encrypts == 1;
  Nonce nonce;
  r.raw(nonce.data(), nonce.size());
  Mac tag;
  r.raw(tag.data(), tag.size());
  if (!r.done() || type != static_cast<uint8_t>(MessageType::Hello) || std::string_view(magic, sizeof magic) != kMagic)
    return remoteError(ErrorCode::Malformed, "not a hello of this version of Tutti (protocol ", kMagic.substr(6, 1),
                       ")");
  const bool toRendezvous = hello.purpose == Purpose::Meet;
  const bool knownPurpose = purpose >= 1 && purpose <= static_cast<uint8_t>(Purpose::Recall);
  const bool ranks =
      hello.nRanks >= 1 && hello.nRanks <= kMaxRanks && hello.dialer >= 0 && hello.index >= 0 &&
      (toRendezvous ? hello.acceptor == -1
                    : hello.acceptor >= 0 && hello.acceptor < hello.nRanks && hello.dialer < hello.nRanks);
  if (!knownPurpose || !ranks || encrypts > 1)
    return remoteError(ErrorCode::Malformed, "a hello with a purpose or ranks that cannot be");
  return hello;
}

std::optional<Mac> AcceptorProof::tagOfHello(const Secret& secret, std::string_view message) {
  Mac tag;
  if (message.size() < tag.size()) return {};
  const std::string_view tagged = message.substr(0, message.size() - tag.size());
  std::copy_n(message.end() - static_cast<ptrdiff_t>(tag.size()), tag.size(), tag.begin());
  return sameDigest(tag, prove(secret, "hello", tagged)) ? std::optional(tag) : std::nullopt;
}

DirectionKeys DialerProof::keys() const {
  return {keyOfDialer(secret_, transcript_), keyOfAcceptor(secret_, transcript_)};
}

DirectionKeys AcceptorProof::keys() const {
  return {keyOfAcceptor(secret_, transcript_), keyOfDialer(secret_, transcript_)};
}

AcceptorProof::AcceptorProof(const Secret& secret, std::string_view hello, const Nonce& nonce, bool encrypts)
    : secret_(secret), transcript_(hello) {
  const std::string own = acceptorPart(nonce, encrypts);
  transcript_.append(own);
  Writer w(MessageType::Challenge);
  w.raw(own.data(), own.size());
  const Mac mac = prove(secret_, "acceptor", transcript_);
  w.raw(mac.data(), mac.size());
  challenge_ = w.take();
}

bool AcceptorProof::isOtherSecret(std::string_view message) { return message == otherSecretMessage(); }

Result<std::string> AcceptorProof::onProof(std::string_view message) const {
  if (!carriesMac(message, MessageType::Proof, prove(secret_, "dialer", transcript_)))
    return remoteError(ErrorCode::Stranger, "a dialer that does not know the secret");
  return macMessage(MessageType::Accepted, prove(secret_, "accepted", transcript_));
}

Secret deriveSecret(const Secret& parent, std::string_view label) {
  Mac mac = prove(parent, "child secret", label);
  Secret secret(mac);
  wipe(mac);
  return secret;
}

CommId deriveCommId(const Secret& parent, std::string_view label) {
  const Mac mac = prove(parent, "child id", label);
  CommId id;
  std::copy_n(mac.begin(), id.size(), id.begin());
  return id;
}

}  // namespace tutti
