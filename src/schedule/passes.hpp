// Rewriting schedules into what a machine does well.  Every pass keeps a verified schedule verified (tests do check
// that for every algorithm) and is a pure function.
#pragma once

#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

/// recv + send, recvReduce + send of the same value become one op that forwards while it receives; the store is
/// dropped when nobody reads it.  Several recvReduce in a row into the same chunk become one multi-source reduce that
/// reads every source once (at most kMaxOperands; not in reproducible schedules, nor where Schedule::accumulates is
/// false).  Several sends in a row of the same chunk become one publish with many readers.  Logical ops in. A fused op
/// holds its messages until it has room to pass the value on.  In a ring with one slot per FIFO everybody would wait
/// for the next rank's room, so the result says slotsNeeded = 2: one message is held, one more may follow.
Schedule fuse(const Schedule& schedule);
inline constexpr size_t kMaxOperands = 64;

/// As fuse(), but what is received, stored in Output and sent on stays two ops, so that markDirect can let receivers
/// read it where it lies.  What only passes through scratch is forwarded.
Schedule fuseForDirect(const Schedule& schedule);

/// For schedules in which a rank sends at most one value, and that to all others (Algorithm::publishes): one send to
/// kEveryone instead.  Run last; such a schedule is bound to boards, and all ranks' must be.
Schedule publish(const Schedule& schedule);

/// Copy `nChannels` times, each channel with an nChannels-th of every chunk (the executor divides the bytes): lanes
/// l, l + L, l + 2L, ... of the result are copies of lane l of L, each with scratch of its own.
Schedule replicate(const Schedule& schedule, int nChannels);

/// Mark every send from Input or Output whose source may be read in place by its receivers.  A mark that makes the
/// schedules deadlock (both sides of an exchange would wait until the other has taken the chunk that they are about to
/// overwrite) is left out.  The schedules must verify.  All ranks' schedules in, all out.
std::vector<Schedule> markDirect(const std::vector<Schedule>& schedules);
/// Smaller messages are copied through a slot, marked or not: that costs less than lending memory and asking for it
/// back.
inline constexpr size_t kLeastDirectBytes = 4096;

/// Rewrite reductions so that every final value is combined along one binary tree over rank index, whatever the
/// algorithm: tree(lo, hi) = tree(lo, mid) op tree(mid, hi), as reduction_tree.hpp says.
/// Partial results that are not a whole subtree travel uncombined, as several messages.  Gives the same bits for every
/// algorithm, and rank order for operators that do not commute.  AllReduce, Reduce and ReduceScatter; others pass
/// unchanged.  The schedules must verify, with logical ops and a message for each chunk; run other passes afterwards.
/// Still completes with one slot. All ranks' schedules in, all out.
std::vector<Schedule> makeReproducible(const std::vector<Schedule>& schedules);

/// Mark the ops that complete a sum which ends in this rank's Output (Op::rounds).  Where messages between hosts are
/// rounded, the rank that completes a sum then keeps what the others get.  All ranks end with the same bits if each sum
/// is completed by one rank alone (Algorithm::sumsOnce), and rounding twice is rounding once.  After all other passes.
Schedule roundResults(Schedule schedule);

/// Set Op::origin everywhere, for chunks that differ in size.  All ranks' schedules in, all out.
std::vector<Schedule> markOrigins(const std::vector<Schedule>& schedules);

/// Without what executors skip in a call on a vector of so few elements that the chunks from this number on have none.
/// For estimates: before publish(), and without phases.  One channel.  All ranks' schedules in, all out.
std::vector<Schedule> skipEmpty(const std::vector<Schedule>& schedules, size_t elements);

}  // namespace tutti
