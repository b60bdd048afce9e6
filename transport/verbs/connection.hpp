// Both ends' slots for messages over one queue pair, with counters of what has come and what has been released.
#pragma once

#include <memory>
#include <optional>

#include "src/base/fd.hpp"
#include "transport/verbs/queue_pair.hpp"

namespace tutti::verbs {

/// A message is one write into a slot of the receiver's, its header in front.  The receiver tells how many messages it
/// has released beside messages of its own, or by writes of nothing.  One thread, but for header().
///
/// Trouble (a completion with an error, the port, the peer's end) is kept here, for the endpoint to say when it needs
/// what does not come any more: what came before counts.
class Connection final : private Listener {
 public:
  /// stream: to the peer, through which its end shows.  Errors: SystemError.
  static Result<std::unique_ptr<Connection>> create(int peer, std::shared_ptr<Device> device,
                                                    std::shared_ptr<Completions> completions, const Options& options,
                                                    Fd stream);
  /// What was sent is on its way: waits, for a second at most, until the adapter is done with it.
  ~Connection() override;

  const ConnectionCard& card() const { return card_; }
  int stream() const { return stream_.get(); }
  /// Errors: as checkCard(); SystemError.
  Status connect(const ConnectionCard& theirs, const Options& options);

  size_t slotBytes() const { return static_cast<size_t>(card_.slotBytes); }
  uint32_t slots() const { return card_.slots; }
  Completions& completions() const { return *completions_; }
  /// Looks at what has completed, and now and then whether the peer is still there.  True if something has completed.
  bool poll();
  /// The rest of it, by who has looked at what has completed, or not.
  void react(bool some);
  /// ok while nothing has failed.
  const Status& trouble() const { return trouble_; }
  /// Give up everything: from here on nobody reads or writes memory by this connection, and the peer finds out.
  void end();

  // ---- Sending: message k, from 0 on, uses slot k % slots().

  /// Messages that the peer is done with.
  uint64_t released() const { return released_; }
  /// Whether an operation more may be posted.
  bool hasRoom() const { return pair_ != nullptr && pair_->hasRoom(); }
  /// Memory for the payload of the message in this slot.
  std::byte* staging(uint64_t message) { return staged(message) + kHeaderBytes; }
  /// Send what is in staging(message), or `data`.  The caller has seen that there is room.
  Status send(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call);
  /// Tell the peer where it can read the message.
  Status lend(uint64_t message, const std::byte* data, size_t bytes, const Fingerprint& call, uint32_t key);

  // ---- Receiving.

  /// Messages that have come.
  uint64_t arrived() const { return arrived_; }
  /// Of a message that has come, or may have: its number says so.  Any thread.
  const Header& header(uint64_t message) const { return *reinterpret_cast<const Header*>(slot(message)); }
  std::byte* payload(uint64_t message) { return slot(message) + kHeaderBytes; }
  /// Read what the peer lends, into registered memory or into the message's slot (null); the operation.
  Result<uint64_t> fetch(uint64_t message, std::byte* into, uint32_t key);
  bool isFetched(uint64_t operation) const { return pair_ != nullptr && pair_->isDone(operation); }
  /// The first `messages` are done with.  now: tell the peer at once, which may wait for this one.
  void giveBack(uint64_t messages, bool now);

 private:
  class Slots;
  Connection(int peer, std::shared_ptr<Device> device, std::shared_ptr<Completions> completions, Fd stream);
  Status open(const Options& options);
  /// Every message of both directions, its release, and some to spare.
  uint32_t receives() const { return 2 * card_.slots + 2; }
  size_t stride() const;
  std::byte* slot(uint64_t message) const;
  std::byte* staged(uint64_t message) const;
  QueuePair::Place place(uint64_t message) const;
  Status put(uint64_t message, Header header, const std::byte* data, size_t bytes);
  void tellReleased();
  void lookAtStream();
  void flush();
  void fail(Status why);
  std::string who() const;

  void came(uint32_t immediate) override;
  void finished(uint32_t posted) override;
  void failed(const std::string& what) override;

  const int peer_;
  const std::shared_ptr<Device> device_;
  const std::shared_ptr<Completions> completions_;
  const Fd stream_;
  ConnectionCard card_, theirs_;
  std::unique_ptr<Slots> memory_;  // the receiving slots, and as many to send from
  std::optional<uint32_t> number_;
  std::unique_ptr<QueuePair> pair_;
  Status trouble_;
  uint64_t sent_ = 0;
  uint64_t released_ = 0;  // by the peer
  uint64_t arrived_ = 0;
  uint64_t givenBack_ = 0;
  uint64_t told_ = 0;  // of those
  bool tellNow_ = false;
  uint32_t looks_ = 0;
};

}  // namespace tutti::verbs
