// The one place that knows all algorithms.
#include <array>

#include "algorithms/algorithm.hpp"

// One line per algorithm, in the order of README.md.
// clang-format off
#define TUTTI_ALGORITHMS(X) \
  X(kAllReduceRing) \
  X(kAllReduceTree) \
  X(kAllReduceHalvingDoubling) \
  X(kAllReduceRecursiveDoubling) \
  X(kAllReduceCirculant) \
  X(kAllReduceOneShot) \
  X(kAllReduceTwoShot) \
  X(kAllReduceHierarchical) \
  X(kAllReduceTorus2d) \
  X(kAllReduceTorus3d) \
  X(kAllReduceParamServer) \
  X(kAllGatherRing) \
  X(kAllGatherDirect) \
  X(kAllGatherRecursiveDoubling) \
  X(kAllGatherBruck) \
  X(kAllGatherCirculant) \
  X(kAllGatherPat) \
  X(kAllGatherHierarchical) \
  X(kReduceScatterRing) \
  X(kReduceScatterDirect) \
  X(kReduceScatterRecursiveHalving) \
  X(kReduceScatterBruck) \
  X(kReduceScatterCirculant) \
  X(kReduceScatterPat) \
  X(kReduceScatterHierarchical) \
  X(kAllToAllDirect) \
  X(kAllToAllPairwise) \
  X(kAllToAllBruck2) \
  X(kAllToAllBruck4) \
  X(kAllToAllBruck8) \
  X(kAllToAllHypercube) \
  X(kAllToAllHierarchical) \
  X(kBroadcastBinomial) \
  X(kBroadcastChain) \
  X(kBroadcastScatterAllGather) \
  X(kBroadcastCirculant) \
  X(kBroadcastDoubleTree) \
  X(kBroadcastDirect) \
  X(kBroadcastHierarchical) \
  X(kReduceBinomial) \
  X(kReduceChain) \
  X(kReduceReduceScatterGather) \
  X(kReduceCirculant) \
  X(kReduceDoubleTree) \
  X(kReduceDirect) \
  X(kGatherDirect) \
  X(kGatherBinomial) \
  X(kScatterDirect) \
  X(kScatterBinomial) \
  X(kBarrierDissemination) \
  X(kBarrierDirect)
// clang-format on

namespace tutti {

#define TUTTI_DECLARE(name) extern const Algorithm name;
TUTTI_ALGORITHMS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

namespace {

#define TUTTI_ADDRESS(name) &name,
constexpr std::array kAlgorithms = {TUTTI_ALGORITHMS(TUTTI_ADDRESS)};
#undef TUTTI_ADDRESS

}  // namespace

std::span<const Algorithm* const> algorithms() { return kAlgorithms; }

const Algorithm* findAlgorithm(Collective collective, std::string_view name) {
  for (const Algorithm* algorithm : kAlgorithms) {
    if (algorithm->collective == collective && algorithm->name == name) return algorithm;
  }
  return nullptr;
}

}  // namespace tutti
