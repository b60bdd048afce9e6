// Whether a schedule can run, and how long it takes: both by walking all ranks' lists together.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "src/parallel/fail.hpp"
#include "src/parallel/schedule.hpp"

namespace tutti::parallel {
namespace {

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
        began_(s.actions.size(), kNotYet) {
    const size_t cells = static_cast<size_t>(s.stages) * static_cast<size_t>(s.microBatches);
    Times never;
    never.fill(kNotYet);
    when_.assign(cells, never);
    waiting_.assign(cells, {false, false});
    connect();
  }

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
  double span() const {
    double longest = 0;
    for (size_t rank = 0; rank < clock_.size(); ++rank) {
      if (began_[rank] >= 0) longest = std::max(longest, clock_[rank] - began_[rank]);
    }
    return longest;
  }

 private:
  static constexpr double kNotYet = -1;
  using Times = std::array<double, tuttiNumActions>;  // when each kind of action had happened

  size_t cell(int stage, int micro) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(s_.microBatches) + static_cast<size_t>(micro);
  }
  double& at(int kind, int stage, int micro) { return when_[cell(stage, micro)][static_cast<size_t>(kind)]; }
  double at(int kind, int stage, int micro) const { return when_[cell(stage, micro)][static_cast<size_t>(kind)]; }
  bool has(int kind, int stage, int micro) const { return at(kind, stage, micro) >= 0; }
  bool backed(int stage, int micro) const {
    return has(tuttiActionBackward, stage, micro) || has(tuttiActionBackwardInput, stage, micro);
  }

  /// Numbers the pairs of ranks between which messages go, in each direction.
  void connect() {
    std::map<std::pair<int, int>, size_t> numbers;
    for (int stage = 0; stage + 1 < s_.stages; ++stage) {
      const int a = s_.rankOf[static_cast<size_t>(stage)], b = s_.rankOf[static_cast<size_t>(stage) + 1];
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        const auto [place, isNew] = numbers.emplace(std::pair(from, to), pairs_.size());
        if (isNew) pairs_.push_back({from, to, 0});
        pairOf_.push_back(place->second);
      }
    }
  }
  /// Of a message's sender and receiver.
  int& underWay(const tuttiAction_t& a) {
    const bool forward = a.kind == tuttiActionSendForward || a.kind == tuttiActionRecvForward;
    const bool fromHere = a.kind == tuttiActionSendForward || a.kind == tuttiActionRecvBackward;
    const size_t boundary = static_cast<size_t>(fromHere ? a.stage : a.stage - 1);  // behind that stage
    return pairs_[pairOf_[2 * boundary + (forward ? 0 : 1)]].underWay;
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
    double &clock = clock_[static_cast<size_t>(rank)], &began = began_[static_cast<size_t>(rank)];
    double start = clock, cost = costs_.forward;
    const int f = tuttiActionForward, b = tuttiActionBackward, i = tuttiActionBackwardInput;
    if (a.kind == f) {
      if (!inputAt(rank, a.stage, a.stage - 1, f, f, tuttiActionRecvForward, a.micro, &start, wrong)) return false;
    } else if (a.kind == tuttiActionBackwardWeight) {
      if (!has(i, a.stage, a.micro)) return *wrong = "its BackwardInput comes later or is missing", false;
      cost = costs_.backwardWeight;
    } else {
      if (!has(f, a.stage, a.micro)) return *wrong = "its forward comes later or is missing", false;
      if (backed(a.stage, a.micro)) return *wrong = "backward comes twice", false;
      if (!inputAt(rank, a.stage, a.stage + 1, b, i, tuttiActionRecvBackward, a.micro, &start, wrong)) return false;
      cost = costs_.backwardInput + (a.kind == b ? costs_.backwardWeight : 0);
    }
    if (began < 0) began = start;
    busy_[static_cast<size_t>(rank)] += cost;
    at(a.kind, a.stage, a.micro) = clock = start + cost;
    return true;
  }

  bool message(int rank, const tuttiAction_t& a, std::string* wrong) {
    const int peer = s_.peerOf(a);
    if (peer < 0) return *wrong = "there is no stage to exchange it with", false;
    if (peer == rank) return *wrong = "the stage to exchange it with is on this rank", false;
    const int step = a.kind == tuttiActionSendForward || a.kind == tuttiActionRecvBackward ? 1 : -1;
    const int kind = opposite(a.kind), stage = a.stage + step;  // of the other end
    if (isReceive(a.kind)) {
      if (!has(kind, stage, a.micro)) {
        reached_ = reached_ || !std::exchange(waiting(a.kind, a.stage, a.micro), true);
        return false;
      }
      at(a.kind, a.stage, a.micro) = at(kind, stage, a.micro) + costs_.message;
      --underWay(a);
      return true;
    }
    const bool forward = a.kind == tuttiActionSendForward;
    if (forward ? !has(tuttiActionForward, a.stage, a.micro) : !backed(a.stage, a.micro)) {
      return *wrong = "what it sends has not been computed", false;
    }
    if (underWay(a) >= buffers_ && !waiting(kind, stage, a.micro)) return false;
    ++underWay(a);
    at(a.kind, a.stage, a.micro) = clock_[static_cast<size_t>(rank)];
    return true;
  }
  bool& waiting(int receive, int stage, int micro) {
    return waiting_[cell(stage, micro)][receive == tuttiActionRecvForward ? 0 : 1];
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
    for (const Pair& pair : pairs_) {
      if (pair.underWay != 0) return joined("rank ", pair.to, " does not receive all that rank ", pair.from, " sends");
    }
    return "";
  }

  struct Pair {
    int from, to, underWay;  // messages sent and not received
  };

  const PipelineSchedule& s_;
  int buffers_;
  const tuttiSimulation_t& costs_;
  std::vector<size_t> next_;
  std::vector<double> clock_, busy_, began_;  // of each rank; began: its first computation
  std::vector<Times> when_;                   // of each stage and micro-batch
  bool reached_ = false;                      // a receive, since last looked
  std::vector<std::array<bool, 2>> waiting_;  // receives that have been reached, of activations and of gradients
  std::vector<Pair> pairs_;
  std::vector<size_t> pairOf_;  // [2 (stages - 1)]: forward and backward between a stage and the next
};

