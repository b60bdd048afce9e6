// The contract of transports: how two ranks exchange messages.
//
// An Endpoint is an ordered, reliable, two-way FIFO of messages between two ranks, for one lane.  Nothing blocks: every
// call returns at once and is made again, the opening of endpoints included.  The endpoints of a transport are used by
// one thread at a time (the executor's).  Both ends know from their schedules how large the next message is and what
// call it belongs to; an endpoint compares that with what arrives (Expect) before it hands out a byte.
//
// Room: a sender may always have one message of up to slotBytes() on its way without the receiver having asked for it.
// Failure: an endpoint remembers its first failure and returns it from every later call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/pending.hpp"
#include "src/collective/fingerprint.hpp"
#include "src/cost/link_profile.hpp"

namespace tutti {

/// What the receiver knows of the next message.
struct Expect {
  size_t bytes = 0;
  Fingerprint call;
  /// By the call that the message is a piece of, if nobody reads it soon; decides whether to store past the cache
  /// (copyPiece of src/base/copy.hpp).  0: through the cache.
  size_t touchedBytes = 0;
};

/// A send or a receive that is under way on one endpoint; 0: there was no room for it.  Messages keep the order of
/// their posts, and requests of a direction are done in that order; but a send that waits in the base class's line may
/// be done while the receiver still reads an offer before it.
using Request = uint64_t;
/// In the requests of receives, and of sends that wait in the base class's line.
inline constexpr Request kReceiveRequest = uint64_t{1} << 63;
inline constexpr Request kSendInLine = uint64_t{1} << 62;

/// The most bytes of a message on a board.
inline constexpr size_t kBoardBytes = 96;
/// Each rank has two boards, so that values of a call need not wait for readers of other numbers.
enum class BoardUse : uint8_t {
  Values,   // of collectives
  Figures,  // what ranks tell each other between calls
};
inline constexpr size_t kBoards = 2;

class Outbox;
class RequestLine;

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  /// The most bytes of one message (direct messages may be larger: see maxDirectBytes).
  virtual size_t slotBytes() const = 0;
  /// 0 where the direct protocol is not possible at all on this link.
  virtual size_t maxDirectBytes() const { return 0; }
  /// Bytes that go inline (payload in the control line); 0 if there is no such thing.
  virtual size_t inlineBytes() const { return 0; }

  // ---- Sending, polled.  One message is begun and finished before the next; the ways may alternate.

