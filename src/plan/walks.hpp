// What algorithms cost, by walking their schedules (src/walk) at the prices of a calibration.
//
// A schedule's steps are the same for all sizes but for the few algorithms that say otherwise, so they are built once
// and priced again for each size and protocol.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "src/plan/planner.hpp"
#include "src/walk/walk.hpp"

namespace tutti {

/// Prices of a request's messages with one protocol inside nodes.
/// roomBytes: memory of channels that messages pass through, which is touched beside the buffers.
walk::Prices pricesOf(const PlanRequest& request, const Calibration& calibration, Protocol protocol,
                      double roomBytes = 0);

/// Levels of a request's ranks: those of its machine, or its nodes.
walk::Levels levelsOf(const PlanRequest& request);

/// Of a call, in microseconds.
struct WalkedCost {
  double us = 0;
  double workUs = 0;  // of the busiest core
  double wireUs = 0;  // of the busiest wire
};

/// A call of chunks that are cut into slices of at most slotBytes.
/// Error: InternalError if the schedules come to a halt.
Result<WalkedCost> priceOf(const walk::Bound& bound, const walk::Prices& prices, double chunkBytes, size_t slotBytes);

/// The walks of one communicator: of one machine, one calibration, and shapes that differ in collective, bytes, root,
/// order of operands and parts.  Any thread.
class Walks {
 public:
  /// What a call by the algorithm costs, microseconds.  The request's root is taken as rank 0.
  /// Errors: InvalidArgument if there are too many ranks to walk its schedules: they have no symmetry and many steps.
  Result<WalkedCost> cost(const PlanRequest& request, const Calibration& calibration, const Algorithm& algorithm,
                          Protocol protocol, const std::vector<LevelPart>& parts);
  /// The same of a plan with its schedules, which are not kept.
  static Result<WalkedCost> cost(const PlanRequest& request, const Calibration& calibration, const ReadyPlan& ready,
                                 Protocol protocol);

 private:
  /// How a schedule is rewritten before it runs.
  enum class Rewrite { Fused, Direct, Published };
  struct Walked {
    walk::Bound bound;
    double chunkPerByte = 0;
    size_t bytes = 0;  // that the schedules were built for
  };
  using Built = std::tuple<const Algorithm*, Rewrite, std::vector<LevelPart>, bool>;
  using Priced = std::tuple<const Algorithm*, Rewrite, Protocol, std::vector<LevelPart>, bool, size_t>;

  Result<WalkedCost> walkOf(const PlanRequest& request, const Calibration& calibration, const Algorithm& algorithm,
                            Protocol protocol, const std::vector<LevelPart>& parts);
  Result<std::shared_ptr<const Walked>> find(const PlanRequest& request, const Algorithm& algorithm, Rewrite rewrite,
                                             const std::vector<LevelPart>& parts);
  static Result<std::shared_ptr<const Walked>> build(const PlanRequest& request, const Algorithm& algorithm,
                                                     Rewrite rewrite, const Shape& shape);

  std::mutex mutex_;
  std::map<Built, std::shared_ptr<const Walked>> known_;  // for the last size, where that matters
  std::map<Priced, std::optional<WalkedCost>> priced_;    // none: cannot be walked
};

}  // namespace tutti
