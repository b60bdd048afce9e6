// Whether a schedule can run, and how long it takes: both by walking all ranks' lists together.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "src/parallel/fail.hpp"
#include "src/parallel/schedule.hpp"

namespace tutti::parallel {
namespace {

using Key = std::tuple<int, int, int>;  // kind, stage, micro-batch

int opposite(int kind) {
  switch (kind) {
    case tuttiActionRecvForward: return tuttiActionSendForward;
    case tuttiActionRecvBackward: return tuttiActionSendBackward;
    case tuttiActionSendForward: return tuttiActionRecvForward;
    default: return tuttiActionRecvBackward;
  }
}
bool isSend(int kind) { return kind == tuttiActionSendForward || kind == tuttiActionSendBackward; }
bool isReceive(int kind) { return kind == tuttiActionRecvForward || kind == tuttiActionRecvBackward; }

/// All ranks' lists, an action at a time, as far as what they wait for has happened.
class Walk {
 public:
  Walk(const PipelineSchedule& s, int buffers, const tuttiSimulation_t& costs)
      : s_(s),
        buffers_(buffers),
        costs_(costs),
        next_(s.actions.size()),
        clock_(s.actions.size()),
        busy_(s.actions.size()),
        flying_(s.actions.size()) {}

  /// "" or why it ends early.
  std::string run() {
    for (bool moved = true; moved; moved = moved || std::exchange(reached_, false)) {
      moved = false;
      for (size_t rank = 0; rank < s_.actions.size(); ++rank) {
        while (next_[rank] < s_.actions[rank].size()) {
          const tuttiAction_t& a = s_.actions[rank][next_[rank]];
          std::string wrong;
          if (!step(static_cast<int>(rank), a, &wrong)) {
            if (!wrong.empty())
              return joined("rank ", rank, ", action ", next_[rank], " (", actionText(a), "): ", wrong);
            break;
          }
          ++next_[rank];
          moved = true;
        }
      }
    }
    for (size_t rank = 0; rank < s_.actions.size(); ++rank) {
      if (next_[rank] == s_.actions[rank].size()) continue;
      return joined("deadlock: rank ", rank, " waits at action ", next_[rank], " (",
                    actionText(s_.actions[rank][next_[rank]]), ") for ever");
    }
    return complete();
  }
  double total() const { return *std::max_element(clock_.begin(), clock_.end()); }
  double ideal() const { return *std::max_element(busy_.begin(), busy_.end()); }
  int peak() const { return peak_; }

 private:
  bool has(int kind, int stage, int micro) const { return when_.count({kind, stage, micro}) != 0; }
  /// When it had happened.
  double at(int kind, int stage, int micro) const { return when_.at({kind, stage, micro}); }
  bool backed(int stage, int micro) const {
    return has(tuttiActionBackward, stage, micro) || has(tuttiActionBackwardInput, stage, micro);
  }

  bool step(int rank, const tuttiAction_t& a, std::string* wrong) {
    if (has(a.kind, a.stage, a.micro)) return *wrong = "it comes twice", false;
    if (s_.rankOf[static_cast<size_t>(a.stage)] != rank) return *wrong = "the stage is on another rank", false;
    if (isSend(a.kind) || isReceive(a.kind)) return message(rank, a, wrong);
    return compute(rank, a, wrong);
  }

  /// The value that a computation takes from the neighbouring stage: by message, or from this rank itself.
  bool inputAt(int rank, int stage, int neighbour, int made, int madeToo, int received, int micro, double* when,
               std::string* wrong) const {
    if (neighbour < 0 || neighbour >= s_.stages) return true;
    if (s_.rankOf[static_cast<size_t>(neighbour)] != rank) {
      if (!has(received, stage, micro)) return *wrong = "what it needs has not been received", false;
      *when = std::max(*when, at(received, stage, micro));
      return true;
    }
    for (const int kind : {made, madeToo}) {
      if (has(kind, neighbour, micro)) return *when = std::max(*when, at(kind, neighbour, micro)), true;
    }
    return *wrong = "what it needs of another stage of this rank comes later", false;
  }

