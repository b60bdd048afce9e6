// How near to each other the cores of ranks 0 and 1 are, now.
#pragma once

#include <optional>

#include "perf/common/placement.hpp"
#include "perf/common/small_program.hpp"

namespace tutti::perf {

/// Of ranks on one host; of others nothing is known.  All of it is collective.
class Nearness {
 public:
  explicit Nearness(const Ranks& ranks);
  ~Nearness();
  Nearness(const Nearness&) = delete;
  Nearness& operator=(const Nearness&) = delete;

  /// Microseconds of a cache line one way, on all ranks; 0: not known.
  double us();
  /// Whether two such times are those of cores that are as near, as far as it is known.
  static bool alike(double us, double otherUs);

 private:
  const Ranks ranks_;
  Placement::Words* words_ = nullptr;  // of ranks 0 and 1, both or neither
  std::optional<Placement> placement_;
};

}  // namespace tutti::perf
