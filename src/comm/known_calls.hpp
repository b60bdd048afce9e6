// Calls that were checked and planned before, so that the same call again goes straight to its plan.
//
// What a call's arguments must satisfy depends on the pointers in two ways only: which buffers this rank needs, and how
// they lie to each other.  So a call that is like a known one in all else is known to be right after two comparisons.
#pragma once

#include <array>

#include "src/collective/call.hpp"
#include "src/exec/collective_run.hpp"
#include "src/exec/point_to_point.hpp"
#include "src/plan/trials.hpp"
#include "src/recorder/flight_recorder.hpp"

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
  Reduction reduction;
  uint64_t historyMask = 0;  // all ones: messages carry the checksum of all calls before
  int divisor = 0;           // PrePostOps
  size_t dividedCount = 0;
  CallRecord record;
  CollectiveRun* run = nullptr;
  Trials* trials = nullptr;  // of the calls of this kind; null: nothing is learned about them
  uint8_t way = 0;           // by which `run` goes
  bool handsOn = false;      // ends as hand_over.hpp says

  /// Whether the next call of the kind goes by it.
  bool isNext() const {
    return trials == nullptr || (trials->wants() == Trials::Wants::Nothing && trials->way() == way);
  }
  bool fits(const PlainCall& c) const {
    return c.collective == like.collective && c.count == like.count && c.dtype == like.dtype && c.op == like.op &&
           c.root == like.root && pointersFit(c.sendbuff, c.recvbuff);
  }

 private:
  bool pointersFit(const void* send, const void* recv) const {
    if ((extents.sendBytes > 0 && send == nullptr) || (extents.recvBytes > 0 && recv == nullptr)) return false;
    return !extents.both() || placed(extents, send, recv) == placement;
  }
};

/// The arguments of a send or a receive.
struct PlainTransfer {
  bool isSend = false;
  tuttiDataType_t dtype = tuttiFloat32;
  int peer = 0;
  size_t count = 0;
  const void* source = nullptr;  // of a send
  void* dst = nullptr;           // of a receive
  bool inGroup = false;          // with other calls: what is learned of it is of such sends
};

struct KnownTransfer {
  PlainTransfer like;  // but for the pointers
  PointToPointOp op;   // but for the pointers; the fingerprint with sequence 0
  CallRecord record;

  bool fits(const PlainTransfer& t) const {
    return t.isSend == like.isSend && t.dtype == like.dtype && t.peer == like.peer && t.count == like.count &&
           t.inGroup == like.inGroup && (t.isSend ? t.source : t.dst) != nullptr;
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
  const KnownTransfer* find(const PlainTransfer& transfer) const {
    const KnownTransfer& entry = transfers_[placeOf(transfer)];
    return entry.op.endpoint != nullptr && entry.fits(transfer) ? &entry : nullptr;
  }
  void learn(const KnownTransfer& transfer) { transfers_[placeOf(transfer.like)] = transfer; }
  /// Plans are about to go (endpoints stay).
  void forget() { entries_.fill(KnownCall()); }

 private:
  static constexpr size_t kEntries = 64;
  static size_t placeOf(size_t key) { return (key * 0x9e3779b97f4a7c15) >> 58; }
  static_assert(kEntries == size_t{1} << (64 - 58));
  static size_t placeOf(const PlainCall& call) {
    return placeOf(call.count ^ static_cast<size_t>(call.collective) << 40);
  }
  /// A group sends and receives as much with each of many peers: these have places of their own.
  static size_t placeOf(const PlainTransfer& t) {
    const size_t pair = static_cast<size_t>(t.peer) << 1 | static_cast<size_t>(t.isSend);
    return (placeOf(t.count << 1 | static_cast<size_t>(t.inGroup)) + pair) % kEntries;
  }
  std::array<KnownCall, kEntries> entries_{};
  std::array<KnownTransfer, kEntries> transfers_{};
};

}  // namespace tutti
