// What a user asks of the planner: TUTTI_ALGO, TUTTI_PROTO, TUTTI_NCHANNELS, TUTTI_JOIN, TUTTI_ALGO_STRICT.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "algorithms/algorithm.hpp"
#include "src/base/status.hpp"
#include "src/cost/calibration.hpp"

namespace tutti {

struct Overrides {
  /// Per collective; null: the planner's choice.
  std::array<const Algorithm*, kNumCollectives> algorithm = {};
  /// Per collective the name of a plan that is not an algorithm (PlanRequest::ready); empty: the planner's choice.
  std::array<std::string, kNumCollectives> ready = {};
  std::optional<Protocol> protocol;
  int nChannels = 0;             // 0: the planner's choice
  bool nearestChannels = false;  // nChannels, or without a word as many as there can be
  /// Messages of several chunks wherever an algorithm has them, or nowhere; none: the planner's choice.
  std::optional<bool> joined;
  /// A call that one of these does not fit is refused; else it goes on without that one (fit.hpp).
  bool strict = false;

  const Algorithm* of(Collective c) const { return algorithm[static_cast<size_t>(c)]; }
  const std::string& readyOf(Collective c) const { return ready[static_cast<size_t>(c)]; }
  bool operator==(const Overrides&) const = default;
};

/// What else may be asked for, and of which collective.  Borrowed.
struct ReadyName {
  Collective collective;
  std::string_view name;
  /// Why there is nothing of that name after all, for whatever collective; empty: there is.
  std::string_view leftOut = {};
};

/// "ring": that algorithm for every collective that has one of the name; others are planned as usual.
/// "allreduce:ring,broadcast:chain": for the named collectives.  Later entries win over earlier ones.
/// A name of `ready` is understood too, where there is no algorithm of that name.
/// Errors: InvalidUsage listing the names there are, or saying why a plan of the name was left out.
Status parseAlgorithms(std::string_view text, Overrides* into, std::span<const ReadyName> ready = {});

/// "inline", "slots" or "direct"; empty: none.
Status parseProtocolOverride(std::string_view text, Overrides* into);

/// "1" or "0"; empty: none.
Status parseJoinOverride(std::string_view text, Overrides* into);

/// All these variables.  Errors: InvalidUsage naming the variable, its value and the valid ones.
Result<Overrides> overridesFromEnvironment(std::span<const ReadyName> ready = {});

/// "ring, tree, ..." of one collective.
std::string algorithmNames(Collective collective);

}  // namespace tutti
