// Schedules by name: the order of computations; messages are put in afterwards.
#include <algorithm>

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

/// Micro-batches in groups of p, each group through all of a rank's stages before the next.
Actions byGroups(int kind, int rank, int p, int chunks, int microBatches) {
  Actions all;
  for (int first = 0; first < microBatches; first += p) {
    for (int c = 0; c < chunks; ++c) {
      const int chunk = kind == tuttiActionForward ? c : chunks - 1 - c;
      for (int m = first; m < std::min(first + p, microBatches); ++m) all.push_back({kind, chunk * p + rank, m});
    }
  }
  return all;
}

/// List scheduling in units of time, with backward in two halves: input gradients first, then forward while fewer than
/// `most` micro-batches per rank are in flight (later stages first), and weights when there is nothing else.
class ListSchedule {
 public:
  ListSchedule(PipelineSchedule& s, int most)
      : s_(s),
        most_(most),
        done_(static_cast<size_t>(3 * s.stages * s.microBatches), -1),
        inFlight_(static_cast<size_t>(s.nRanks)) {}

  void fill() {
    const int all = 3 * s_.stages * s_.microBatches;
    for (int count = 0; count < all; ++now_) {
      for (int rank = 0; rank < s_.nRanks; ++rank) count += place(rank) ? 1 : 0;
    }
  }

 private:
  int& done(int kind, int stage, int micro) {
    const int row = kind == tuttiActionForward ? 0 : kind == tuttiActionBackwardInput ? 1 : 2;
    return done_[static_cast<size_t>((row * s_.stages + stage) * s_.microBatches + micro)];
  }
  /// Done in an earlier unit of time.
  bool before(int kind, int stage, int micro) {
    const int when = done(kind, stage, micro);
    return when >= 0 && when < now_;
  }
  bool possible(int kind, int stage, int micro) {
    if (done(kind, stage, micro) >= 0) return false;
    if (micro > 0 && done(kind, stage, micro - 1) < 0) return false;  // in the order of micro-batches
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
        for (int m = 0; m < s_.microBatches; ++m) {
          if (!possible(kind, stage, m)) continue;
          done(kind, stage, m) = now_;
          if (kind == tuttiActionForward) ++inFlight_[static_cast<size_t>(rank)];
          if (kind == tuttiActionBackwardWeight) --inFlight_[static_cast<size_t>(rank)];
          s_.actions[static_cast<size_t>(rank)].push_back({kind, stage, m});
          return true;
        }
      }
    }
    return false;
  }

  PipelineSchedule& s_;
  int most_, now_ = 0;
  std::vector<int> done_, inFlight_;
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

Actions computations(const std::string& name, int rank, int p, int chunks, int m) {
  const Actions forwards = oneStage(tuttiActionForward, rank, m), backwards = oneStage(tuttiActionBackward, rank, m);
  if (name == "gpipe") return inTurns(forwards, backwards, forwards.size());
  if (name == "1f1b") return inTurns(forwards, backwards, static_cast<size_t>(p - 1 - rank));
  if (name == "zb-h1") return zeroBubbleH1(rank, p, m);
  Actions f = byGroups(tuttiActionForward, rank, p, chunks, m), b = byGroups(tuttiActionBackward, rank, p, chunks, m);
  if (name == "interleaved") {
    // As many ahead as fill the pipeline: the last stage's first backward comes after its group has gone through.
    const int group = std::min(p, m);
    const bool whole = m % p == 0;
    const int ahead = whole ? (p - rank - 1) * 2 + (chunks - 1) * group : static_cast<int>(f.size());
    return inTurns(f, b, static_cast<size_t>(ahead));
  }
  f.clear();  // breadth-first
  b.clear();
  for (int c = 0; c < chunks; ++c) {
    const Actions through = oneStage(tuttiActionForward, c * p + rank, m);
    const Actions back = oneStage(tuttiActionBackward, (chunks - 1 - c) * p + rank, m);
    f.insert(f.end(), through.begin(), through.end());
    b.insert(b.end(), back.begin(), back.end());
  }
  return inTurns(f, b, f.size());
}

}  // namespace

PipelineSchedule namedSchedule(const std::string& name, int nRanks, int chunks, int microBatches) {
  const std::vector<std::string> names = {"gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "zbv"};
  require(std::find(names.begin(), names.end(), name) != names.end(), "there is no schedule ", name,
          "; gpipe, 1f1b, interleaved, breadth-first, zb-h1, zb-h2, zbv");
  require(nRanks >= 1 && chunks >= 1 && microBatches >= 1, "a schedule of ", nRanks, " ranks, ", chunks,
          " stages each, ", microBatches, " micro-batches");
  const bool loops = name == "interleaved" || name == "breadth-first";
  require(loops || chunks == 1, name, " takes chunks = 1");
  PipelineSchedule s;
  s.nRanks = nRanks;
  s.stages = name == "zbv" ? 2 * nRanks : nRanks * chunks;
  s.microBatches = microBatches;
  for (int stage = 0; stage < s.stages; ++stage) {
    const bool back = name == "zbv" && stage >= nRanks;
    s.rankOf.push_back(back ? 2 * nRanks - 1 - stage : stage % nRanks);
  }
  s.actions.resize(static_cast<size_t>(nRanks));
  if (name == "zb-h2" || name == "zbv") {
    ListSchedule(s, name == "zb-h2" ? 2 * nRanks - 1 : 2 * nRanks).fill();
  } else {
    for (int r = 0; r < nRanks; ++r) {
      s.actions[static_cast<size_t>(r)] = computations(name, r, nRanks, chunks, microBatches);
    }
  }
  addMessages(s);
  return s;
}

}  // namespace tutti::parallel
