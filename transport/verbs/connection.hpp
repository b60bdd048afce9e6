// Both ends' slots for messages over a few queue pairs, with counters of what has come and what has been released.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "src/base/fd.hpp"
#include "transport/verbs/arrivals.hpp"
#include "transport/verbs/queue_pair.hpp"
#include "transport/verbs/returning.hpp"

namespace tutti::verbs {

/// A message is one write into a slot of the receiver's, its header in front.  The receiver tells how many messages it
/// has released beside messages of its own, or by writes of nothing.  One thread, but for header().
///
/// A message completes at the receiver, which wakes it where it sleeps.  One that polls sees a small message in its
/// slot before that; it tells the sender that the slot is free only when both have happened.  A receiver that has
/// waited awake for a while says so in the headers of its own messages; small ones to it then come silently, without
/// anything that completes, until it says that it goes to sleep.  One that is under way then is found when that sleep
/// ends, a millisecond later at most.
///
/// A message whose header would take a packet more goes bare, without it, where the receiver can tell the header from
/// that of the message before and the 32 bits.  It always completes.  The receiver puts the header into the slot.
///
/// The first queue pair carries what is small.  Larger messages take turns among all of them, or go in pieces by
/// several: over all rails, and where options say so over all queue pairs.  Each piece tells the message's number, so
/// messages count as arrived in their order, whatever the order of the pieces.
///
/// A rail that fails while another is left is lost (lost_rails.cpp): both ends end its queue pairs, and messages that
/// used it and have not come whole are sent again by the others.  It is used again when both ends find that operations
/// arrive by it (returning_rails.cpp).
///
/// Trouble (the last rail's completion with an error, its port, the peer's end) is kept here, for the endpoint to say
/// when it needs what does not come any more: what came before counts.
class Connection final : private QueuePair::Owner {
 public:
  /// stream: to the peer, through which its end shows.  Errors: SystemError.
  static Result<std::unique_ptr<Connection>> create(int peer, const Rails& rails,
                                                    std::shared_ptr<Completions> completions, const Options& options,
                                                    Fd stream);
  /// What was sent is on its way: waits, for a second at most, until the adapter is done with it.
  ~Connection() override;

  const ConnectionCard& card() const { return card_; }
  /// Before the card is sent: fetchStaged() will be used.
  void readStaged() { card_.readsStaged = 1; }
  int stream() const { return stream_.get(); }
  /// Errors: as checkCard(); SystemError.
  Status connect(const ConnectionCard& theirs, const Options& options);
  /// Ports in use at both ends.
  uint32_t rails() const { return rails_; }

  size_t slotBytes() const { return static_cast<size_t>(card_.slotBytes); }
  uint32_t slots() const { return card_.slots; }
  Completions& completions() const { return *completions_; }
  /// Looks at what has completed, and now and then whether the peer is still there.  True if something has completed.
  bool poll();
  /// The rest of it, by who has looked at what has completed, or not.
  void react(bool some);
  /// ok while nothing has failed.
  const Status& trouble() const { return trouble_; }
  /// This end goes to sleep: what is sent to it from here on is to complete.
  void tellOfSleep();
  /// Give up everything: from here on nobody reads or writes memory by this connection, and the peer finds out.
  void end();

  // ---- Sending: message k, from 0 on, uses slot k % slots().

  /// Messages that the peer is done with.
  uint64_t released() const { return released_; }
  /// Whether an operation more may be posted.
  bool hasRoom() const;
  /// Memory for the payload of the message in this slot.
  std::byte* staging(uint64_t message) { return staged(message) + kHeaderBytes; }
  /// Send what is in staging(message), or `data`.  The caller has seen that there is room.
  Status send(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call);
  /// Tell the peer where it can read the message.
  Status lend(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call, const Keys& keys);

  // ---- Receiving.

