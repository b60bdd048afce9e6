// A condition that holds for every input.  Where it does not, the target ends and names file and line.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace tutti::test {

/// Not std::source_location, which Clang 14 lacks.
inline void require(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  std::fprintf(stderr, "%s:%d: does not hold\n", file, line);
  std::abort();
}

}  // namespace tutti::test
