// One rank's messages to all other ranks of its host: written once, into lines of its own segment, and read by each of
// them there.  A message of at most kInlineBytes to n - 1 peers costs its sender one line instead of n - 1.
//
// The lines are those of an inbox (layout.hpp) with as many receivers as there are ranks, each of which says in a word
// of its own how far it has read.  The sender looks at those words when it has filled all lines since it last did.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "transport/shm/doorbell.hpp"
#include "transport/shm/segment.hpp"
#include "transport/transport.hpp"

namespace tutti::shm {

/// The sending end.  One thread, as all endpoints.
class Publisher final : public Endpoint {
 public:
  /// readers: the segments of all other ranks.
  Publisher(BoardUse use, int rank, std::shared_ptr<Segment> mine, std::vector<std::shared_ptr<Segment>> readers);

  size_t slotBytes() const override { return kInlineBytes; }
  size_t inlineBytes() const override { return kInlineBytes; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;

  Result<const std::byte*> peek(const Expect&) override {
    return internalError(ErrorCode::PartMisused, "shm: a publisher receives nothing");
  }
  void release() override {}
  Result<bool> receive(std::byte*, const Expect&) override {
    return internalError(ErrorCode::PartMisused, "shm: a publisher receives nothing");
  }

 private:
  bool hasLine();

  const uint32_t lines_;
  const Board board_;
  const std::shared_ptr<Segment> mine_;
  const std::vector<std::shared_ptr<Segment>> readers_;
  uint64_t sent_ = 0;
  uint64_t seenRead_ = 0;  // by all readers
  alignas(16) std::array<std::byte, kInlineBytes> staging_{};
};

/// One reader's end.
class Subscriber final : public Endpoint {
 public:
  /// theirs: the publisher's segment.
  Subscriber(BoardUse use, int rank, int peer, std::shared_ptr<Segment> theirs);

  size_t slotBytes() const override { return kInlineBytes; }
  size_t inlineBytes() const override { return kInlineBytes; }
  Result<bool> send(const std::byte*, size_t, const Fingerprint&) override { return readsOnly(); }
  Result<std::span<std::byte>> reserve() override { return readsOnly(); }
  Result<bool> commit(size_t, const Fingerprint&) override { return readsOnly(); }

  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override;
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  std::optional<Fingerprint> pending() const override;

 private:
  static Status readsOnly() { return internalError(ErrorCode::PartMisused, "shm: a subscriber sends nothing"); }
  Status check(const ControlLine& line, const Expect& expect);
  void consume();

  const int rank_;
  const int peer_;
  const std::shared_ptr<Segment> theirs_;
  const uint32_t creditBatch_;
  const Board board_;
  uint64_t received_ = 0;
  std::atomic<uint64_t> asked_{0};  // messages that somebody asked for; read by pending() on any thread
  bool peeked_ = false;
  Status failure_;
};

}  // namespace tutti::shm
