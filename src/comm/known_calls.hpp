// Calls that were checked and planned before, so that the same call again goes straight to its plan.
//
// What a call's arguments must satisfy depends on the pointers in two ways only: which buffers this rank needs, and how
// they lie to each other.  So a call that is like a known one in all else is known to be right after two comparisons.
#pragma once

#include <array>

#include "src/comm/call.hpp"
#include "src/exec/collective_run.hpp"

namespace tutti {

/// The arguments of a collective without counts per rank.
struct PlainCall {
  Collective collective = Collective::AllReduce;
  tuttiDataType_t dtype = tuttiFloat32;
  tuttiRedOp_t op = tuttiSum;
  int root = 0;
  size_t count = 0;
  const void* sendbuff = nullptr;
  void* recvbuff = nullptr;
};

struct KnownCall {
  PlainCall like;  // but for the pointers
  Extents extents;
  Placement placement = Placement::Apart;  // where this rank has both buffers
  Fingerprint call;                        // with sequence 0
  CallBuffers buffers;                     // but for the pointers and the fingerprint
  int divisor = 0;                         // Trimmings
  size_t dividedCount = 0;
  CollectiveRun* run = nullptr;

  bool fits(const PlainCall& c) const {
    return c.collective == like.collective && c.count == like.count && c.dtype == like.dtype && c.op == like.op &&
           c.root == like.root && pointersFit(c.sendbuff, c.recvbuff);
  }

 private:
  bool pointersFit(const void* send, const void* recv) const {
    if ((extents.sends && send == nullptr) || (extents.receives && recv == nullptr)) return false;
    return !extents.sends || !extents.receives || placed(extents, send, recv) == placement;
  }
};

/// One thread at a time.  A table that forgets: an entry stays until another call needs its place.
class KnownCalls {
 public:
  const KnownCall* find(const PlainCall& call) const {
    const KnownCall& entry = entries_[placeOf(call)];
    return entry.run != nullptr && entry.fits(call) ? &entry : nullptr;
  }
  void learn(const KnownCall& call) { entries_[placeOf(call.like)] = call; }
  /// Plans are about to go.
  void forget() { entries_.fill(KnownCall()); }

 private:
  static constexpr size_t kEntries = 64;
  static size_t placeOf(const PlainCall& call) {
    const size_t mixed = (call.count ^ static_cast<size_t>(call.collective) << 40) * 0x9e3779b97f4a7c15;
    return mixed >> 58;
  }
  static_assert(kEntries == size_t{1} << (64 - 58));
  std::array<KnownCall, kEntries> entries_{};
};

}  // namespace tutti
