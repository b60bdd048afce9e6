// What the environment says of large allocations; read once, without allocating.
#pragma once

#include <cstddef>

namespace tutti::arenas {

struct Settings {
  size_t leastBytes = size_t{32} << 10;  // TUTTI_MALLOC_LEAST: smaller allocations are the C library's
  size_t keepBytes = size_t{256} << 20;  // TUTTI_MALLOC_KEEP: of freed memory that keeps its pages for the next one
  bool huge = false;                     // huge pages, where the system gives them to all memory
};

/// Any thread.  A value that is none is told on the standard error, and its default stands.
const Settings& settings();

}  // namespace tutti::arenas
