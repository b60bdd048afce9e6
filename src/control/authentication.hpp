// How links are authenticated: every link, dialed or accepted, until both of its ends have proven the secret.
//
// Strangers get little: messages of kMaxStrangerBytes, a limited number at a time (the oldest gives way), and
// kStrangerNs to prove themselves.  One who asks for a communicator that this process has not joined yet waits here
// until it does (parked).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "src/control/handshake.hpp"
#include "src/control/sealed_links.hpp"

namespace tutti {

inline constexpr int64_t kStrangerNs = 10'000'000'000;
/// How long a dialer waits for a challenge before it tries anew.  Once it has sent its proof it does not give up by
/// itself: the acceptor may already count on the link.
inline constexpr int64_t kDialNs = 5'000'000'000;

class LinkAuthentication {
 public:
  struct Hooks {
    /// The secret for what a stranger asks for; nullptr: unknown here, or not yet.
    std::function<const Secret*(const Hello&)> secretFor;
    /// Both ends are proven and the link is sealed; it is the hook's from here on.  owner: as given to dial(), 0 for an
    /// accepted link.  alike: both ends encrypt, or neither; else the link is for the news of that (Purpose::Meet
    /// only).
    std::function<void(LinkId, const Hello&, MemberId owner, bool alike)> proven;
    /// A dial has failed; its link is gone.  InvalidUsage: what answers has another secret.
    std::function<void(LinkId, MemberId owner, const Status&)> dialFailed;
    /// A stranger who says that it is the dialer of this Hello says, too, that it has another secret.
    std::function<void(const Hello&)> otherSecret;
    /// A dialer of Purpose::Meet who knows the secret has begun to prove that, by a Hello of this tag.  False: the tag
    /// has been here before.
    std::function<bool(const Hello&, const Mac& tag)> begins;
    /// The link of one who has begun, for the first time, has closed before the proof.
    std::function<void(const Hello&)> vanished;
  };

  LinkAuthentication(SealedLinks& network, bool encrypts, Hooks hooks)
      : network_(network), encrypts_(encrypts), hooks_(std::move(hooks)) {}
  bool encrypts() const { return encrypts_; }

  LinkId dial(const ControlAddress& to, const Hello& hello, const Secret& secret, MemberId owner);
  /// Give up a dial; no hook is called.
  void cancel(LinkId link);
  bool owns(LinkId link) const { return entries_.contains(link); }
  /// Whether the other host has not even taken the connection of a dial.
  bool connecting(LinkId link) const;
  /// A communicator or a rendezvous has come: let those in who wait for it.
  void unpark();

  void onAccepted(LinkId link);
  /// Turn away the stranger that has been here longest.  False: there is none.
  bool dropStranger();
  void onConnected(LinkId link);
  void onMessage(LinkId link, std::string_view message);
  void onClosed(LinkId link, const Status& why);
  int64_t nextTimerNs() const { return deadlines_.empty() ? kNoTimer : deadlines_.begin()->first; }
  void onTimer();

 private:
  enum class Phase { Connecting, AwaitChallenge, AwaitAccepted, AwaitHello, Parked, AwaitProof };
  struct Entry {
    Phase phase = Phase::AwaitHello;
    int64_t deadlineNs = kNoTimer;
    Hello hello;
    MemberId owner = 0;
    bool begun = false;      // see Hooks::begins
    ControlAddress to;       // of a dial
    std::string helloBytes;  // parked: the message itself
    std::optional<DialerProof> dialer;
    std::optional<AcceptorProof> acceptor;
  };

  Nonce nonce();
  void setDeadline(LinkId link, Entry& entry, int64_t ns);
  Entry remove(LinkId link);
  void withdraw(LinkId link);
  void fail(LinkId link, const Status& why);
  void challenge(LinkId link, Entry& entry);
  void onHello(LinkId link, Entry& entry, std::string_view message);
  void onDialerMessage(LinkId link, Entry& entry, std::string_view message);
  void admit(LinkId link, const DirectionKeys& keys, bool peerEncrypts);

  SealedLinks& network_;
  const bool encrypts_;
  Hooks hooks_;
  std::map<LinkId, Entry> entries_;
  std::set<std::pair<int64_t, LinkId>> deadlines_;  // of entries that have one
  std::set<std::pair<int64_t, LinkId>> strangers_;  // accepted entries, oldest first
};

}  // namespace tutti