  bool compute(int rank, const tuttiAction_t& a, std::string* wrong) {
    double start = clock_[static_cast<size_t>(rank)], cost = costs_.forward;
    int& flying = flying_[static_cast<size_t>(rank)];
    const int f = tuttiActionForward, b = tuttiActionBackward, i = tuttiActionBackwardInput;
    if (a.kind == f) {
      if (!inputAt(rank, a.stage, a.stage - 1, f, f, tuttiActionRecvForward, a.micro, &start, wrong)) return false;
      peak_ = std::max(peak_, ++flying);
    } else if (a.kind == tuttiActionBackwardWeight) {
      if (!has(i, a.stage, a.micro)) return *wrong = "its BackwardInput comes later or is missing", false;
      cost = costs_.backwardWeight;
      --flying;
    } else {
      if (!has(f, a.stage, a.micro)) return *wrong = "its forward comes later or is missing", false;
      if (backed(a.stage, a.micro)) return *wrong = "backward comes twice", false;
      if (!inputAt(rank, a.stage, a.stage + 1, b, i, tuttiActionRecvBackward, a.micro, &start, wrong)) return false;
      cost = costs_.backwardInput + (a.kind == b ? costs_.backwardWeight : 0);
      if (a.kind == b) --flying;
    }
    busy_[static_cast<size_t>(rank)] += cost;
    when_[{a.kind, a.stage, a.micro}] = clock_[static_cast<size_t>(rank)] = start + cost;
    return true;
  }

  bool message(int rank, const tuttiAction_t& a, std::string* wrong) {
    const int peer = s_.peerOf(a);
    if (peer < 0) return *wrong = "there is no stage to exchange it with", false;
    if (peer == rank) return *wrong = "the stage to exchange it with is on this rank", false;
    const int step = a.kind == tuttiActionSendForward || a.kind == tuttiActionRecvBackward ? 1 : -1;
    const Key other{opposite(a.kind), a.stage + step, a.micro};
    if (isReceive(a.kind)) {
      const auto sent = when_.find(other);
      if (sent == when_.end()) {
        reached_ = reached_ || waiting_.emplace(Key{a.kind, a.stage, a.micro}, true).second;
        return false;
      }
      when_[{a.kind, a.stage, a.micro}] = sent->second + costs_.message;
      --underWay_[{peer, rank}];
      return true;
    }
    const bool forward = a.kind == tuttiActionSendForward;
    if (forward ? !has(tuttiActionForward, a.stage, a.micro) : !backed(a.stage, a.micro)) {
      return *wrong = "what it sends has not been computed", false;
    }
    int& underWay = underWay_[{rank, peer}];
    if (underWay >= buffers_ && waiting_.count(other) == 0) return false;
    ++underWay;
    when_[{a.kind, a.stage, a.micro}] = clock_[static_cast<size_t>(rank)];
    return true;
  }

  std::string complete() const {
    for (int stage = 0; stage < s_.stages; ++stage) {
      for (int m = 0; m < s_.microBatches; ++m) {
        if (!has(tuttiActionForward, stage, m)) return joined("stage ", stage, " has no forward of micro-batch ", m);
        if (!backed(stage, m)) return joined("stage ", stage, " has no backward of micro-batch ", m);
        if (has(tuttiActionBackwardInput, stage, m) && !has(tuttiActionBackwardWeight, stage, m)) {
          return joined("stage ", stage, " has no BackwardWeight of micro-batch ", m);
        }
      }
    }
    for (const auto& [pair, count] : underWay_) {
      if (count != 0) return joined("rank ", pair.second, " does not receive all that rank ", pair.first, " sends");
    }
    return "";
  }

  const PipelineSchedule& s_;
  int buffers_;
  const tuttiSimulation_t& costs_;
  std::vector<size_t> next_;
  std::vector<double> clock_, busy_;
  std::vector<int> flying_;
  int peak_ = 0;
  std::map<Key, double> when_;
  bool reached_ = false;                         // a receive, since last looked
  std::map<Key, bool> waiting_;                  // receives that have been reached
  std::map<std::pair<int, int>, int> underWay_;  // messages sent and not received
};

}  // namespace

std::string validate(const PipelineSchedule& s, int buffers) {
  const tuttiSimulation_t costs = TUTTI_SIMULATION_INITIALIZER;
  return Walk(s, buffers, costs).run();
}

void simulate(const PipelineSchedule& s, tuttiSimulation_t& simulation) {
  Walk walk(s, s.stages * s.microBatches, simulation);
  const std::string complaint = walk.run();
  require(complaint.empty(), complaint);
  simulation.total = walk.total();
  simulation.ideal = walk.ideal();
  simulation.bubbleOverTotal = (simulation.total - simulation.ideal) / simulation.total;
  simulation.bubbleOverIdeal = (simulation.total - simulation.ideal) / simulation.ideal;
  simulation.peakInFlight = walk.peak();
}

}  // namespace tutti::parallel
