// How much a test tries.
#pragma once

#include <cstdlib>

namespace tutti::test {

/// Few ranks and seeds show much of what many show: in every build, and under sanitizers, which look at how memory is
/// used.  Test cases tagged [thorough] run again with all of them where TUTTI_TEST_THOROUGH is set: in suite 'full'.
inline const bool kThorough = std::getenv("TUTTI_TEST_THOROUGH") != nullptr;

}  // namespace tutti::test
