#include "src/sim/program.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "src/schedule/passes.hpp"

namespace tutti::sim {
namespace {

/// Edges of a program by rank.
class Edges {
 public:
  explicit Edges(Program* program) : program_(program) {}
  int32_t of(int32_t rank) {
    const auto [it, added] = index_.try_emplace(rank, static_cast<int32_t>(program_->edges.size()));
    if (added) program_->edges.push_back(rank);
    return it->second;
  }

 private:
  Program* program_;
  std::unordered_map<int32_t, int32_t> index_;
};

void addStep(LaneProgram* lane, Step step, const std::vector<StepPeer>& from, const std::vector<StepPeer>& to) {
  step.firstPeer = static_cast<uint32_t>(lane->peers.size());
  step.nFrom = static_cast<uint32_t>(from.size());
  step.nTo = static_cast<uint32_t>(to.size());
  lane->peers.insert(lane->peers.end(), from.begin(), from.end());
  lane->peers.insert(lane->peers.end(), to.begin(), to.end());
  lane->steps.push_back(step);
}

/// Whether the chunks of a message lie side by side in each buffer that they touch, so that it needs no copy of its
/// own.
bool liesTogether(const Schedule& s, const std::vector<Op>& ops, size_t begin) {
  const auto follows = [&](Chunk a, Chunk b) {
    const Chunk before = s.memoryOf(a), next = s.memoryOf(b);
    return before.buffer == next.buffer && before.index + 1 == next.index;
  };
  for (size_t i = begin, end = messageEnd(ops, begin); i + 1 < end; ++i) {
    const Op &op = ops[i], &next = ops[i + 1];
    if (op.sources.size() != next.sources.size() || op.hasDst != next.hasDst) return false;
    if (op.hasDst && !follows(op.dst, next.dst)) return false;
    if (!std::equal(op.sources.begin(), op.sources.end(), next.sources.begin(), follows)) return false;
  }
  return true;
}

/// Of one op of a message; together: liesTogether() of that.
Step stepOf(const Op& op, int32_t index, const ProgramOptions& options, bool together) {
  Step step;
  step.op = index;
  step.chunks = op.token ? 0 : 1;
  const size_t operands = op.from.size() + op.sources.size();
  if (operands > 1) step.reduced = static_cast<float>(operands - 1);
  if (op.from.empty() && op.hasDst && operands == 1) step.copied = 1;
  if (!together && !op.to.empty()) step.gathered = 1;
  if (!together && !op.from.empty() && op.hasDst && operands == 1) step.scattered = 1;
  const bool lies = op.from.empty() && op.sources.size() == 1 && op.sources[0].buffer != Buffer::Scratch;
  step.direct = op.direct || (options.allDirect && lies && !op.to.empty());
  const bool ownInput = op.from.empty() && op.sources.size() == 1 && op.sources[0].buffer == Buffer::Input;
  step.fresh = step.direct && !ownInput;
  step.published = !op.to.empty() && op.to[0] == kEveryone;
  return step;
}

void addChunk(Step* step, const Step& chunk) {
  step->chunks += chunk.chunks;
  step->reduced += chunk.reduced;
  step->copied += chunk.copied;
  step->gathered += chunk.gathered;
  step->scattered += chunk.scattered;
}

/// Every message is a step, and every op that has none.
LaneProgram singleSteps(const Schedule& schedule, const Lane& lane, const ProgramOptions& options, Edges& edges) {
  LaneProgram result;
  result.steps.reserve(lane.ops.size());
  std::vector<StepPeer> from, to;
  for (size_t i = 0; i < lane.ops.size(); ++i) {
    const Op& op = lane.ops[i];  // the first of its message
    from.clear();
    to.clear();
    for (const int32_t rank : op.from) from.push_back({edges.of(rank), 1});
    for (const int32_t rank : op.to) {
      for (int32_t r = 0; rank == kEveryone && r < schedule.nRanks; ++r) {
        if (r != schedule.rank) to.push_back({edges.of(r), 1});
      }
      if (rank != kEveryone) to.push_back({edges.of(rank), 1});
    }
    const bool together = !options.gathers || liesTogether(schedule, lane.ops, i);
    Step step = stepOf(op, static_cast<int32_t>(i), options, together);
    for (const size_t end = messageEnd(lane.ops, i); i + 1 < end; ++i) {
      addChunk(&step, stepOf(lane.ops[i + 1], static_cast<int32_t>(i + 1), options, together));
    }
    const bool home = step.copied > 0 && op.to.empty() && op.sources[0].buffer == Buffer::Input;
    if (options.freeHomeCopies && home && op.dst.buffer == Buffer::Output) step.copied = 0;
    addStep(&result, step, from, to);
  }
  return result;
}

/// Gathers ops among which no send depends on a receive, and makes of them one send and one receive per peer.
class Bundler {
 public:
  Bundler(const Schedule& schedule, const ProgramOptions& options, Edges& edges)
      : s_(schedule), options_(options), edges_(edges) {}