  /// Whether this message has come, all before it being known to.  Finds small ones by a look at their slot, sooner and
  /// for less than by what completes.
  bool has(uint64_t message) { return message < arrived_ || (message == arrived_ && isInSlot()); }
  /// Whether the next message, of so many bytes, is found in its slot, whatever completes.
  bool isFoundInSlot(size_t bytes) const { return bytes <= kMostCheckedBytes && slots() >= kLeastSlotsToLookAt; }
  /// Whether a message of so many bytes may come bare, so that only what completes tells of it.
  bool mayComeBare(size_t bytes) const { return takesPacket(bytes, mtuBytes_); }
  /// Messages that have come, as far as what completed tells.
  uint64_t confirmed() const { return arrivals_.complete(); }
  /// Of a message that has come, or may have: its number says so.  Any thread.  The peer can write there at any time:
  /// what is to stay as it was checked is copied.
  const Header& header(uint64_t message) const { return *reinterpret_cast<const Header*>(slot(message)); }
  std::byte* payload(uint64_t message) { return slot(message) + kHeaderBytes; }
  /// Read the `bytes` that the peer lends, into registered memory or into the message's slot (null), which has room.
  Status fetch(uint64_t message, size_t bytes, std::byte* into, const Keys& keys);
  /// The same for a message that was copied: reads it where the peer has it staged, as the host cannot copy it on.
  Status fetchStaged(uint64_t message, size_t bytes, std::byte* into, const Keys& keys);
  /// After fetch().
  bool isFetched(uint64_t message) const { return fetches_[message % slots()].underWay == 0 && message < confirmed(); }
  /// The first `messages` are done with.  now: tell the peer at once, which may wait for this one.
  void giveBack(uint64_t messages, bool now);

 private:
  /// With fewer slots, one that is free and not told of could be the one that the sender may count on.
  static constexpr uint32_t kLeastSlotsToLookAt = 4;
  class Slots;
  Connection(int peer, std::shared_ptr<Completions> completions, Fd stream, uint32_t slots);
  Status open(const Rails& rails, const Options& options);
  /// Every message of both directions, its release, a sleep after each, some to spare, and what is yet to be posted
  /// again.
  uint32_t receives() const { return 3 * card_.slots + 2 + QueuePair::kReceivesAtOnce; }
  /// Of so many bytes of a message, from the k-th queue pair on.
  struct Spread {
    uint32_t first, count;
  };
  Spread spread(uint64_t message, size_t bytes) const;
  /// pieces: 1 or more.  Where piece k of so many bytes begins.
  static size_t beginOf(uint32_t piece, uint32_t pieces, size_t bytes);
  QueuePair& pair(uint64_t number) { return *pairs_[number % pairs_.size()]; }
  size_t stride() const;
  std::byte* slot(uint64_t message) const;
  std::byte* staged(uint64_t message) const;
  QueuePair::Place place(uint64_t message, uint32_t rail) const;
  Status put(uint64_t message, Header header, const std::byte* data, size_t bytes);
  void putPiece(uint64_t message, uint32_t piece);
  void putBare(uint64_t message, uint32_t word);
  /// [begin, end) of the message's slot.
  void putBytes(uint64_t message, QueuePair& by, size_t begin, size_t end, std::optional<uint32_t> word);
  void readPiece(uint64_t message, uint32_t piece);
  /// A message that the peer lends, and where it goes.
  struct Fetch {
    std::byte* into = nullptr;
    Keys keys;
    Loan from;
    size_t bytes = 0;
    Spread over{};
    uint32_t underWay = 0;  // reads
  };
  Status read(uint64_t message, Fetch fetch);
  bool isInSlot();
  bool confirm();
  void note(const Header& header);
  void keepHeader(uint64_t message, const Header& header);
  bool maySendSilently(size_t bytes) const;
  void released(uint32_t low);
  uint64_t releasable() const;
  void confirmMost();
  void tellReleased();
  void lookAtStream();
  void flush();
  void fail(Status why);
  std::string who(uint32_t rail) const;

  void came(uint32_t word) override;
  void fetched(uint32_t mark) override;
  void failed(uint32_t rail, const std::string& what) override;

