// Learning of sends: whether the receiver should read the sender's memory, or both copy through slots.
//
// Receivers take either, so each sender finds out alone, by size and peer: the two protocols take turns
// (src/plan/trials.hpp), and the receiver says in shared memory what a message took.  A sender waits for no answer: it
// times the next send once it has heard of the last one.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "src/exec/point_to_point.hpp"
#include "src/plan/trials.hpp"

namespace tutti {

class SendLearning;
class SendKind;

/// A kind of sends: of as many bytes to the same peer, alone or in groups.
struct SendKey {
  int peer = 0;
  size_t bytes = 0;
  bool inGroup = false;
  auto operator<=>(const SendKey&) const = default;
};

/// The last timed send to a peer, until its time is known.
struct TimedSend {
  SendKind* kind = nullptr;  // null: there is none
  Trials::Turn turn;
};

/// What is known of sends before the first one.
struct PlannedSend {
  bool lends = false;
  int64_t handOverNs = 0;  // until a sender hears that its message was read
};

/// Sends of one kind and what is known of them.
class SendKind final : public SendProtocolChooser {
 public:
  SendKind(SendLearning& all, TimedSend& last, const SendKey& key, const PlannedSend& planned)
      : all_(all), last_(last), key_(key), planned_(planned), trials_({.untouched = untouched(key.bytes)}) {}
  Choice choose(const Endpoint& endpoint, const std::byte* data) override;
  const Trials& trials() const { return trials_; }
  /// Whether the protocol that is taken lends memory.
  bool lends() const { return lendsBy(trials_.taken()); }

 private:
  /// The memory for small messages between two ranks of a host.
  static constexpr size_t kFifoBytes = 256 << 10;
  static int untouched(size_t bytes) { return static_cast<int>(kFifoBytes / std::max<size_t>(bytes, 1)) + 4; }
  bool lendsBy(uint8_t way) const { return (way == 0) == planned_.lends; }
  bool heard(const Endpoint& endpoint);
  void record(const Trials::Turn& turn, int64_t ns);
  bool putsOff();
  void compare();
  void tellFound() const;

  /// So many sends at the most put a comparison off until the last time before it is known.
  static constexpr int kMostPutOff = 64;
  SendLearning& all_;
  TimedSend& last_;  // of all kinds to this peer
  const SendKey key_;
  const PlannedSend planned_;
  Trials trials_;
  int putOff_ = 0;
};

/// What a comparison found.
struct LearnedSend {
  SendKey key;
  bool lends = false;
  bool planned = false;            // the planner's choice
  uint64_t ns = 0, plannedNs = 0;  // of a message; Trials::kNoTime: not known
};

/// One of a communicator's.  kindOf() with the communicator's turn; the rest by the thread that uses the endpoints.
class SendLearning {
 public:
  /// plan: gives a PlannedSend where there is no such kind yet.  Null: there are too many kinds.
  template <class Plan>
  SendKind* kindOf(const SendKey& key, Plan plan) {
    const auto known = kinds_.find(key);
    if (known != kinds_.end()) return &known->second;
    if (kinds_.size() == kMostKinds) return nullptr;
    return &kinds_.try_emplace(key, *this, timed_[key.peer], key, plan()).first->second;
  }
  /// A kind's comparison has come to an end, for now.
  void add(const LearnedSend& found) { found_[found.key] = found; }
  /// The latest that was found of each kind, once.
  std::vector<LearnedSend> takeFound();

 private:
  static constexpr size_t kMostKinds = 4096;

  std::map<SendKey, SendKind> kinds_;
  std::map<int, TimedSend> timed_;  // by peer
  std::map<SendKey, LearnedSend> found_;
};

}  // namespace tutti
