// What a communicator learns about its calls while it makes them: which way is the fastest for each kind (TUTTI_LEARN).
//
// Calls of the same kind have all arguments alike but the buffers.  Of each kind the first calls go by the planner's
// choice; then a few ways that are expected to cost little take turns, and the times of all ranks decide
// (src/plan/trials.hpp).  All ranks do so at the same calls, as they make the same ones; before the first trial they
// tell each other which ways they have in mind.  What they tell is in shared memory (comparison.hpp) or, between hosts,
// goes by an AllGather of its own.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "src/collective/call.hpp"
#include "src/comm/comparison.hpp"
#include "src/plan/planner.hpp"
#include "src/plan/trials.hpp"

namespace tutti {

/// How a call may be carried out, in the terms of the planner's table.
struct TriedWay {
  const Algorithm* algorithm = nullptr;  // null: a plan that is no algorithm
  Protocol protocol = Protocol::Slots;
  bool joined = false;
  bool planned = true;  // the planner's choice
  bool copied = false;  // Choice::copied

  /// Puts it into overrides, unless the planner chooses it anyway.
  void addTo(Collective collective, Overrides* overrides) const;
};
/// Whether peers map this memory, or a part of it: tuttiMemAlloc's, registered, or libtutti_malloc.so's.
bool isMapped(const void* send, const void* recv);
/// "twoshot, slots".
std::string describe(const TriedWay& way);
/// Of ways in this order; the same in all processes.
uint64_t hashOf(const std::vector<TriedWay>& ways);
/// Microseconds, to a hundredth.
std::string usText(uint64_t ns);

/// One thread at a time, but for taken().
class Learning {
 public:
  enum class Among : uint8_t {
    SameBits,  // ways that give the bits that the planner's choice gives
    All,       // sums of floating-point numbers may be rounded in another order
  };
  /// Of making plans, as for Trials, and of a call, the least of a rank; the same on all.
  struct Prices {
    int64_t planNs = 0;
    double callNs = 0, nsPerByte = 0;  // bytes: of a vector, or of all ranks' blocks
    int nRanks = 1;
  };
  /// comparison: of ranks with boards.
  Learning(Among among, const Prices& prices, std::optional<Comparison> comparison)
      : among_(among), prices_(prices), comparison_(std::move(comparison)) {}
  Among among() const { return among_; }

  struct Kind {
    Trials trials;
    std::vector<TriedWay> ways;  // [0]: the planner's; empty before they are asked for
    uint8_t nPlans = 0;          // how many of them have a plan, from the first one on

    /// What this rank tells the others for what the trials want.  Ways are there only after findWays().
    std::vector<uint64_t> figures() const;
  };
  /// Null: nothing is learned about such calls.
  Kind* kindOf(const Call& call);
  /// Null: figures go by calls.
  Comparison* comparison() { return comparison_ ? &*comparison_ : nullptr; }
  /// The rank whose figures a call waits for; -1: none.
  int waitingOn() const { return comparison_ ? comparison_->waitingOn() : -1; }
  /// What was found for calls like this one.  Any thread.
  std::optional<TriedWay> taken(const Call& call) const;
  /// The trials of the kind have come to an end, for now: others hear of it.
  void settled(const Call& call, const Kind& kind);
  /// For later jobs: a way that was found.
  void keep(const TunedWay& way) { kept_.push_back(way); }
  /// Those, the latest last, once.
  std::vector<TunedWay> takeKept() { return std::exchange(kept_, {}); }

  void clear();

 private:
  int64_t comparisonNs() const;
  using Key = std::tuple<Collective, tuttiDataType_t, tuttiRedOp_t, int, size_t>;
  static Key keyOf(const Call& call);

  const Among among_;
  const Prices prices_;
  std::optional<Comparison> comparison_;
  std::map<Key, Kind> kinds_;
  std::vector<TunedWay> kept_;
  mutable std::mutex mutex_;       // of taken_
  std::map<Key, TriedWay> taken_;  // what kinds_ has found, copied for taken(), which asks from any thread
};

}  // namespace tutti
