// The one place that knows all algorithms.
#include <array>

#include "algorithms/algorithm.hpp"

// One line per algorithm, in the order of README.md: its file, which is its namespace, and its name there.
// clang-format off
#define TUTTI_ALGORITHMS(X) \
  X(allreduce_ring, kAllReduceRing) \
  X(allreduce_tree, kAllReduceTree) \
  X(allreduce_halving_doubling, kAllReduceHalvingDoubling) \
  X(allreduce_recursive_doubling, kAllReduceRecursiveDoubling) \
  X(allreduce_circulant, kAllReduceCirculant) \
  X(allreduce_oneshot, kAllReduceOneShot) \
  X(allreduce_twoshot, kAllReduceTwoShot) \
  X(allreduce_hierarchical, kAllReduceHierarchical) \
  X(allreduce_torus, kAllReduceTorus2d) \
  X(allreduce_torus, kAllReduceTorus3d) \
  X(allreduce_paramserver, kAllReduceParamServer) \
  X(allgather_ring, kAllGatherRing) \
  X(allgather_direct, kAllGatherDirect) \
  X(allgather_recursive_doubling, kAllGatherRecursiveDoubling) \
  X(allgather_skips, kAllGatherBruck) \
  X(allgather_skips, kAllGatherCirculant) \
  X(allgather_pat, kAllGatherPat) \
  X(allgather_hierarchical, kAllGatherHierarchical) \
  X(allgather_leaders, kAllGatherLeaders) \
  X(reduce_scatter_ring, kReduceScatterRing) \
  X(reduce_scatter_direct, kReduceScatterDirect) \
  X(reduce_scatter_recursive_halving, kReduceScatterRecursiveHalving) \
  X(reduce_scatter_skips, kReduceScatterBruck) \
  X(reduce_scatter_skips, kReduceScatterCirculant) \
  X(reduce_scatter_pat, kReduceScatterPat) \
  X(reduce_scatter_hierarchical, kReduceScatterHierarchical) \
  X(reduce_scatter_leaders, kReduceScatterLeaders) \
  X(alltoall_direct, kAllToAllDirect) \
  X(alltoall_pairwise, kAllToAllPairwise) \
  X(alltoall_bruck, kAllToAllBruck2) \
  X(alltoall_bruck, kAllToAllBruck4) \
  X(alltoall_bruck, kAllToAllBruck8) \
  X(alltoall_hypercube, kAllToAllHypercube) \
  X(alltoall_hierarchical, kAllToAllHierarchical) \
  X(alltoall_leaders, kAllToAllLeaders) \
  X(broadcast_binomial, kBroadcastBinomial) \
  X(broadcast_circulant, kBroadcastCirculant) \
  X(broadcast_chain, kBroadcastChain) \
  X(broadcast_scatter_allgather, kBroadcastScatterAllGather) \
  X(broadcast_doubletree, kBroadcastDoubleTree) \
  X(broadcast_direct, kBroadcastDirect) \
  X(broadcast_hierarchical, kBroadcastHierarchical) \
  X(reduce_binomial, kReduceBinomial) \
  X(reduce_chain, kReduceChain) \
  X(reduce_reducescatter_gather, kReduceReduceScatterGather) \
  X(reduce_circulant, kReduceCirculant) \
  X(reduce_doubletree, kReduceDoubleTree) \
  X(reduce_direct, kReduceDirect) \
  X(gather_direct, kGatherDirect) \
  X(gather_binomial, kGatherBinomial) \
  X(scatter_direct, kScatterDirect) \
  X(scatter_binomial, kScatterBinomial) \
  X(barrier_dissemination, kBarrierDissemination) \
  X(barrier_direct, kBarrierDirect)
// clang-format on

namespace tutti {

#define TUTTI_DECLARE(file, name) \
  namespace file {                \
  extern const Algorithm name;    \
  }
TUTTI_ALGORITHMS(TUTTI_DECLARE)
#undef TUTTI_DECLARE

namespace {

#define TUTTI_ADDRESS(file, name) &file::name,
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
