// Streams, events, and what holds up a stream.
#pragma once

#include <array>
#include <catch2/catch.hpp>
#include <deque>

#include "tutti/tutti.h"

namespace tutti::test {

/// What holds up a stream for as long as one likes: a receive, and a send that comes later.  On a communicator of its
/// own, as calls of one communicator wait for each other on whatever streams they are.
class Gate {
 public:
  Gate() {
    REQUIRE(tuttiCommInitAll(ranks_.data(), 2, nullptr) == tuttiSuccess);
    REQUIRE(tuttiStreamCreate(&opener_) == tuttiSuccess);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    abort();
    tuttiCommAbort(ranks_[1]);
    tuttiStreamDestroy(opener_);
  }

  tuttiResult_t close(tuttiStream_t stream) {
    return tuttiRecv(&got_.emplace_back(), 1, tuttiInt32, 1, ranks_[0], stream);
  }
  tuttiResult_t open() { return tuttiSend(&sent_.emplace_back(1), 1, tuttiInt32, 0, ranks_[1], opener_); }
  /// What is closed fails.
  void abort() {
    if (ranks_[0] != nullptr) tuttiCommAbort(ranks_[0]);
    ranks_[0] = nullptr;
  }

 private:
  std::array<tuttiComm_t, 2> ranks_{};
  tuttiStream_t opener_ = nullptr;
  std::deque<int> got_, sent_;
};

struct Stream {
  Stream() { REQUIRE(tuttiStreamCreate(&handle) == tuttiSuccess); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { tuttiStreamDestroy(handle); }
  operator tuttiStream_t() const { return handle; }  // NOLINT: implicit on purpose
  tuttiStream_t handle = nullptr;
};

struct Event {
  Event() { REQUIRE(tuttiEventCreate(&handle) == tuttiSuccess); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { tuttiEventDestroy(handle); }
  operator tuttiEvent_t() const { return handle; }  // NOLINT: implicit on purpose
  tuttiEvent_t handle = nullptr;
};

}  // namespace tutti::test
