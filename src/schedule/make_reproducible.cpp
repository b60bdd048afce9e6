// How schedules are rewritten so that values are combined along one tree.
//
// All ranks run symbolically, lane by lane, and write down the ops of the new schedules on the way.  A value is a list
// of parts, maximal subtrees of the reduction tree; a logical message is one message per part, in rank order. TreeParts
// are combined as soon as both halves of a subtree are on a rank.
//
// No deadlock: a rank that sends several parts posts the first, goes on with its program, and posts the others when
// there is room again, wherever it is by then (else both sides of an exchange would wait for room).  It starts the next
// logical message to that rank only after the last part has been taken, so the logical messages wait for each other
// exactly as in the original schedule with one slot, which completes.  The run with one slot per FIFO is itself an
// execution of the ops that are written down; schedules are Kahn networks, so every other execution completes too.
#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "src/base/assert.hpp"
#include "src/schedule/liveness.hpp"
#include "src/schedule/part_store.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {
namespace {

struct PartMessage {
  RankInterval ranks;
  bool present = false;
  bool last = false;  // of its logical message
};

/// The FIFOs of one lane, one message each.
class PartFifos {
 public:
  explicit PartFifos(int nRanks) : nRanks_(nRanks), fifos_(static_cast<size_t>(nRanks) * static_cast<size_t>(nRanks)) {}
  PartMessage& at(int from, int to) {
    return fifos_[static_cast<size_t>(from) * static_cast<size_t>(nRanks_) + static_cast<size_t>(to)];
  }

 private:
  const int nRanks_;
  std::vector<PartMessage> fifos_;
};

class LaneRewriter {
 public:
  LaneRewriter(const Schedule& schedule, size_t lane, PartFifos& fifos, int* nScratch)
      : schedule_(schedule),
        lane_(schedule.lanes[lane]),
        liveness_(livenessOf(schedule, lane_)),
        fifos_(fifos),
        store_(schedule, nScratch) {
    for (const Op& op : lane_.ops) TUTTI_ASSERT(!op.joined);
    for (int c = 0; c < schedule.outputChunks(); ++c) outputs_.push_back(schedule.memoryOf(out(c)));
  }

  /// As far as possible; whether there was anything to do.
  bool advance() {
    bool moved = flush();
    while (pc_ < lane_.ops.size() && step()) moved = true;
    return moved;
  }
  bool finished() const { return pc_ == lane_.ops.size() && waiting_.empty(); }

  /// The rewritten lane; call once, at the end.
  Lane result() {
    placeResults();
    return std::move(result_);
  }

 private:
  struct WaitingPart {
    TreePart part;
    bool last;
  };

  const Op& op() const { return lane_.ops[pc_]; }
  bool dstIsOutput() const { return op().hasDst && liveness_[pc_].dstLive && isOutput(schedule_.memoryOf(op().dst)); }
  bool isOutput(Chunk memory) const { return std::find(outputs_.begin(), outputs_.end(), memory) != outputs_.end(); }

  /// Posts the waiting parts for which there is room.
  bool flush() {
    bool moved = false;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      auto& [peer, queue] = *it;
      PartMessage& fifo = fifos_.at(schedule_.rank, peer);
      if (!fifo.present) {
        const WaitingPart next = queue.front();
        queue.pop_front();
        fifo = {next.part.ranks, true, next.last};
        emit({.to = {peer}, .sources = {store_.chunkAt(next.part.place)}});
        store_.release(next.part.place);
        moved = true;
      }
      it = queue.empty() ? waiting_.erase(it) : std::next(it);
    }
    return moved;
  }

  /// One step of the op at pc_: begin, one message in, or one logical message out.  False if it has to wait.
  bool step() {
    if (!begun_) begin();
    if (received_ < op().from.size()) return receive(op().from[received_]);
    if (sent_ < op().to.size()) return send(op().to[sent_]);
    end();
    return true;
  }

