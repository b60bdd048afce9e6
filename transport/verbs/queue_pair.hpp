// A reliable connection (RC queue pair): operations in order, few of which report that they are done.
#pragma once

#include <memory>
#include <optional>

#include "src/base/fifo.hpp"
#include "transport/verbs/completions.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::verbs {

/// One thread.  Functions that post need room(), which the caller has seen.
class QueuePair final : private Listener {
 public:
  /// Who is told, in Completions::poll().
  class Owner {
   public:
    virtual ~Owner() = default;
    /// A message, or a piece of it, has come with these 32 bits.
    virtual void came(uint32_t immediate) = 0;
    /// A read that was begun with this mark has brought all it was to.
    virtual void fetched(uint32_t mark) = 0;
    /// Nothing more will come by this queue pair.  what: a clause.  It may not be destroyed in here.
    virtual void failed(uint32_t rail, const std::string& what) = 0;
  };
  /// owner and completions: borrowed.  receives: messages that may come before they are asked for.
  /// Errors: SystemError.
  static Result<std::unique_ptr<QueuePair>> create(Owner* owner, Completions& completions, uint32_t rail,
                                                   uint32_t receives, const Options& options);
  ~QueuePair() override;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  uint32_t number() const { return pair_->qp_num; }
  uint32_t rail() const { return rail_; }
  const Device& device() const { return *device_; }
  /// What the rail's card says of the port.
  static void describe(const Device& device, RailCard* card);
  /// Ready to receive and to send, to the other end's queue pair of this number.  Errors: SystemError.
  Status connect(const ConnectionCard& mine, const ConnectionCard& theirs, uint32_t peerNumber, const Options& options);

  /// A piece of memory here, and the other end's.
  struct Piece {
    const void* data;
    size_t bytes;
    uint32_t key;
  };
  struct Place {
    uint64_t address;
    uint32_t key;
  };
  /// Receives are posted again by so many, for less.
  static constexpr uint32_t kReceivesAtOnce = 4;
  size_t inlineBytes() const { return inlineBytes_; }
  bool hasRoom() const { return posted_ - done_ + kMostOfOne <= kDepth; }
  /// Up to two pieces; of at most inlineBytes() in all: their memory is free at once.  immediate: what completes at the
  /// other end; none: nothing does.
  Status write(std::span<const Piece> pieces, const Place& to, std::optional<uint32_t> immediate);
  Status read(const Piece& into, const Place& from, uint32_t mark);

  /// Whether all up to this operation are done; to ask for everything: see flush().
  bool isDone(uint64_t operation) const { return operation <= done_; }
  /// Ask to be told of all that was posted; its number.
  Result<uint64_t> flush();
  /// The same, though nothing may have been posted: whether the other end answers.
  Result<uint64_t> askForAnswer();
  /// Calls f with the mark of each read that has not brought all it was to.
  template <class F>
  void forReadsUnderWay(F f) {
    for (const Read& read : reads_) f(read.mark);
  }

 private:
  static constexpr uint32_t kDepth = 64;
  static constexpr uint32_t kQuiet = 16;     // operations between two that report
  static constexpr uint32_t kMostOfOne = 2;  // operations of one write
  struct Read {
    uint64_t operation;
    uint32_t mark;
  };
  QueuePair(Owner* owner, Completions& completions, uint32_t rail)
      : owner_(owner), completions_(completions), rail_(rail), device_(completions.device(rail)) {}
  Status open(uint32_t receives, const Options& options);
  Status toInit(const Options& options);
  Status toSend(const ConnectionCard& mine, const ConnectionCard& theirs, const Options& options);
  Status post(ibv_send_wr* work, uint32_t count, bool reports);
  Status postReceives(uint32_t count);

  void came(uint32_t immediate) override;
  void finished(uint32_t posted) override;
  void failed(const std::string& what) override { owner_->failed(rail_, what); }

  Owner* const owner_;
  Completions& completions_;
  const uint32_t rail_;
  const std::shared_ptr<Device> device_;
  std::optional<uint32_t> listener_;  // its number
  ibv_qp* pair_ = nullptr;
  size_t inlineBytes_ = 0;
  size_t adaptiveAbove_ = SIZE_MAX;  // bytes
  uint64_t posted_ = 0;              // operations
  uint64_t reported_ = 0;            // the last that was to report
  uint64_t done_ = 0;
  uint32_t received_ = 0;  // since receives were last posted
  Fifo<Read> reads_;       // under way
};

}  // namespace tutti::verbs
