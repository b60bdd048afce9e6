// Schedules by name: the order of computations; messages are put in afterwards.
#include <algorithm>
#include <array>
#include <cstdint>

#include "src/parallel/fail.hpp"
#include "src/parallel/schedule.hpp"

namespace tutti::parallel {
namespace {

using Actions = std::vector<tuttiAction_t>;

/// All of `forwards`, `ahead` of them before the first of `backwards`; then in turns.
Actions inTurns(const Actions& forwards, const Actions& backwards, size_t ahead) {
  Actions all;
  size_t f = 0, b = 0;
  while (f < forwards.size() && f < ahead) all.push_back(forwards[f++]);
  while (b < backwards.size()) {
    if (f < forwards.size()) all.push_back(forwards[f++]);
    all.push_back(backwards[b++]);
  }
  return all;
}

Actions oneStage(int kind, int stage, int microBatches) {
  Actions all;
  for (int m = 0; m < microBatches; ++m) all.push_back({kind, stage, m});
  return all;
}

std::vector<int> evenly(int microBatches, int groups) {
  std::vector<int> sizes;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t begin = g * microBatches / groups, end = (g + 1) * microBatches / groups;
    sizes.push_back(static_cast<int>(end - begin));
  }
  return sizes;
}

/// How micro-batches are interleaved: a group goes through a stage of every rank, then through the next of each.
///
/// A group of p or more comes to the first rank again when it has all gone in, and nobody waits.  The last rank begins
/// backward with (chunks - 1) groups of its longest size in flight, each rank before it with `hop` more than the next.
struct Interleaving {
  std::vector<int> groups;
  int hop;

  int longest() const { return *std::max_element(groups.begin(), groups.end()); }
};

/// Groups of p (Narayanan et al., 2021), which hold chunks p + p - 1 on the first rank.
///
/// Where p does not divide the micro-batches, ranks hold one less per hop, as in 1f1b, and that leaves room for longer
/// groups.  If it is too little, groups are shorter than p: while forwards and backwards alternate, p stages of one
/// kind take less than p turns of both, 2 p / 3 with backwards of two forwards, so that shorter groups come back in
/// time, too. The first and the last group have p, for there ranks do but one of both.
Interleaving interleavingOf(int p, int chunks, int microBatches) {
  const int whole = microBatches / p, left = microBatches % p;
  if (left == 0) return {std::vector<int>(static_cast<size_t>(whole), p), 2};
  const Interleaving longer{evenly(microBatches, std::max(whole, 1)), 1};
  if (int64_t{chunks - 1} * (longer.longest() - p) <= p - 1) return longer;
  if (whole == 1) return {evenly(microBatches, 2), 1};
  Interleaving shorter{evenly(microBatches - 2 * p, whole - 1), 1};
  shorter.groups.insert(shorter.groups.begin(), p);
  shorter.groups.push_back(p);
  return shorter;
}

/// All of a rank's work of one kind.
Actions byGroups(int kind, int rank, int p, int chunks, const std::vector<int>& groups) {
  Actions all;
  int first = 0;
  for (const int group : groups) {
    for (int c = 0; c < chunks; ++c) {
      const int chunk = kind == tuttiActionForward ? c : chunks - 1 - c;
      for (int m = first; m < first + group; ++m) all.push_back({kind, chunk * p + rank, m});
    }
    first += group;
  }
  return all;
}

Actions interleaved(int rank, int p, int chunks, int microBatches) {
  const Interleaving in = interleavingOf(p, chunks, microBatches);
  const int64_t ahead = int64_t{chunks - 1} * in.longest() + in.hop * (p - 1 - rank);
  return inTurns(byGroups(tuttiActionForward, rank, p, chunks, in.groups),
                 byGroups(tuttiActionBackward, rank, p, chunks, in.groups), static_cast<size_t>(ahead));
}

/// List scheduling in units of time, with backward in two halves: input gradients first, then forward while fewer than
/// `most` micro-batches per rank are in flight (later stages first), and weights when there is nothing else.
class ListSchedule {
 public:
  ListSchedule(PipelineSchedule& s, int most)
      : s_(s),
        most_(most),
        done_(static_cast<size_t>(3 * s.stages * s.microBatches), -1),
        next_(static_cast<size_t>(3 * s.stages)),
        inFlight_(static_cast<size_t>(s.nRanks)) {}