  LaneProgram bundle(const Lane& lane) {
    for (size_t i = 0; i < lane.ops.size(); ++i) {
      const Op& op = lane.ops[i];
      if (!op.joined) together_ = !options_.gathers || liesTogether(s_, lane.ops, i);
      const bool plainSend = op.from.empty() && !op.hasDst;
      const bool plainRecv = op.from.size() == 1 && op.to.empty() && op.hasDst;
      if (!plainSend && !plainRecv) {
        flush();
        add(op, static_cast<int32_t>(i));
      } else if (plainSend) {
        if (!op.joined && (dependsOnGroup(lane.ops, i) || (!recvs_.empty() && hasNewPeer(op)))) flush();
        for (const int32_t rank : op.to) gather(&sends_, rank, op, static_cast<int32_t>(i));
      } else {
        written_.push_back(numberOf(op.dst));
        isWritten_[written_.back()] = true;
        gather(&recvs_, op.from[0], op, static_cast<int32_t>(i));
      }
    }
    flush();
    return std::move(result_);
  }

 private:
  struct Bundle {
    int32_t edge;
    int32_t messages;
    Step step;
  };

  size_t numberOf(Chunk chunk) {
    const Chunk memory = s_.memoryOf(chunk);
    const size_t number = static_cast<size_t>(memory.index) * 3 + static_cast<size_t>(memory.buffer);
    if (number >= isWritten_.size()) isWritten_.resize(number * 2 + 1);
    return number;
  }

  /// Whether the message that op `begin` begins has something of what the group receives.
  bool dependsOnGroup(const std::vector<Op>& ops, size_t begin) {
    for (size_t i = begin, end = messageEnd(ops, begin); i < end; ++i) {
      for (const Chunk source : ops[i].sources) {
        if (isWritten_[numberOf(source)]) return true;
      }
    }
    return false;
  }

  /// The next step of the algorithm: sends to others than those that this one has begun with.
  bool hasNewPeer(const Op& op) {
    return std::any_of(op.to.begin(), op.to.end(), [&](int32_t rank) {
      const auto edge = static_cast<size_t>(edges_.of(rank));
      return edge >= sendOf_.size() || sendOf_[edge] < 0;
    });
  }

  void gather(std::vector<Bundle>* bundles, int32_t rank, const Op& op, int32_t index) {
    const int32_t edge = edges_.of(rank);
    auto& place = bundles == &sends_ ? sendOf_ : recvOf_;
    if (static_cast<size_t>(edge) >= place.size()) place.resize(static_cast<size_t>(edge) + 1, -1);
    const Step step = stepOf(op, index, options_, together_);
    if (place[static_cast<size_t>(edge)] < 0) {
      place[static_cast<size_t>(edge)] = static_cast<int32_t>(bundles->size());
      bundles->push_back({edge, 1, step});
      return;
    }
    Bundle& bundle = (*bundles)[static_cast<size_t>(place[static_cast<size_t>(edge)])];
    bundle.messages += op.joined ? 0 : 1;
    addChunk(&bundle.step, step);
  }

