#include "src/control/authentication.hpp"

#include "src/base/log.hpp"

namespace tutti {

Nonce LinkAuthentication::nonce() {
  Nonce result;
  network_.randomBytes(std::as_writable_bytes(std::span(result)));
  return result;
}

void LinkAuthentication::setDeadline(LinkId link, Entry& entry, int64_t ns) {
  if (entry.deadlineNs != kNoTimer) deadlines_.erase({entry.deadlineNs, link});
  entry.deadlineNs = ns;
  if (ns != kNoTimer) deadlines_.insert({ns, link});
}

LinkAuthentication::Entry LinkAuthentication::remove(LinkId link) {
  auto node = entries_.extract(link);
  Entry& entry = node.mapped();
  if (entry.owner == 0) strangers_.erase({entry.deadlineNs, link});
  setDeadline(link, entry, kNoTimer);
  return std::move(entry);
}

LinkId LinkAuthentication::dial(const ControlAddress& to, const Hello& wanted, const Secret& secret, MemberId owner) {
  Hello hello = wanted;
  hello.encrypts = encrypts_;
  const LinkId link = network_.dial(to);
  Entry& entry = entries_[link];
  entry.phase = Phase::Connecting;
  entry.hello = hello;
  entry.owner = owner;
  entry.to = to;
  entry.dialer.emplace(secret, hello, nonce());
  setDeadline(link, entry, network_.nowNs() + kDialNs);
  return link;
}

void LinkAuthentication::cancel(LinkId link) {
  if (!owns(link)) return;
  withdraw(link);
  remove(link);
  network_.close(link);
}

/// A dial that this end gives up.  Any message in place of the proof makes the acceptor turn the link away.
void LinkAuthentication::withdraw(LinkId link) {
  if (entries_.at(link).phase == Phase::AwaitChallenge) network_.send(link, withdrawnMessage());
}

bool LinkAuthentication::connecting(LinkId link) const {
  const auto it = entries_.find(link);
  return it != entries_.end() && it->second.phase == Phase::Connecting;
}

/// Close a link that did not make it.
void LinkAuthentication::fail(LinkId link, const Status& why) {
  // A dialer's last words say why.  A stranger is owed none, and gets no time to take them.
  if (entries_.at(link).owner != 0) {
    withdraw(link);
    network_.close(link);
  } else {
    network_.drop(link);
  }
  const Entry entry = remove(link);
  if (entry.owner != 0) return hooks_.dialFailed(link, entry.owner, why);
  TUTTI_DEBUG("bootstrap", "a stranger was turned away: ", why.message());
}

void LinkAuthentication::onAccepted(LinkId link) {
  if (owns(link)) return;
  if (strangers_.size() >= network_.mostStrangers()) dropStranger();
  Entry& entry = entries_[link];
  setDeadline(link, entry, network_.nowNs() + kStrangerNs);
  strangers_.insert({entry.deadlineNs, link});
}

bool LinkAuthentication::dropStranger() {
  if (strangers_.empty()) return false;
  fail(strangers_.begin()->second, remoteError(ErrorCode::Stranger, "too many strangers"));
  return true;
}

void LinkAuthentication::onConnected(LinkId link) {
  const auto it = entries_.find(link);
  if (it == entries_.end() || it->second.phase != Phase::Connecting) return;
  it->second.phase = Phase::AwaitChallenge;
  network_.send(link, it->second.dialer->hello());
}

void LinkAuthentication::onMessage(LinkId link, std::string_view message) {
  const auto it = entries_.find(link);
  if (it == entries_.end()) return;
  Entry& entry = it->second;
  switch (entry.phase) {
    case Phase::AwaitHello: return onHello(link, entry, message);
    case Phase::AwaitChallenge:
    case Phase::AwaitAccepted: return onDialerMessage(link, entry, message);
    case Phase::AwaitProof: {
      if (AcceptorProof::isOtherSecret(message)) {
        hooks_.otherSecret(entry.hello);
        return fail(link, remoteError(ErrorCode::Stranger, "a dialer with another secret"));
      }
      Result<std::string> accepted = entry.acceptor->onProof(message);
      if (!accepted.ok()) return fail(link, accepted.status());
      network_.send(link, *accepted);
      return admit(link, entry.acceptor->keys(), entry.hello.encrypts);
    }
    case Phase::Connecting:
    case Phase::Parked: return fail(link, remoteError(ErrorCode::Malformed, "a message out of turn"));
  }
}

void LinkAuthentication::onHello(LinkId link, Entry& entry, std::string_view message) {
  Result<Hello> hello = AcceptorProof::readHello(message);
  if (!hello.ok()) return fail(link, hello.status());
  entry.hello = *hello;
  entry.helloBytes = message;
  entry.phase = Phase::Parked;
  challenge(link, entry);
}

/// Move a parked stranger on, if its communicator is known here by now.
void LinkAuthentication::challenge(LinkId link, Entry& entry) {
  const Secret* secret = hooks_.secretFor(entry.hello);
  if (secret == nullptr) return;
  const bool meets = entry.hello.purpose == Purpose::Meet;
  const std::optional<Mac> tag = meets ? AcceptorProof::tagOfHello(*secret, entry.helloBytes) : std::nullopt;
  entry.begun = tag && hooks_.begins(entry.hello, *tag);
  entry.acceptor.emplace(*secret, entry.helloBytes, nonce(), encrypts_);
  entry.phase = Phase::AwaitProof;
  network_.send(link, entry.acceptor->challenge());
}

void LinkAuthentication::unpark() {
  for (auto& [link, entry] : entries_)
    if (entry.phase == Phase::Parked) challenge(link, entry);
}

void LinkAuthentication::onDialerMessage(LinkId link, Entry& entry, std::string_view message) {
  if (entry.phase == Phase::AwaitAccepted) {
    const Status accepted = entry.dialer->onAccepted(message);
    if (!accepted.ok()) return fail(link, accepted);
    return admit(link, entry.dialer->keys(), entry.dialer->peerEncrypts());
  }
  Result<std::string> proof = entry.dialer->onChallenge(message);
  if (!proof.ok()) {
    if (proof.status().code() == tuttiInvalidUsage) network_.send(link, otherSecretMessage());
    return fail(link, proof.status());
  }
  entry.phase = Phase::AwaitAccepted;
  setDeadline(link, entry, kNoTimer);
  network_.send(link, *proof);
}

/// Where one end encrypts and the other does not, nothing goes over the link but the news of that.
void LinkAuthentication::admit(LinkId link, const DirectionKeys& keys, bool peerEncrypts) {
  const bool alike = peerEncrypts == encrypts_;
  if (!alike && entries_.at(link).hello.purpose != Purpose::Meet)
    return fail(link, invalidUsage(ErrorCode::EncryptionDiffers, "TUTTI_ENCRYPT is ", encrypts_, " here and ",
                                   peerEncrypts, " there"));
  const Entry entry = remove(link);
  network_.protect(link, keys, encrypts_ && peerEncrypts);
  hooks_.proven(link, entry.hello, entry.owner, alike);
}

void LinkAuthentication::onClosed(LinkId link, const Status& why) {
  if (!owns(link)) return;
  const Entry entry = remove(link);
  if (entry.owner == 0) return entry.begun ? hooks_.vanished(entry.hello) : void();
  // Older versions of the protocol end a link that they do not understand, without a word.
  const bool unanswered = entry.phase == Phase::AwaitChallenge && why.code() == tuttiRemoteError;
  const Status told = unanswered ? remoteError(ErrorCode::PeerClosed, why.text(),
                                               ", before it answered; do all ranks load the same version of Tutti?")
                                 : why;
  hooks_.dialFailed(link, entry.owner, told);
}

void LinkAuthentication::onTimer() {
  const int64_t now = network_.nowNs();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const LinkId link = deadlines_.begin()->second;
    const Entry& entry = entries_.at(link);
    const bool connected = entry.phase == Phase::AwaitChallenge;
    fail(link, timeoutError(ErrorCode::RanksUnreachable, entry.to,
                            connected ? " took the connection, and does not know this communicator, or not yet"
                                      : " did not answer in time"));
  }
}

}  // namespace tutti
