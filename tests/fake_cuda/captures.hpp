// Captures that are under way.
#pragma once

#include "tests/fake_cuda/streams.hpp"

namespace tutti::fake {

/// How many nodes of each stream of a capture come before something.
using Before = std::map<const CUstream_st*, size_t>;

struct Capture {
  CUstream_st* origin = nullptr;
  int mode = 0;
  std::thread::id thread;  // that began it
  uint64_t number = 0;     // no other capture's, ever
  bool ended = false;
  bool broken = false;  // by a call that it forbids
  CUgraph_st graph;
  std::map<const CUstream_st*, Before> known;  // by stream: what its next node comes after, its own included
};

/// Guards all captures, and what streams and events say of them.
std::mutex& captureMutex();
/// Of a stream that records into it, or null.  With the lock.
std::shared_ptr<Capture> captureOf(const CUstream_st* stream);

}  // namespace tutti::fake