/// The first stage and micro-batch without a forward.
std::string missingForward(const PipelineSchedule& s) {
  std::vector<int64_t> cells;
  for (const auto& row : s.actions) {
    for (const tuttiAction_t& a : row) {
      if (a.kind == tuttiActionForward) cells.push_back(static_cast<int64_t>(a.stage) * s.microBatches + a.micro);
    }
  }
  std::sort(cells.begin(), cells.end());
  cells.erase(std::unique(cells.begin(), cells.end()), cells.end());
  int64_t first = 0;
  while (static_cast<size_t>(first) < cells.size() && cells[static_cast<size_t>(first)] == first) ++first;
  return joined("stage ", first / s.microBatches, " has no forward of micro-batch ", first % s.microBatches);
}
/// Of so many that tables of all stages and micro-batches would be far larger than the lists.
bool lacksForwards(const PipelineSchedule& s) {
  const size_t cells = static_cast<size_t>(s.stages) * static_cast<size_t>(s.microBatches);
  size_t actions = 0;
  for (const auto& row : s.actions) actions += row.size();
  return cells >= (1 << 16) && actions < cells;
}

}  // namespace

std::string validate(const PipelineSchedule& s, int buffers) {
  if (lacksForwards(s)) return missingForward(s);
  const tuttiSimulation_t costs = TUTTI_SIMULATION_INITIALIZER;
  return Walk(s, buffers, costs).run();
}

std::vector<int> inFlight(const PipelineSchedule& s) {
  std::vector<int> most;
  for (const auto& row : s.actions) {
    int now = 0, peak = 0;
    for (const tuttiAction_t& a : row) {
      if (a.kind == tuttiActionForward) peak = std::max(peak, ++now);
      if (a.kind == tuttiActionBackward || a.kind == tuttiActionBackwardWeight) --now;
    }
    most.push_back(peak);
  }
  return most;
}

void simulate(const PipelineSchedule& s, tuttiSimulation_t& simulation) {
  for (const double cost :
       {simulation.forward, simulation.backwardInput, simulation.backwardWeight, simulation.message}) {
    require(std::isfinite(cost) && cost >= 0, "a cost of ", cost, " in a simulation");
  }
  Walk walk(s, s.stages * s.microBatches, simulation);
  const std::string complaint = walk.run();
  require(complaint.empty(), complaint);
  require(walk.ideal() > 0, "no computation of the simulation takes time");
  const std::vector<int> held = inFlight(s);
  simulation.total = walk.total();
  simulation.ideal = walk.ideal();
  simulation.span = walk.span();
  simulation.bubbleOverTotal = (simulation.total - simulation.ideal) / simulation.total;
  simulation.bubbleOverIdeal = (simulation.total - simulation.ideal) / simulation.ideal;
  simulation.peakInFlight = *std::max_element(held.begin(), held.end());
}

}  // namespace tutti::parallel
