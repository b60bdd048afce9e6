// Messages between two ranks for one lane: what is under way, what has come, trouble.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "src/base/fd.hpp"
#include "transport/transport.hpp"
#include "transport/ucx/worker.hpp"

namespace tutti::ucx {

/// What UCX is told of memory that it reads or writes.
struct Keys {
  ucp_mem_h handle = nullptr;  // null: slots of ours
  ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
  bool onDevice = false;
};

/// A message is one active message, numbered, as UCX keeps no order between small and large ones.  A sender has as many
/// under way as the receiver has slots; the receiver tells how many it has released beside messages of its own, or by
/// active messages of nothing else.  Payloads that are sent from slots leave at once (eager), others as UCX likes.
///
/// Worker::mutex() has to be held, but for create() and the destructor.  Trouble (UCX's, the peer's end) is kept here,
/// for the endpoint to say when it needs what does not come any more: what came before counts.
class Connection final : private Listener {
 public:
  /// stream: to the peer, through which its end shows.  Takes the mutex.  Errors: SystemError.
  static Result<std::unique_ptr<Connection>> create(int peer, std::shared_ptr<Worker> worker, const Options& options,
                                                    Fd stream);
  /// Waits, as long as the worker's closeNs() allow, until the peer has what was sent.  Takes the mutex.
  ~Connection() override;

  const Card& card() const { return card_; }
  /// Messages may be from or for memory of a device, which UCX alone reads and writes: it has to lend.  Before
  /// connect().
  void needLending() { needsLending_ = true; }
  int stream() const { return stream_.get(); }
  Worker& worker() const { return *worker_; }
  /// Goes on connecting; true when both ends have heard each other.  Errors: InvalidUsage: the two ends are not set
  /// alike; RemoteError; SystemError.
  Result<bool> connect(const Card& theirs, const std::string& address);

  size_t slotBytes() const { return card_.slotBytes; }
  /// Lets UCX go on, and looks now and then whether the peer is still there.  True if something has happened.
  bool drive();
  /// The rest of it, by who has let UCX go on.
  void react(bool some);
  void lookAtStream();
  /// ok while nothing has failed.
  const Status& trouble() const { return trouble_; }
  /// Whether no message comes any more.
  bool ended() const { return !trouble_.ok() && (deaf_ || arrived_ >= theirMessages_); }
  /// Give up everything: from here on nobody uses memory by this connection, and the peer finds out.
  void end();

  // ---- Sending, messages from 0 on.

  bool hasRoom() const { return written_ - released_ < card_.slots && written_ - sent_ < card_.slots; }
  /// Memory for the payload of the next message.
  std::byte* staging() { return outbound_->slots.get() + written_ % card_.slots * stride_; }
  /// Send what is in staging(), or `data`; how many messages there are with it.  The caller has seen that there is
  /// room.
  uint64_t send(const std::byte* data, size_t bytes, const Fingerprint& call);
  /// Send from registered memory, which is the connection's until the message is sent.
  uint64_t lend(const std::byte* data, size_t bytes, const Fingerprint& call, const Keys& memory);
  /// Messages that UCX is done with.  Others may need drive() to leave.
  uint64_t sent() const { return sent_; }
  /// Whether the first `messages` need nothing more.  Where there is trouble the peer must have said so.
  bool areSent(uint64_t messages) const { return messages <= (trouble_.ok() ? sent_ : std::min(sent_, released_)); }
  /// Whether nothing of it waits for drive() to leave, or it never will.
  bool allSent() const { return sent_ == written_ || !trouble_.ok(); }
  uint64_t numLent() const { return numLent_; }

  // ---- Receiving.

  uint64_t arrived() const { return arrived_; }
  const Header& header(uint64_t message) const { return inbound(message).header; }
  /// Whether the payload has to be fetched.
  bool isLent(uint64_t message) const { return inbound(message).lent; }
  const std::byte* payload(uint64_t message) const { return static_cast<const std::byte*>(inbound(message).payload); }
  /// Have UCX bring what the peer lends, into registered memory, or into this connection's (null).
  void fetch(uint64_t message, std::byte* into, const Keys& memory);
  /// Errors: the connection's trouble: it does not come any more.
  Result<bool> isFetched(uint64_t message);
  /// The next message is done with.
  void giveBack();

 private:
  /// What UCX may use until its requests are done.
  struct Outbound {
    std::vector<Header> headers;  // one more than there are slots, for telling what is released
    std::unique_ptr<std::byte[]> slots;
  };
  struct Inbound {
    Header header;
    void* payload = nullptr;  // UCX's while isKept, or fetched
    bool lent = false;
    bool isKept = false;
    bool isLost = false;
    ucs_status_ptr_t fetching = nullptr;
  };
  Connection(int peer, std::shared_ptr<Worker> worker, const Options& options, Fd stream);
  Inbound& inbound(uint64_t message) { return inbound_[message % card_.slots]; }
  const Inbound& inbound(uint64_t message) const { return inbound_[message % card_.slots]; }
  bool came(const Header& header, void* payload, size_t bytes, bool lent) override;
  ucs_status_ptr_t post(Header* header, const std::byte* data, uint32_t flags, const Keys& memory);
  uint64_t sendFrom(const std::byte* data, size_t bytes, const Fingerprint& call, uint32_t flags, const Keys& memory);
  bool isDone(ucs_status_ptr_t* request, const char* what, bool* hasFailed = nullptr);
  void countSent();
  void tellReleased(bool now);
  void letGo(Inbound* one);
  bool usesMemory() const;
  void say(const Note& note);
  void hear(const Note& note);
  bool isOver() const { return gone_ || theyHave_ >= written_; }
  void failed(const std::string& what);
  void fail(Status why);
  std::string who() const;
  void driveUntil(int64_t end, bool (Connection::*done)() const);
  bool isSent() const { return sent_ == written_ || deaf_; }
  void release();

  const int peer_;
  const std::shared_ptr<Worker> worker_;
  const Library& api_;
  const Fd stream_;
  const size_t stride_;
  Card card_, theirs_;
  std::shared_ptr<Link> link_;
  bool heard_ = false, up_ = false;
  bool needsLending_ = false;
  std::shared_ptr<Outbound> outbound_;
  std::shared_ptr<std::byte[]> fetched_;            // a slot, where polled messages that were lent go
  std::vector<ucs_status_ptr_t> sends_;             // requests, by message % slots
  ucs_status_ptr_t telling_ = nullptr;              // the request that tells what is released
  uint64_t written_ = 0, sent_ = 0, released_ = 0;  // messages, in the order of what happens to them
  uint64_t numLent_ = 0, lentUpTo_ = 0;
  std::vector<Inbound> inbound_;  // by message % slots
  uint64_t arrived_ = 0, givenBack_ = 0, told_ = 0;
  Status trouble_;
  bool deaf_ = false;  // nothing comes any more
  bool gone_ = false;  // the peer has closed the stream
  int64_t goneAtNs_ = 0;
  Note note_;  // that comes through the stream
  size_t noteBytes_ = 0;
  uint64_t theirMessages_ = UINT64_MAX;  // of a peer that has ended its end
  uint64_t theyHave_ = 0;                // of ours, as a peer says
  bool saidAll_ = false;
  uint32_t looks_ = 0;
};

}  // namespace tutti::ucx
