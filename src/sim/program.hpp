// A schedule in the form that is estimated: what each op waits for, sends and computes, in numbers.
//
// All chunks of a schedule have the same size here (bytes / number of chunks, not rounded to cache lines), so a message
// is a number of chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti::sim {

struct Step {
  uint32_t firstPeer = 0;  // in LaneProgram::peers: first those of `from`, then those of `to`
  uint32_t nFrom = 0;
  uint32_t nTo = 0;
  float chunks = 0;   // of the message that is sent; 0 for a token
  float reduced = 0;  // chunks that are combined with others
  float copied = 0;   // chunks that are copied inside the rank
  /// Chunks of messages of several that do not lie side by side (Op::joined): copied together before they are sent,
  /// copied to where they belong after they have come.
  float gathered = 0, scattered = 0;
  int32_t op = 0;          // in the schedule's lane: the first of those that this stands for
  bool direct = false;     // as Op::direct
  bool fresh = false;      // direct, and written in this call
  bool published = false;  // all of `to` read one message
  bool operator==(const Step&) const = default;
};

/// A peer of a step: how many messages of the schedule come from it, or go to it.
struct StepPeer {
  int32_t edge = 0;  // in Program::edges
  int32_t messages = 1;
  bool operator==(const StepPeer&) const = default;
};

struct LaneProgram {
  std::vector<Step> steps;
  std::vector<StepPeer> peers;
  bool operator==(const LaneProgram&) const = default;
};
using Lanes = std::vector<LaneProgram>;

/// One rank's part.  edges: the ranks that it talks to, in the order in which they first come.
struct Program {
  std::shared_ptr<const Lanes> lanes;
  std::vector<int32_t> edges;
  double chunkBytes = 0;  // of one chunk on one lane; large ones go in several loops of the lane
};

struct ProgramOptions {
  /// The schedules have been rewritten for the machine already: every message is a step.
  bool asTheyAre = false;
  /// Messages between two ranks of a step of an algorithm are estimated as one step, to have fewer steps of which more
  /// look alike where there are many ranks: sends move forward, past receives that they do not depend on, to one to the
  /// same rank.  They stay as many messages and cost as much (StepPeer::messages); Op::joined is what makes fewer of
  /// them.
  bool bundled = false;
  /// Count what has to be copied together and apart (Step::gathered).  Which ranks' chunks go round the end of a buffer
  /// tells ranks apart that do the same otherwise, so classes of ranks go without.
  bool gathers = true;
  double sliceBytes = 2 << 20;
  /// What is sent from Input or Output lies there for its receivers (Op::direct), marked or not.
  bool allDirect = false;
  /// Copies from Input to Output, which calls in place do without, cost nothing.
  bool freeHomeCopies = false;
};

/// `schedule` as its algorithm wrote it, not fused.
Program programOf(const Schedule& schedule, size_t bytes, const ProgramOptions& options);

/// Bytes of one chunk of a collective of that size (Shape::bytes).
double chunkBytesOf(const Schedule& schedule, size_t bytes);

/// One more word of a fingerprint.
inline uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

/// What two ranks in the same position have in common, whatever they call their peers.
uint64_t fingerprint(const Program& program);

/// Gives programs that are alike but for the names of their peers the same lanes.
class Interner {
 public:
  Program intern(Program program);

 private:
  std::unordered_map<uint64_t, std::shared_ptr<const Lanes>> known_;
};

}  // namespace tutti::sim
