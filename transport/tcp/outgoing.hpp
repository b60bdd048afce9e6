// The sending half of a tcp endpoint: messages in line, written as far as the system takes them, several in one call.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "src/base/fifo.hpp"
#include "transport/tcp/header.hpp"
#include "transport/tcp/row.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/tcp/stripes.hpp"

namespace tutti::tcp {

/// Payloads up to this are copied behind their header and leave as one piece of memory: some ns for the copy, some 0.1
/// us less in the system than two pieces.
inline constexpr size_t kMostPackedBytes = 16384;

/// Not thread safe.  A larger payload is never copied in user space: it goes from the caller's memory, which is
/// borrowed from the first send() of a message until a send() of it returns true.
class Outgoing {
 public:
  /// looks: of this rank; borrowed.
  Outgoing(Sockets& sockets, size_t slotBytes, const EmptyLooks& looks);

  /// Begin the message or go on with it: true when the system has it all.  Posted ones leave before it.
  Result<bool> send(const std::byte* data, const Header& header);

  /// Put a message in line; its number.  data is borrowed until it is done.
  Result<uint64_t> post(const std::byte* data, const Header& header);
  /// Posted messages that the system has all of.
  uint64_t done() const { return done_; }
  size_t numPosted() const { return posted_.size(); }
  /// Give up what has not left; no message can follow.
  void cancel();

  /// Memory to build a message in (of slotBytes), or nothing while a message is under way.
  std::span<std::byte> staging();
  Result<bool> commit(const Header& header) { return send(staging_.get(), header); }

  /// Whether a message is in line or partly written.
  bool busy() const { return active_ || !posted_.empty(); }
  /// Go on with messages that are in line or partly written, if there are any.  True if something moved.
  Result<bool> push();

 private:
  /// A message in line.
  struct Posted {
    HeaderBytes head{};
    const std::byte* data = nullptr;
    Stripes stripes;
    std::array<size_t, kMaxSockets> sent{};  // of each stripe, the first one's with the header
    size_t bytesOn(int socket) const {
      if (socket >= stripes.count) return 0;
      return stripes[socket].bytes + (socket == 0 ? kHeaderBytes : 0);
    }
    bool whole() const;
  };
  bool inRow();
  Result<bool> pushActive();
  Result<size_t> pushPosted(int socket);
  Result<size_t> pushStripe(int i);
  bool packed() const { return stripes_.bytes <= kMostPackedBytes; }
  bool whole() const;

  Sockets& sockets_;
  size_t slotBytes_;
  std::unique_ptr<std::byte[]> staging_;  // pages are touched when used, not before
  const EmptyLooks& looks_;
  SmallRow row_;
  bool gathers_ = false;  // what the system was last asked for
  Fifo<Posted> posted_;
  uint64_t done_ = 0;
  // The message under way that nobody has posted.
  bool active_ = false;
  bool ofRow_ = false;
  const std::byte* data_ = nullptr;
  // The header, and a small payload.
  std::unique_ptr<std::byte[]> packet_{new std::byte[kHeaderBytes + kMostPackedBytes]};
  size_t headerSent_ = 0;
  Stripes stripes_;
  std::array<size_t, kMaxSockets> sent_{};
};

}  // namespace tutti::tcp
