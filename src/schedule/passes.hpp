// Rewriting schedules into what a machine does well.  Every pass keeps a verified schedule verified (tests do check
// that for every algorithm) and is a pure function.
#pragma once

#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// recv + send, recvReduce + send of the same value become one op that forwards while it receives; the store is
/// dropped when nobody reads it.  Several recvReduce in a row into the same chunk become one multi-source reduce that
/// reads every source once.  Several sends in a row of the same chunk become one publish with many readers.
Schedule fuse(const Schedule& schedule);

/// Copy `nChannels` times, each channel with an nChannels-th of every chunk (the executor divides the bytes): lanes
/// l, l + L, l + 2L, ... of the result are copies of lane l of L, each with scratch of its own.
Schedule replicate(const Schedule& schedule, int nChannels);

/// Mark every send whose source may be read in place by its receivers.  `slots` as in the verifier: a mark that could
/// make the schedules deadlock is left out.  All ranks' schedules in, all out.
std::vector<Schedule> markDirect(const std::vector<Schedule>& schedules);

/// Rewrite reductions so that every final value is combined along one binary tree over rank index, whatever the
/// algorithm: tree(lo, hi) = tree(lo, mid) op tree(mid, hi), mid - lo being the largest power of two < hi - lo.
/// Partial results that are not a whole subtree travel uncombined, as several messages.  Gives the same bits for every
/// algorithm, and rank order for operators that do not commute.  All ranks' schedules in, all out.
std::vector<Schedule> makeReproducible(const std::vector<Schedule>& schedules);

}  // namespace tutti