  void fill() {
    const int all = 3 * s_.stages * s_.microBatches;
    for (int count = 0; count < all; ++now_) {
      for (int rank = 0; rank < s_.nRanks; ++rank) count += place(rank) ? 1 : 0;
    }
  }

 private:
  int row(int kind, int stage) const {
    return (kind == tuttiActionForward ? 0 : kind == tuttiActionBackwardInput ? 1 : 2) * s_.stages + stage;
  }
  int& done(int kind, int stage, int micro) {
    return done_[static_cast<size_t>(row(kind, stage) * s_.microBatches + micro)];
  }
  /// Done in an earlier unit of time.
  bool before(int kind, int stage, int micro) {
    const int when = done(kind, stage, micro);
    return when >= 0 && when < now_;
  }
  bool possible(int kind, int stage, int micro) {
    if (micro == s_.microBatches) return false;
    if (kind == tuttiActionForward) {
      const int flying = inFlight_[static_cast<size_t>(s_.rankOf[static_cast<size_t>(stage)])];
      return flying < most_ && (stage == 0 || before(kind, stage - 1, micro));
    }
    if (kind == tuttiActionBackwardWeight) return before(tuttiActionBackwardInput, stage, micro);
    return before(tuttiActionForward, stage, micro) && (s_.isLast(stage) || before(kind, stage + 1, micro));
  }
  bool place(int rank) {
    for (const int kind : {tuttiActionBackwardInput, tuttiActionForward, tuttiActionBackwardWeight}) {
      for (int stage = s_.stages - 1; stage >= 0; --stage) {
        if (s_.rankOf[static_cast<size_t>(stage)] != rank) continue;
        int& m = next_[static_cast<size_t>(row(kind, stage))];
        if (!possible(kind, stage, m)) continue;
        done(kind, stage, m) = now_;
        if (kind == tuttiActionForward) ++inFlight_[static_cast<size_t>(rank)];
        if (kind == tuttiActionBackwardWeight) --inFlight_[static_cast<size_t>(rank)];
        s_.actions[static_cast<size_t>(rank)].push_back({kind, stage, m++});
        return true;
      }
    }
    return false;
  }

  PipelineSchedule& s_;
  int most_, now_ = 0;
  std::vector<int> done_;  // when
  std::vector<int> next_;  // of each kind and stage: micro-batches go in their order
  std::vector<int> inFlight_;
};

/// ZB-H1: 1f1b with the weights' half of rank r's backwards r micro-batches late, so that all ranks hold p in flight.
Actions zeroBubbleH1(int rank, int p, int m) {
  Actions all = oneStage(tuttiActionForward, rank, std::min(p - rank, m));
  int forwards = static_cast<int>(all.size()), weights = 0;
  for (int k = 0; k < m; ++k) {
    all.push_back({tuttiActionBackwardInput, rank, k});
    if (k >= rank) all.push_back({tuttiActionBackwardWeight, rank, weights++});
    if (forwards < m) all.push_back({tuttiActionForward, rank, forwards++});
  }
  while (weights < m) all.push_back({tuttiActionBackwardWeight, rank, weights++});
  return all;
}

/// ZB-V (Qi et al., 2024): rank r has stages r and 2p-1-r.  Fills the pipeline through both, then a forward and both
/// halves of a backward of each stage in turns; at the end weights come last.  Not with fewer than 2p-1 micro-batches.
class ZeroBubbleV {
 public:
  ZeroBubbleV(int rank, int p, int m) : rank_(rank), p_(p), m_(m), stages_{rank, 2 * p - 1 - rank} {}

  Actions all() {
    for (int i = 0; i < 2 * (p_ - rank_) - 1; ++i) add(tuttiActionForward, 0);
    for (int i = 0; i < rank_; ++i) add(tuttiActionForward, 1), add(tuttiActionForward, 0);
    for (int i = rank_; i < p_; ++i) add(tuttiActionForward, 1), addBackward(1);
    while (count(tuttiActionForward, 1) < m_) {
      add(tuttiActionForward, 0), addBackward(0);
      add(tuttiActionForward, 1), addBackward(1);
    }
    for (int i = 0; i < rank_; ++i) add(tuttiActionBackwardInput, 0), add(tuttiActionBackwardInput, 1);
    for (int i = rank_; i < p_; ++i) addBackward(0);
    for (const int chunk : {1, 0}) {
      while (count(tuttiActionBackwardWeight, chunk) < m_) add(tuttiActionBackwardWeight, chunk);
    }
    return std::move(actions_);
  }