  /// Send from `data`.  True: the bytes are taken and the memory is free.  False: no room yet, or partly written: call
  /// again with the same arguments.  bytes may be 0 (a token).
  virtual Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) = 0;

  /// Memory of slotBytes() to build the next message in, or an empty span while there is no room.  An endpoint without
  /// slots of its own lends a staging buffer.  Stable until commit().
  virtual Result<std::span<std::byte>> reserve() = 0;
  /// Send what was built in reserve()d memory.  True: gone.  False: partly written, call again.
  virtual Result<bool> commit(size_t bytes, const Fingerprint& call) = 0;

  // ---- Requests: any number of sends and receives under way on memory that is the endpoint's from the post until
  // test() says true, or cancel() has returned.  They go on in test() of any of them and in Transport::progress().  Of
  // one direction, the polled calls may be used behind requests where these are the endpoint's own, but not behind
  // those of the base class.

  /// Send `data`.  0: no room now; post again.  Up to slotBytes(), or maxDirectBytes() where canOffer().  The base
  /// class sends in line, by send().  Errors: InvalidUsage: not takes(data, bytes).
  virtual Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call);
  /// Receive into `dst`.  0: no room now; post again.  The base class receives in line, by receive().  Errors as above.
  virtual Result<Request> postReceive(std::byte* dst, const Expect& expect);
  /// Whether it is done: the receiver has what was sent, or does not need the sender's memory for it; what was to come
  /// is there.  Errors: the endpoint's failure, of requests that were not done before; InvalidUsage, of the first
  /// receive that does not meet what it expects and of all that are behind it.
  virtual Result<bool> test(Request request);
  /// Give up all requests; returns when nobody uses their memory any more, readers of this process included.  For
  /// abort: the endpoint then is of no more use.
  virtual void cancel();

  /// Whether requests may use this memory: false where it would have to be registered.
  virtual bool takes(const std::byte*, size_t) const { return true; }
  /// Whether the receiver of a posted send reads this memory where it lies.
  virtual bool canOffer(const std::byte*, size_t) const { return false; }
  /// Whether it does so through a mapping that it keeps: no system call, no copy but its own.
  virtual bool offersMapped(const std::byte*, size_t) const { return false; }
  /// From how many bytes on a message in any memory is offered, as both ends know: it need not be cut into slots.
  virtual size_t leastWholeBytes() const { return SIZE_MAX; }

  /// Messages from here on carry `beganNs` (nowNs() when their send was called; 0: none), and the receiver says what
  /// they took.  A receiver of this host, which has the same clock; of those that cannot tell, nothing comes.
  virtual void timeSends(int64_t /*beganNs*/) {}
  /// The nanoseconds from when both ends were in the last timed message to when the receiver had all of it.  None: it
  /// has not said so yet, or does not.
  virtual std::optional<int64_t> timedNs() const { return std::nullopt; }

  /// Whether nothing that was sent needs further calls of this rank to leave: else Transport::progress() is to be
  /// called until it says so, also after the call that sent it.
  virtual bool hasLeft() const { return true; }

  /// Where messages to this peer and others can be written once for all; null where there is no such thing.
  virtual Outbox* outbox() { return nullptr; }

  // ---- Receiving, polled.

  /// The next message, whole and readable in place (valid until release()), or nullptr while it has not arrived.
  /// Error: InvalidUsage if fingerprint or size differ from `expect`; seen() then has what came.
  virtual Result<const std::byte*> peek(const Expect& expect) = 0;
  /// As peek(), but of a message that is still being written gives what is there of it: its first bytes, more of them
  /// with each call.  A null pointer: none.  Once it has given some it is to be called until it gives all, and no other
  /// way to receive in between.
  virtual Result<std::span<const std::byte>> peekPart(const Expect& expect) {
    TUTTI_ASSIGN(const std::byte* whole, peek(expect));
    return std::span(whole, whole == nullptr ? 0 : expect.bytes);
  }
  /// Done with the message of the last peek(), or giving up the receive() that has not been true yet: dst is the
  /// caller's when this returns.
  virtual void release() = 0;
  /// Move the next message to dst; true when it is there (release() is not called).  As peek(), without a detour: until
  /// then dst is the endpoint's.
  virtual Result<bool> receive(std::byte* dst, const Expect& expect) = 0;

  /// A message (or its head) that has arrived and was not asked for yet: its fingerprint.  Any thread; a hint, used to
  /// find ranks that disagree.
  virtual std::optional<Fingerprint> pending() const { return std::nullopt; }

  /// What the last refused message said of itself.
  const Fingerprint& seen() const { return seen_; }

 protected:
  /// Whether sends wait in the base class's line.
  bool sendsWait() const { return line_ != nullptr && lineHasSends(); }
  Fingerprint seen_;

 private:
  bool lineHasSends() const;
  RequestLine& line();
  std::shared_ptr<RequestLine> line_;  // null until something is posted that waits there
};

/// Memory of one rank, for one lane, that several peers read in place: a message to many is written once and announced
/// to each.  Used by the thread that uses the endpoints.  A message: reserve(), post() to every reader, the next.
class Outbox {
 public:
  virtual ~Outbox() = default;
  /// The most bytes of a message.
  virtual size_t mostBytes() const = 0;
  /// Memory for the next message, stable until the next reserve(); null while readers of earlier ones hold all of it.
  virtual Result<std::byte*> reserve(size_t bytes) = 0;
  /// After reserve() gave nothing: the first of `readers` (endpoints of this outbox) who has as many messages to take
  /// as a FIFO may be asked to hold, so that waiting for it is what any sender would have to do; -1 if there is none.
  /// Then others hold the memory, who may be waiting for one of `readers`, and the message must go to each on its own.
  virtual int holdsUp(std::span<Endpoint* const> readers) const = 0;
  /// Announce what was written to reserve()d memory.  False: no room yet; call again.
  virtual Result<bool> post(Endpoint& reader, size_t bytes, const Fingerprint& call) = 0;
};

