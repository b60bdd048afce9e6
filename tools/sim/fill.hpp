// A set's description with its numbers in it.
#pragma once

#include "tools/sim/published.hpp"

namespace tutti::sim {

int ranksOf(const PublishedSet& set, const PublishedPoint& point);
/// `cluster` with $N, $R, $a ... replaced.
std::string filled(const PublishedSet& set, const char* cluster, const std::vector<double>& constants,
                   const PublishedPoint& point);

}  // namespace tutti::sim
