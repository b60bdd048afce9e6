// Sums over tokens, of which other ranks have more: gradients of weights, and what a program sums itself.
#include <algorithm>

#include "src/parallel/predict.hpp"
#include "src/parallel/tp.hpp"

using namespace tutti::parallel;

std::vector<int64_t> tuttiTp::tokenRuns() const {
  return evenCuts(invariant() ? config.leaves : tokenGroup.size(), 1, tokenGroup.size());
}

LeafRange tuttiTp::tokenRun() const {
  const std::vector<int64_t> runs = tokenRuns();
  const size_t r = static_cast<size_t>(tokenGroup.rank());
  return {runs[r], runs[r + 1]};
}

/// Leaves differ by one token at most and larger ones come first, in each run of them too: a rank that is cut at leaves
/// finds its own from the number of its tokens.
std::vector<int64_t> tuttiTp::leavesOfTokens(int64_t count) const {
  const LeafRange run = tokenRun();
  if (run.begin == run.end) return {0};
  return evenCuts(count, 1, static_cast<int>(run.end - run.begin));
}

void tuttiTp::checkTokens(int64_t count) const {
  if (!invariant() || tokenGroup.size() == 1) return;
  const std::vector<int64_t> leaves = evenCuts(config.sequence, 1, config.leaves);
  const LeafRange run = tokenRun();
  const int64_t begin = leaves[static_cast<size_t>(run.begin)], end = leaves[static_cast<size_t>(run.end)];
  require(count == end - begin, count, " tokens on rank ", tokenGroup.rank(), " of ", tokenGroup.size(),
          " of tokenComm: of ", config.sequence, " tokens in ", config.leaves, " leaves it has [", begin, ", ", end,
          "), as tuttiTpTokens and tuttiSpTokens with leaves say");
}

namespace {

/// The ranks over which tokens are cut, and their leaves.
struct CutTokens {
  Group& group;
  std::vector<int64_t> runs;  // [nRanks + 1]
  LeafRange run() const {
    const size_t r = static_cast<size_t>(group.rank());
    return {runs[r], runs[r + 1]};
  }
};

CutTokens cutTokensOf(tuttiTp& tp, bool whole) {
  if (!tp.sequence() || whole) return {tp.tokenGroup, tp.tokenRuns()};
  return {tp.group, tp.invariant() ? tp.leafRuns() : evenCuts(tp.group.size(), 1, tp.group.size())};
}

std::vector<int64_t> rowCutsOf(tuttiTp& tp, int64_t tokens, bool whole) {
  if (!tp.sequence() || whole) return tp.leavesOfTokens(tokens);
  if (!tp.invariant()) return {0, tp.ownTokens(tokens)};
  const std::vector<int64_t> bounds = tp.leaves(tokens, 1);
  const LeafRange run = cutTokensOf(tp, whole).run();
  std::vector<int64_t> cuts(bounds.begin() + run.begin, bounds.begin() + run.end + 1);
  for (int64_t& cut : cuts) cut -= bounds[static_cast<size_t>(run.begin)];
  return cuts;
}

template <class T>
void addLeaves(tuttiTp& tp, const CutTokens& axis, const T* leaves, T* to, size_t count) {
  Device& device = *tp.device;
  Array<T> sum(device, count, Array<T>::Any);
  if (tp.invariant()) {
    const auto sums = subtreeSums(device, leaves, count, axis.runs.back(), axis.run());
    std::vector<const T*> parts;
    for (const auto& part : sums) parts.push_back(part.data());
    const std::vector<int64_t> slices = evenCuts(static_cast<int64_t>(count), 1, axis.group.size());
    axis.group.treeAllReduce(parts, sum.data(), axis.runs.data(), slices.data());
  } else {
    copyBytes(device, sum.data(), leaves, count * sizeof(T));
    axis.group.allReduce(sum.data(), count, dtypeOf<T>(), tuttiSum);
  }
  addVector<T>(device, to, sum.data(), count);
}

}  // namespace

tuttiResult_t tuttiTpTokens(tuttiTp_t tp, int64_t* cuts) {
  return guardedIf(tp != nullptr && cuts != nullptr, "tp or cuts is NULL", [&] {
    require(tp->config.sequence >= 1, "config.sequence is ", tp->config.sequence, ": the tokens of a whole sequence");
    std::vector<int64_t> found = evenCuts(tp->config.sequence, 1, tp->tokenGroup.size());
    if (tp->invariant()) {
      const std::vector<int64_t> leaves = evenCuts(tp->config.sequence, 1, tp->config.leaves), runs = tp->tokenRuns();
      for (size_t r = 0; r < found.size(); ++r) found[r] = leaves[static_cast<size_t>(runs[r])];
    }
    std::copy(found.begin(), found.end(), cuts);
  });
}

tuttiResult_t tuttiTpTokenLeaves(tuttiTp_t tp, int64_t tokens, int whole, int* nLeaves, int64_t* rowCuts) {
  return guardedIf(tp != nullptr && nLeaves != nullptr && rowCuts != nullptr, "tp, nLeaves or rowCuts is NULL", [&] {
    require(tokens >= 0, "there are no ", tokens, " tokens");
    tp->checkTokens(tokens);
    const std::vector<int64_t> cuts = rowCutsOf(*tp, tokens, whole != 0);
    *nLeaves = static_cast<int>(cuts.size()) - 1;
    std::copy(cuts.begin(), cuts.end(), rowCuts);
  });
}

tuttiResult_t tuttiTpTokenSum(tuttiTp_t tp, int whole, const tuttiTensor_t* leaves, const tuttiTensor_t* sum) {
  return guardedIf(tp != nullptr && leaves != nullptr && sum != nullptr, "tp, leaves or sum is NULL", [&] {
    const CutTokens axis = cutTokensOf(*tp, whole != 0);
    const int64_t count = elementsOf(*sum), mine = axis.run().end - axis.run().begin;
    checkContiguous(sum, "sum", count, sum->dtype, kindOf(*tp->device));
    checkContiguous(leaves, "leaves", mine * count, sum->dtype, kindOf(*tp->device));
    if (count == 0) return;
    withType(sum->dtype, [&](auto zero) {
      using T = decltype(zero);
      addLeaves<T>(*tp, axis, static_cast<const T*>(leaves->data), static_cast<T*>(sum->data),
                   static_cast<size_t>(count));
    });
  });
}

tuttiResult_t tuttiTpTokenPredict(tuttiTp_t tp, int whole, int64_t count, tuttiDataType_t dtype,
                                  tuttiTraffic_t* traffic) {
  return guarded([&] {
    require(tp != nullptr && traffic != nullptr && traffic->size == sizeof(tuttiTraffic_t),
            "tp is NULL, or traffic does not begin from TUTTI_TRAFFIC_INITIALIZER");
    require(count >= 0, "there are no ", count, " elements");
    const CutTokens axis = cutTokensOf(*tp, whole != 0);
    const std::vector<int64_t> slices = evenCuts(count, 1, axis.group.size());
    const size_t me = static_cast<size_t>(axis.group.rank());
    predictSum(*traffic, axis.group, static_cast<uint64_t>(count) * bytesOf(dtype),
               static_cast<uint64_t>(slices[me + 1] - slices[me]) * bytesOf(dtype), tp->invariant(),
               subtreesOf(axis.runs.back(), axis.run()).size(), true);
  });
}