  void begin() {
    for (; phase_ < lane_.phases.size() && lane_.phases[phase_].begin <= static_cast<int32_t>(pc_); ++phase_) {
      result_.phases.push_back({lane_.phases[phase_].name, static_cast<int32_t>(result_.ops.size())});
    }
    begun_ = true;
    std::vector<TreeParts> operands;
    for (size_t i = 0; i < op().sources.size(); ++i) operands.push_back(operand(i));
    // What the destination held so far is not needed any more, so that its place is free for the result.
    if (op().hasDst) store_.release(store_.take(op().dst));
    for (const TreeParts& parts : operands) {
      for (const TreePart& part : parts) merge(part);
    }
  }

  TreeParts operand(size_t i) {
    const Chunk source = op().sources[i];
    const Chunk memory = schedule_.memoryOf(source);
    bool lastUse = liveness_[pc_].sourceDies[i] && !(memory.buffer == Buffer::Input && !isOutput(memory));
    lastUse = lastUse || (op().hasDst && memory == schedule_.memoryOf(op().dst));
    for (size_t j = i + 1; j < op().sources.size(); ++j) {
      lastUse = lastUse && schedule_.memoryOf(op().sources[j]) != memory;
    }
    return lastUse ? store_.take(source) : store_.share(source);
  }

  bool receive(int peer) {
    PartMessage& fifo = fifos_.at(peer, schedule_.rank);
    if (!fifo.present) return false;
    const PartMessage message = std::exchange(fifo, {});
    const RankInterval left = leftSibling(message.ranks);
    const auto it = std::find_if(value_.begin(), value_.end(), [&](const TreePart& p) { return p.ranks == left; });
    if (left.size() > 0 && it != value_.end()) {
      const TreePart mine = *it;
      value_.erase(it);
      combine(mine, {message.ranks, -1}, peer);
    } else {
      const int place = store_.acquire(op().dst, dstIsOutput());
      emit({.from = {peer}, .dst = store_.chunkAt(place), .hasDst = true});
      merge({message.ranks, place});
    }
    if (message.last) ++received_;
    return true;
  }

  bool send(int peer) {
    if (waiting_.count(peer) > 0 || fifos_.at(schedule_.rank, peer).present) return false;
    std::deque<WaitingPart>& queue = waiting_[peer];
    for (size_t i = 0; i < value_.size(); ++i) {
      store_.refer(value_[i].place);
      queue.push_back({value_[i], i + 1 == value_.size()});
    }
    ++sent_;
    flush();
    return true;
  }

  void end() {
    if (op().hasDst && liveness_[pc_].dstLive) {
      store_.hold(op().dst, std::move(value_));
      if (isOutput(schedule_.memoryOf(op().dst))) written_.push_back(schedule_.memoryOf(op().dst));
    } else {
      store_.release(value_);
    }
    value_.clear();
    begun_ = false;
    received_ = sent_ = 0;
    ++pc_;
  }

  /// The subtree whose parent has `ranks` as its right half; empty if `ranks` is no right half.
  RankInterval leftSibling(RankInterval ranks) const {
    const RankInterval parent = treeParent(ranks, schedule_.nRanks);
    return parent.size() > 0 && parent.lo < ranks.lo ? RankInterval{parent.lo, ranks.lo} : RankInterval{};
  }

  /// Adds a part, which the op holds a reference to, and combines it with its sibling if that is there.
  void merge(TreePart part) {
    const RankInterval parent = treeParent(part.ranks, schedule_.nRanks);
    for (auto it = value_.begin(); parent.size() > 0 && it != value_.end(); ++it) {
      const TreePart other = *it;
      if (other.ranks.lo < parent.lo || other.ranks.hi > parent.hi) continue;
      if (other.ranks.size() + part.ranks.size() != parent.size()) continue;
      value_.erase(it);
      const bool partIsLeft = part.ranks.lo == parent.lo;
      combine(partIsLeft ? part : other, partIsLeft ? other : part, -1);
      return;
    }
    const auto behind =
        std::find_if(value_.begin(), value_.end(), [&](const TreePart& p) { return p.ranks > part.ranks; });
    value_.insert(behind, part);
  }

