// The sending half of a tcp channel: one message at a time, written as far as the system takes it.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

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

  /// Begin the message or go on with it: true when the system has it all.
  Result<bool> send(const std::byte* data, const Header& header);

  /// Memory to build a message in (of slotBytes), or nothing while a message is under way.
  std::span<std::byte> staging();
  Result<bool> commit(const Header& header) { return send(staging_.get(), header); }

  /// Go on with a message that is partly written, if there is one.  True if something moved.
  Result<bool> push();

 private:
  bool inRow();
  Result<size_t> pushStripe(int i);
  bool packed() const { return stripes_.bytes <= kMostPackedBytes; }
  bool whole() const;

  Sockets& sockets_;
  size_t slotBytes_;
  std::unique_ptr<std::byte[]> staging_;  // pages are touched when used, not before
  const EmptyLooks& looks_;
  SmallRow row_;
  bool gathers_ = false;  // what the system was last asked for
  // The message under way.
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