/// Puts a rank to sleep until one of its endpoints may have something.
class Sleeper {
 public:
  virtual ~Sleeper() = default;
  /// Called before the last look at the endpoints: from here on peers will wake us.
  virtual void prepare() = 0;
  /// Sleep until woken or for at most `us` microseconds.  A wake-up may be missed only if it is bounded by `us`.
  virtual void sleep(int us) = 0;
  /// Undo prepare() without sleeping.
  virtual void cancel() = 0;
  /// End a sleep() that has been prepared.  Any thread.
  virtual void ring() = 0;
};

/// Memory that requests may use (Transport::registerMemory), until this is destroyed; none may be under way then.
class MemoryRegistration {
 public:
  virtual ~MemoryRegistration() = default;
};

/// What a rank tells the others of itself at init, per transport: opaque bytes, small.
using Address = std::string;

/// What every rank knows of every other (gathered at init).
struct PeerInfo {
  int rank = 0;
  uint64_t hostId = 0;     // equal: same kernel, same network namespace, same TUTTI_HOSTID
  uint64_t processId = 0;  // random per process; equal: same address space
  int32_t pid = 0;
  uint32_t uid = 0;
};

/// An endpoint that is coming up.  poll() gives it once both ends may use it.  Errors: RemoteError naming peer and
/// address; InvalidUsage: the two ends are not set alike.
using PendingEndpoint = std::unique_ptr<Pending<std::unique_ptr<Endpoint>>>;

/// poll() calls `ask`, which gives a Result<std::unique_ptr<Endpoint>>.
template <class Ask>
PendingEndpoint endpointBy(Ask ask) {
  return pendingBy<std::unique_ptr<Endpoint>>(std::move(ask));
}

/// One that does not come up.
inline PendingEndpoint refusedEndpoint(const Status& why) {
  return endpointBy([why]() -> Result<std::unique_ptr<Endpoint>> { return why; });
}

/// One way to reach peers, for one rank of one communicator.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;  // as in TUTTI_TRANSPORTS
  /// The link by which this transport joins two ranks, of which this one need be neither.  A function of the two alone:
  /// symmetric, and the same on all ranks; but whether it takes memory of devices is said for this rank's end, whatever
  /// the other end does.  Errors: InvalidUsage, a clause that says why there is none.
  virtual Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const = 0;
  /// This rank's opaque address; travels to every peer.  Empty: no other rank reaches this one by it, and reach() here
  /// says why.
  virtual Address address() const = 0;
  /// Begin to open endpoint number `lane` to `peer`.  Both ends do, in any order, at any time; any number of endpoints
  /// may be coming up.  What is given borrows the transport.
  virtual PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) = 0;
  /// Let requests use `memory`, of a kind that the links take; null where they may anyway.  Any thread.
  /// Errors: SystemError: the system has no more room for that, and what to do.
  virtual Result<std::unique_ptr<MemoryRegistration>> registerMemory(const Memory& /*memory*/) {
    return std::unique_ptr<MemoryRegistration>();
  }
  /// Whether a rank can send one message to all others at once: written once, and read by each where it lies.
  virtual bool hasBoards() const { return false; }
  /// The sending end of this rank's board: what is sent goes to every one of `readers`, all other ranks of the
  /// communicator.  Messages of at most inlineBytes().
  virtual PendingEndpoint publisher(BoardUse, std::vector<Address> /*byRank*/) { return noBoards(); }
  /// The receiving end of a peer's board; every rank must receive every message.
  virtual PendingEndpoint subscriber(BoardUse, int /*peer*/, const Address&) { return noBoards(); }
  /// Called now and then while the rank waits: moves bytes that wait in buffers of the system, in both directions, so
  /// that a peer blocked on us can go on even though our current op is about somebody else.  By the thread that uses
  /// the endpoints.  True if something moved; an endpoint that fails says so in its next call.
  virtual bool progress() { return false; }
  /// Null where there is nothing to sleep on.
  virtual Sleeper* sleeper() { return nullptr; }

 protected:
  static PendingEndpoint noBoards() {
    return refusedEndpoint(internalError(ErrorCode::PartMisused, "there are no boards"));
  }
};

/// An endpoint, for a caller that may block.  Errors: as beginConnect(); Timeout.
inline Result<std::unique_ptr<Endpoint>> awaitEndpoint(Transport& transport, int peer, const Address& peerAddress,
                                                       int lane, Deadline deadline) {
  return awaitValue(*transport.beginConnect(peer, peerAddress, lane), deadline, cat("its link to rank ", peer));
}

}  // namespace tutti
