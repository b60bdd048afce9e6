// A judgement that noise cannot bend.  Of many ways that are equally good the fastest seems better than it is, as its
// time is the least of many; so one half of the rounds picks, and the other half times what it has picked.
#pragma once

#include <span>

#include "perf/ways/ways.hpp"

namespace tutti::perf {

/// Parts of the best time: 0.1 is 10 % more.
struct ByHalves {
  double loss = 0;   // of the choice, beside the way that the other half of the rounds picked
  double noise = 0;  // of the way that one half picked, beside the best of the other: how far both are apart
};

/// Of measured ways, ways[choice] being the choice.  Both halves pick once and time once; geometric means.  Of fewer
/// than two rounds: NaN.
ByHalves judgeByHalves(std::span<const Way> ways, size_t choice);

}  // namespace tutti::perf
