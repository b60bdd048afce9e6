#include "tools/cluster/textbook.hpp"

#include <algorithm>
#include <iterator>

namespace tutti::sim {
namespace textbook {
namespace {

using Shape = TextbookShape;
using enum Collective;
constexpr auto kAtMost = Textbook::Says::AtMost;

double one(const Shape&) { return 1; }
double two(const Shape&) { return 2; }
double others(const Shape& s) { return s.n - 1; }
double rounds(const Shape& s) { return s.L; }
double twiceShares(const Shape& s) { return 2 * (s.n - 1) / s.n; }
double halfPerRound(const Shape& s) { return s.n / 2 * s.L; }
double rootOfBlocks(const Shape& s) { return (s.k - 1 + s.L) / s.k; }
/// Reduce-scatter and allgather inside the node, and between them an allreduce of the own part with the other nodes.
double byLevels(const Shape& s) { return 2 * (s.g - 1) / s.g + 2 * (s.m - 1) / (s.m * s.g); }

// Sources are those of algorithms/README.md.
constexpr Textbook kRows[] = {
    {AllReduce, "ring", "2(n-1)/n S", twiceShares},
    {AllReduce, "tree", "2 S", two, kAtMost},
    {AllReduce, "halvingdoubling", "2(n-1)/n S", twiceShares, {}, true},
    {AllReduce, "recursivedoubling", "log2(n) S", rounds, {}, true},
    {AllReduce, "circulant", "2(n-1)/n S", twiceShares},
    {AllReduce, "oneshot", "(n-1) S", others},
    {AllReduce, "twoshot", "2(n-1)/n S", twiceShares},
    {AllReduce, "hierarchical", "2(g-1)/g S inside + 2(m-1)/(m g) S across", byLevels},
    {AllReduce, "torus2d", "2(n-1)/n S", twiceShares},
    {AllReduce, "torus3d", "2(n-1)/n S", twiceShares},
    {AllReduce, "paramserver", "(n-1) S by rank 0", others},
    {AllGather, "ring", "(n-1) B", others},
    {AllGather, "direct", "(n-1) B", others},
    {AllGather, "recursivedoubling", "(n-1) B", others, {}, true},
    {AllGather, "bruck", "(n-1) B", others},
    {AllGather, "circulant", "(n-1) B", others},
    {AllGather, "pat", "(n-1) B", others},
    {AllGather, "hierarchical", "(m-1) B across + m(g-1) B inside", others},
    {ReduceScatter, "ring", "(n-1) B", others},
    {ReduceScatter, "direct", "(n-1) B", others},
    {ReduceScatter, "recursivehalving", "(n-1) B", others, {}, true},
    {ReduceScatter, "bruck", "(n-1) B", others},
    {ReduceScatter, "circulant", "(n-1) B", others},
    {ReduceScatter, "pat", "(n-1) B", others},
    {ReduceScatter, "hierarchical", "m(g-1) B inside + (m-1) B across", others},
    {AllToAll, "direct", "(n-1) B", others},
    {AllToAll, "pairwise", "(n-1) B", others},
    {AllToAll, "bruck2", "n/2 log2(n) B", halfPerRound, {}, true},
    {AllToAll, "hypercube", "n/2 log2(n) B", halfPerRound, {}, true},
    {AllToAll, "hierarchical", "m(g-1) B inside + (m-1) g B across",
     [](const Shape& s) { return s.m * (s.g - 1) + (s.m - 1) * s.g; }},
    {Broadcast, "binomial", "ceil(log2 n) S by the root", rounds},
    {Broadcast, "chain", "S", one},
    {Broadcast, "scatterallgather", "2(n-1)/n S by the root", twiceShares},
    {Broadcast, "circulant", "(k-1+ceil(log2 n))/k S, k blocks", rootOfBlocks, kAtMost},
    {Broadcast, "doubletree", "S", one, kAtMost},
    {Broadcast, "direct", "(n-1) S by the root", others},
    {Reduce, "binomial", "S", one},
    {Reduce, "chain", "S", one},
    {Reduce, "reducescattergather", "S", one},
    {Reduce, "circulant", "S", one, kAtMost},
    {Reduce, "doubletree", "S", one, kAtMost},
    {Reduce, "direct", "S", one},
    {Gather, "direct", "B", one},
    {Gather, "binomial", "n/2 B", [](const Shape& s) { return s.n / 2; }, {}, true},
    {Scatter, "direct", "(n-1) B by the root", others},
    {Scatter, "binomial", "(n-1) B by the root", others},
};

}  // namespace
}  // namespace textbook

const Textbook* findTextbook(Collective collective, std::string_view algorithm) {
  const auto* found = std::ranges::find_if(
      textbook::kRows, [&](const Textbook& row) { return row.collective == collective && row.algorithm == algorithm; });
  return found == std::end(textbook::kRows) ? nullptr : found;
}

}  // namespace tutti::sim
