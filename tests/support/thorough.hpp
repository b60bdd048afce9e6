// How much a test tries.
#pragma once

namespace tutti::test {

/// Sanitizers look at how memory is used, which a few ranks and seeds show as well as many; and they make a test ten
/// times as long.  Without them everything is tried.
inline constexpr bool kThorough = TUTTI_THOROUGH;

}  // namespace tutti::test