  void add(const Op& op, int32_t index) {
    std::vector<StepPeer> from, to;
    for (const int32_t rank : op.from) from.push_back({edges_.of(rank), 1});
    for (const int32_t rank : op.to) to.push_back({edges_.of(rank), 1});
    addStep(&result_, stepOf(op, index, options_, together_), from, to);
  }

  void flush() {
    for (const Bundle& b : sends_) {
      addStep(&result_, b.step, {}, {{b.edge, b.messages}});
      sendOf_[static_cast<size_t>(b.edge)] = -1;
    }
    for (const Bundle& b : recvs_) {
      addStep(&result_, b.step, {{b.edge, b.messages}}, {});
      recvOf_[static_cast<size_t>(b.edge)] = -1;
    }
    for (const size_t number : written_) isWritten_[number] = false;
    sends_.clear();
    recvs_.clear();
    written_.clear();
  }

  const Schedule& s_;
  const ProgramOptions& options_;
  Edges& edges_;
  LaneProgram result_;
  std::vector<Bundle> sends_, recvs_;
  std::vector<int32_t> sendOf_, recvOf_;  // [edge]: index into sends_, recvs_; -1 none
  std::vector<size_t> written_;
  std::vector<bool> isWritten_;  // [number of a chunk]
  bool together_ = true;         // the message that is being looked at
};

uint64_t bitsOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

}  // namespace

double chunkBytesOf(const Schedule& schedule, size_t bytes) {
  if (schedule.collective == Collective::Barrier) return 0;
  return static_cast<double>(bytes) / (isOneVector(schedule.collective) ? schedule.nChunks : 1);
}

Program programOf(const Schedule& schedule, size_t bytes, const ProgramOptions& options) {
  Program program;
  Edges edges(&program);
  program.chunkBytes = chunkBytesOf(schedule, bytes) / schedule.nChannels;
  Lanes lanes;
  const auto single = [&](const Schedule& s) {
    for (const Lane& lane : s.lanes) lanes.push_back(singleSteps(s, lane, options, edges));
  };
  if (options.asTheyAre) {
    single(schedule);
  } else if (options.bundled) {
    for (const Lane& lane : schedule.lanes) lanes.push_back(Bundler(schedule, options, edges).bundle(lane));
  } else {
    single(fuse(schedule));
  }
  program.lanes = std::make_shared<const Lanes>(std::move(lanes));
  return program;
}

uint64_t fingerprint(const Program& program) {
  uint64_t hash = mix(program.edges.size(), program.lanes->size());
  for (const LaneProgram& lane : *program.lanes) {
    hash = mix(hash, lane.steps.size());
    for (const Step& s : lane.steps) {
      hash = mix(hash, uint64_t{s.nFrom} << 32 | s.nTo);
      hash = mix(hash, bitsOf(s.chunks) << 32 | bitsOf(s.reduced));
      hash = mix(hash, bitsOf(s.gathered) << 32 | bitsOf(s.scattered));
      hash = mix(hash, bitsOf(s.copied) << 3 | (s.fresh ? 4 : 0) | (s.direct ? 2 : 0) | (s.published ? 1 : 0));
    }
    for (const StepPeer& p : lane.peers) {
      hash = mix(hash, static_cast<uint64_t>(static_cast<uint32_t>(p.edge)) << 32 | static_cast<uint32_t>(p.messages));
    }
  }
  return hash;
}

Program Interner::intern(Program program) {
  const auto [it, added] = known_.try_emplace(fingerprint(program), program.lanes);
  if (!added && *it->second == *program.lanes) program.lanes = it->second;
  return program;
}

}  // namespace tutti::sim
