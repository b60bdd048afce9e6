// Ranks that wait for each other for ever: who needs what of whom before it can go on, a pure function of what every
// rank says of itself.
#pragma once

#include <optional>
#include <span>

#include "src/control/diagnosis.hpp"

namespace tutti {

/// Whether the rank is in a collective that ends on no rank before all have entered it.
bool isInCallOfAll(const RankState& state);

/// Whether the rank in `state` has not begun its message number `number`, modulo 2^24, to rank `to`.
bool lacksSend(const RankState& state, int to, uint32_t number);

/// A circle of waits; two ranks in control exchanges that are not the same call; or an exchange on one rank before, on
/// another behind a collective.
/// Only what can never end counts, so that it can be said before the deadline: a Recv whose peer has not made the Send,
/// a collective or an exchange that takes every rank and that some rank has not entered; also one of another
/// communicator, where the ranks' threads are the only ones that could enter.  Such waits end by deeds of the other
/// rank alone, which are counted, and no rank undoes a deed; so answers that were given at different times are no
/// danger. Where a program has more threads, one that has made no call yet may still enter: then a circle through two
/// communicators counts when patience is over.  origin: whose waits are followed.  No circle: empty.
enum class Patience : uint8_t { Endless, Over };
std::optional<Failure> diagnoseDeadlock(int origin, std::span<const std::optional<RankReport>> reports,
                                        Patience patience = Patience::Endless);

}  // namespace tutti
