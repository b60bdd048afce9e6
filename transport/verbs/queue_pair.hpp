// A reliable connection (RC queue pair): operations in order, few of which report that they are done.
#pragma once

#include <memory>
#include <optional>

#include "transport/verbs/completions.hpp"
#include "transport/verbs/wire.hpp"

namespace tutti::verbs {

/// One thread.  Functions that post return false while the queue has no room.
class QueuePair {
 public:
  /// number: of the listener.  receives: messages that may come before they are asked for.
  /// Errors: SystemError.
  static Result<std::unique_ptr<QueuePair>> create(std::shared_ptr<Device> device, Completions& completions,
                                                   uint32_t number, uint32_t receives);
  /// Operations whose completions may be under way at a time.
  static int mostOperations(uint32_t receives) { return static_cast<int>(receives + kDepth); }
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  /// Its part of the card.
  void describe(ConnectionCard* card) const;
  /// Ready to receive and to send.  Errors: SystemError.
  Status connect(const ConnectionCard& mine, const ConnectionCard& theirs, const Options& options);

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
  size_t inlineBytes() const { return inlineBytes_; }
  bool hasRoom() const { return posted_ - done_ < kDepth; }
  /// Up to two pieces; of at most inlineBytes() in all: their memory is free at once.
  Status write(std::span<const Piece> pieces, const Place& to, uint32_t immediate);
  /// The number of the operation.
  Result<uint64_t> read(const Piece& into, const Place& from);
  Status postReceive();

  /// The listener tells of finished().  Whether all up to this one are done; to ask for everything: see flush().
  void finished(uint32_t low);
  bool isDone(uint64_t operation) const { return operation <= done_; }
  /// Ask to be told of all that was posted; its number.
  Result<uint64_t> flush();

 private:
  static constexpr uint32_t kDepth = 64;
  static constexpr uint32_t kQuiet = 16;  // operations between two that report
  QueuePair(std::shared_ptr<Device> device, uint32_t number) : device_(std::move(device)), number_(number) {}
  Status open(Completions& completions, uint32_t receives);
  Status toInit();
  Status post(ibv_send_wr* work, bool reports);

  const std::shared_ptr<Device> device_;
  const uint32_t number_;
  ibv_qp* pair_ = nullptr;
  size_t inlineBytes_ = 0;
  uint64_t posted_ = 0;    // operations
  uint64_t reported_ = 0;  // the last that was to report
  uint64_t done_ = 0;
};

}  // namespace tutti::verbs
