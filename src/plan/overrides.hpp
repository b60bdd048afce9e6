// What a user asks of the planner: TUTTI_ALGO, TUTTI_PROTO, TUTTI_NCHANNELS.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "algorithms/algorithm.hpp"
#include "src/base/status.hpp"
#include "src/plan/calibration.hpp"

namespace tutti {

struct Overrides {
  /// Per collective; null: the planner's choice.
  std::array<const Algorithm*, kNumCollectives> algorithm = {};
  std::optional<Protocol> protocol;
  int nChannels = 0;  // 0: the planner's choice

  const Algorithm* of(Collective c) const { return algorithm[static_cast<size_t>(c)]; }
  bool operator==(const Overrides&) const = default;
};

/// "ring": that algorithm for every collective that has one of the name; others are planned as usual.
/// "allreduce:ring,broadcast:chain": for the named collectives.  Later entries win over earlier ones.
/// Errors: InvalidUsage listing the names there are.
Status parseAlgorithms(std::string_view text, Overrides* into);

/// "inline", "slots" or "direct"; empty: none.
Status parseProtocolOverride(std::string_view text, Overrides* into);

/// All three variables.  Errors: InvalidUsage naming the variable, its value and the valid ones.
Result<Overrides> overridesFromEnvironment();

/// "ring, tree, ..." of one collective.
std::string algorithmNames(Collective collective);

}  // namespace tutti
