// How long ranks wait that are to be told of a death or a mistake.
#pragma once

namespace tutti::test {

/// The deadline of their calls: who waits until then was told nothing.
inline constexpr int kDeadlineMs = 60'000;
/// What they take at most; a machine may be slow.
inline constexpr int kMostMs = 20'000;

}  // namespace tutti::test
