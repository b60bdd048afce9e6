// The formulas of the traffic that layers are expected to cause.
#pragma once

#include "src/parallel/tp.hpp"

namespace tutti::parallel {

/// A sum over the group of `bytes` of which every rank gets all, or its slice: as one call, or along the tree.
/// parts  how many subtree sums this rank sends; slice  the share of the vector that this rank owns, in bytes
void predictSum(tuttiTraffic_t& traffic, const Group& group, uint64_t bytes, uint64_t slice, bool tree, size_t parts,
                bool all, uint64_t calls = 1);
void predictGather(tuttiTraffic_t& traffic, const Group& group, uint64_t bytes);

}  // namespace tutti::parallel