 private:
  int& count(int kind, int chunk) { return counts_[static_cast<size_t>(kind)][static_cast<size_t>(chunk)]; }
  void add(int kind, int chunk) {
    int& micro = count(kind, chunk);
    if (micro < m_) actions_.push_back({kind, stages_[static_cast<size_t>(chunk)], micro++});
  }
  void addBackward(int chunk) { add(tuttiActionBackwardInput, chunk), add(tuttiActionBackwardWeight, chunk); }

  int rank_, p_, m_;
  std::array<int, 2> stages_;
  std::array<std::array<int, 2>, tuttiNumActions> counts_{};  // of each kind and chunk
  Actions actions_;
};

Actions computations(const std::string& name, int rank, int p, int chunks, int m) {
  const Actions forwards = oneStage(tuttiActionForward, rank, m), backwards = oneStage(tuttiActionBackward, rank, m);
  if (name == "gpipe") return inTurns(forwards, backwards, forwards.size());
  if (name == "1f1b") return inTurns(forwards, backwards, static_cast<size_t>(p - 1 - rank));
  if (name == "zb-h1") return zeroBubbleH1(rank, p, m);
  if (name == "zbv") return ZeroBubbleV(rank, p, m).all();
  if (name == "interleaved") return interleaved(rank, p, chunks, m);
  const std::vector<int> all = {m};  // breadth-first
  return inTurns(byGroups(tuttiActionForward, rank, p, chunks, all),
                 byGroups(tuttiActionBackward, rank, p, chunks, all),
                 static_cast<size_t>(chunks) * static_cast<size_t>(m));
}

}  // namespace

PipelineSchedule namedSchedule(const std::string& name, int nRanks, int chunks, int microBatches) {
  const std::vector<std::string> names = {"gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "zbv"};
  require(std::find(names.begin(), names.end(), name) != names.end(), "there is no schedule ", name,
          "; gpipe, 1f1b, interleaved, breadth-first, zb-h1, zb-h2, zbv");
  require(nRanks >= 1 && chunks >= 1 && microBatches >= 1, "a schedule of ", nRanks, " ranks, ", chunks,
          " stages each, ", microBatches, " micro-batches");
  const bool loops = name == "interleaved" || name == "breadth-first", isV = name == "zbv";
  require(loops || chunks == 1, name, " takes chunks = 1");
  const double stages = (isV ? 2.0 : 1.0) * nRanks * chunks;
  require(stages * microBatches < (1 << 24), stages, " stages and ", microBatches,
          " micro-batches are more than a schedule may have");
  PipelineSchedule s;
  s.nRanks = nRanks;
  s.stages = static_cast<int>(stages);
  s.microBatches = microBatches;
  for (int stage = 0; stage < s.stages; ++stage) {
    const bool back = isV && stage >= nRanks;
    s.rankOf.push_back(back ? 2 * nRanks - 1 - stage : stage % nRanks);
  }
  s.actions.resize(static_cast<size_t>(nRanks));
  if (name == "zb-h2" || (isV && microBatches < 2 * nRanks - 1)) {
    ListSchedule(s, isV ? 2 * nRanks : 2 * nRanks - 1).fill();
  } else {
    for (int r = 0; r < nRanks; ++r) {
      s.actions[static_cast<size_t>(r)] = computations(name, r, nRanks, chunks, microBatches);
    }
  }
  addMessages(s);
  return s;
}

int fewerMicroBatches(int nRanks, int chunks, int microBatches) {
  const int p = nRanks, whole = microBatches / p, left = microBatches % p;
  if (whole <= 2) return microBatches;
  if (chunks == 1 || left == 0) return 2 * p;
  const int more = (left + whole - 1) / whole;  // than p in the longest group
  if (int64_t{chunks - 1} * more <= p - 1) return 2 * p + 2 * (more - 1) + 1;
  return std::min(whole, std::max(4, p - left + 1)) * p + left;  // with as many shorter groups
}

}  // namespace tutti::parallel