  // lost_rails.cpp
  uint32_t railsUp() const;
  void peerLost(uint32_t word);
  void peerLostIt(uint32_t rail, uint64_t peerHas);
  void moveTraffic();
  void lose(uint32_t rail);
  void sendAgain(uint32_t rail);
  void tellOfLostRails();
  void goOnAgain();
  bool isMoved();

  // returning_rails.cpp
  void lookForReturns();
  void pauseReturn(uint32_t rail);
  void goOnReturning(uint32_t rail, int64_t now);
  void offer(uint32_t rail);
  void connectAgain(uint32_t rail);
  void prove(uint32_t rail);
  static bool isProven(const Returning& at);
  void dropReturn(uint32_t rail);
  void useAgain(uint32_t rail);
  void tell(uint32_t rail, ReturnCard::Kind kind, ReturnCard card = {});
  void say();
  void heard(std::string_view bytes);
  void hear(const ReturnCard& card);

  /// A message in a slot of the peer's.
  struct Sent {
    size_t bytes = 0;  // with its header
    Spread over{};
    uint32_t rails = 0;  // that its pieces went by, a bit each
  };
  /// A piece that went by a rail that is lost.
  struct Piece {
    uint64_t message;
    uint32_t piece;
    bool isRead;
  };
  enum class RailState : uint8_t {
    Up,
    Lost,  // until the peer says that it has ended its queue pairs, too
    Gone,
  };

  const int peer_;
  const std::shared_ptr<Completions> completions_;
  const Fd stream_;
  Options options_;
  ConnectionCard card_, theirs_;
  std::unique_ptr<Slots> memory_;  // the receiving slots, and as many to send from
  uint32_t rails_ = 1;
  bool splits_ = false;
  bool connected_ = false;
  /// Those of the rails that are up take turns: any run of as many as there are rails has one on each.
  std::vector<std::unique_ptr<QueuePair>> pairs_;
  Arrivals arrivals_;
  size_t mtuBytes_ = 4096;           // of a packet to the peer
  std::vector<uint32_t> bareWords_;  // by slot, of messages that have come bare; else 0
  Header lastSent_, lastArrived_;
  std::vector<Sent> sentBySlot_;
  std::vector<Fetch> fetches_;  // by slot
  Status trouble_;
  uint64_t sent_ = 0;
  uint64_t released_ = 0;  // by the peer
  uint64_t arrived_ = 0;   // by a look at their slot, or as arrivals_ has it
  uint64_t givenBack_ = 0;
  uint64_t told_ = 0;      // of those
  uint64_t tellUpTo_ = 0;  // at once
  uint32_t looks_ = 0;
  bool saidAwake_ = false;    // since this end last said that it sleeps
  uint64_t awakeSince_ = 0;   // the peer's last message, from 1 on, if it says so
  uint64_t asleepAfter_ = 0;  // messages that the peer had sent when it last went to sleep

  // Of rails that are lost, bits by rail.
  bool moving_ = false;      // nothing new is sent meanwhile
  uint32_t failing_ = 0;     // to be lost by the next react()
  uint32_t peersWords_ = 0;  // that the peer has lost, to be looked at by the next react()
  uint32_t untold_ = 0;      // that the peer has to be told of
  uint32_t lost_ = 0;
  bool hasLost_ = false;  // a rail, ever
  std::array<RailState, kMostRails> states_{};
  std::array<std::string, kMostRails> why_;
  std::array<uint64_t, kMostRails> peerHas_{};  // messages that the peer has whole, when it says that a rail is lost
  Fifo<Piece> again_;
  std::array<uint32_t, kMostRails> generations_{};  // times that a rail was taken up again
  std::array<Returning, kMostRails> returning_;
  int64_t nextReturnNs_ = 0;
  bool ending_ = false;
  std::string toSay_, heard_;        // to the stream, and from it
  std::vector<uint64_t> lastAgain_;  // by queue pair: the operation that ends what went again; empty: not yet posted
};

}  // namespace tutti::verbs
