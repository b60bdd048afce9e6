// What endpoints have in common whose messages go over a connection that counts them.
#pragma once

#include <memory>
#include <utility>

#include "transport/mismatch.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// Connection: has slots; hasRoom() says whether one is free; send() copies a message into it, begins to send it and
/// gives the count of messages so far; of these sent() have left; drive() lets them go on; trouble() says why they
/// cannot; header() is that of a message that has come.  Threads: as the connection's.
template <class Connection>
class ConnectionEndpoint : public Endpoint {
 public:
  size_t slotBytes() const override { return connection_->slotBytes(); }

 protected:
  ConnectionEndpoint(int peer, std::unique_ptr<Connection> connection)
      : peer_(peer), connection_(std::move(connection)) {}

  Status remember(Status status) {
    if (!status.ok() && failure_.ok()) failure_ = status;
    return status;
  }
  /// For a message of so many bytes.
  Result<bool> hasRoom(size_t bytes) {
    TUTTI_TRY(failure_);
    if (bytes > slotBytes())
      return internalError(ErrorCode::MessageTooLarge, "a message of ", bytes, " bytes for slots of ", slotBytes());
    if (!connection_->hasRoom()) connection_->drive();
    TUTTI_TRY(remember(connection_->trouble()));
    return connection_->hasRoom();
  }
  /// Endpoint::send(), of messages that may need further calls of ours to leave.
  Result<bool> sendWhole(const std::byte* data, size_t bytes, const Fingerprint& call) {
    TUTTI_TRY(failure_);
    if (polled_ == 0) {
      TUTTI_ASSIGN(const bool room, hasRoom(bytes));
      if (!room) return false;
      polled_ = connection_->send(data, bytes, call);
    }
    if (connection_->sent() < polled_) connection_->drive();
    if (connection_->sent() < polled_) {
      TUTTI_TRY(remember(connection_->trouble()));
      return false;
    }
    polled_ = 0;
    return true;
  }
  /// Whether a message that has come is the one that is expected.
  Status check(uint64_t message, const Expect& expect) {
    const auto& header = connection_->header(message);
    const Status as = checkExpected(peer_, expect, header.bytes, header.call);
    if (!as.ok()) seen_ = header.call;
    return as;
  }

  const int peer_;
  const std::unique_ptr<Connection> connection_;
  Status failure_;

 private:
  uint64_t polled_ = 0;  // the message that sendWhole() waits for; 0: none
};

}  // namespace tutti
