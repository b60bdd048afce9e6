// Requests over the polled calls of an endpoint that has nothing better: each waits until those before it are done.
#pragma once

#include "src/base/fifo.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// One thread at a time.
class RequestLine {
 public:
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) {
    TUTTI_TRY(failure_);
    sends_.push_back({data, bytes, call});
    return kSendInLine | (sent_ + sends_.size());
  }
  Result<Request> postReceive(std::byte* dst, const Expect& expect) {
    TUTTI_TRY(failure_);
    receives_.push_back({dst, expect});
    return kReceiveRequest | (received_ + receives_.size());
  }
  /// Goes on with what can be done on `endpoint`, whose line this is.
  Result<bool> test(Endpoint& endpoint, Request request);
  void cancel();
  bool hasSends() const { return !sends_.empty(); }

 private:
  Status advance(Endpoint& endpoint);
  bool isDone(Request request) const {
    return (request & kReceiveRequest) != 0 ? (request & ~kReceiveRequest) <= received_
                                            : (request & ~kSendInLine) <= sent_;
  }
  struct Outgoing {
    const std::byte* data;
    size_t bytes;
    Fingerprint call;
  };
  struct Incoming {
    std::byte* dst;
    Expect expect;
  };
  Fifo<Outgoing> sends_;
  Fifo<Incoming> receives_;
  uint64_t sent_ = 0, received_ = 0;  // those that are done
  Status failure_;
};

}  // namespace tutti