  /// left op right, right being the next message from `peer` if that is not -1.
  void combine(const TreePart& left, const TreePart& right, int peer) {
    Op op2{.sources = {store_.chunkAt(left.place)}, .hasDst = true};
    if (peer >= 0) {
      op2.from = {peer};
    } else {
      op2.sources.push_back(store_.chunkAt(right.place));
      store_.release(right.place);
    }
    store_.release(left.place);
    const int place = store_.acquire(op().dst, dstIsOutput());
    op2.dst = store_.chunkAt(place);
    emit(std::move(op2));
    merge({{left.ranks.lo, right.ranks.hi}, place});
  }

  void emit(Op made) { result_.ops.push_back(std::move(made)); }

  /// Every Output chunk that the lane writes gets its value, should that have been completed elsewhere.
  void placeResults() {
    for (const Chunk memory : written_) {
      const TreeParts parts = store_.share(memory);
      store_.release(parts);
      TUTTI_ASSERT_CMP(parts.size(), ==, 1u);
      TUTTI_ASSERT_CMP(parts[0].ranks.size(), ==, schedule_.nRanks);
      const int home = store_.placeOf(memory);
      if (parts[0].place == home) continue;
      if (!store_.isFree(home)) {  // another chunk's value lies there
        const int elsewhere = store_.acquire(memory, false);
        emit({.sources = {store_.chunkAt(home)}, .dst = store_.chunkAt(elsewhere), .hasDst = true});
        store_.move(home, elsewhere);
      }
      emit({.sources = {store_.chunkAt(parts[0].place)}, .dst = store_.chunkAt(home), .hasDst = true});
      store_.refer(home);
      store_.release(store_.take(memory));
      store_.hold(memory, {{parts[0].ranks, home}});
    }
  }

  const Schedule& schedule_;
  const Lane& lane_;
  const std::vector<OpLiveness> liveness_;
  PartFifos& fifos_;
  PartStore store_;
  std::vector<Chunk> outputs_;  // memory of the Output chunks
  std::vector<Chunk> written_;  // those that this lane gives their values
  Lane result_;
  std::map<int, std::deque<WaitingPart>> waiting_;  // by peer: parts for which there was no room

  size_t pc_ = 0;
  size_t phase_ = 0;
  // Of the op at pc_:
  bool begun_ = false;
  size_t received_ = 0;  // logical messages
  size_t sent_ = 0;
  TreeParts value_;
};

void rewriteLane(const std::vector<Schedule>& schedules, size_t lane, std::vector<Schedule>* result) {
  PartFifos fifos(static_cast<int>(schedules.size()));
  std::deque<LaneRewriter> ranks;
  for (size_t r = 0; r < schedules.size(); ++r) {
    ranks.emplace_back(schedules[r], lane, fifos, &(*result)[r].nScratch);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (LaneRewriter& rank : ranks) moved = rank.advance() || moved;
  }
  for (size_t r = 0; r < schedules.size(); ++r) {
    TUTTI_ASSERT(ranks[r].finished());
    (*result)[r].lanes[lane] = ranks[r].result();
  }
}

}  // namespace

std::vector<Schedule> makeReproducible(const std::vector<Schedule>& schedules) {
  if (schedules.empty() || !reduces(schedules.front().collective)) return schedules;
  std::vector<Schedule> result = schedules;
  for (Schedule& schedule : result) {
    schedule.nScratch = 0;
    schedule.reproducible = true;
  }
  for (size_t lane = 0; lane < schedules.front().lanes.size(); ++lane) rewriteLane(schedules, lane, &result);
  return result;
}

}  // namespace tutti
