// The plans of TUTTI_PLAN_DIR in a communicator: read by every rank, and offered to the planner beside the algorithms
// if all ranks have read the same.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/import/plan_library.hpp"
#include "src/plan/planner.hpp"

namespace tutti {

/// Not changed after it was read.  What it hands out points into it.
class ForeignPlans {
 public:
  /// Nothing if TUTTI_PLAN_DIR is not set.
  /// Errors: InvalidUsage naming TUTTI_PLAN_DIR (the folder or a file cannot be read, or this build lacks the reader).
  static Result<ForeignPlans> read(int nRanks);

  /// What to tell the others; the same on all ranks that have read the same.
  std::string summary() const;
  /// Files that were left out, a sentence each.
  const std::vector<std::string>& refused() const { return refused_; }

  /// Names of plans and of their files, for TUTTI_ALGO.
  std::vector<ReadyName> names() const;
  /// Those that may serve the call, as PlanLibrary::find.
  std::vector<ReadyPlan> serving(const Shape& shape) const;

 private:
  std::string directory_;
  std::shared_ptr<const PlanLibrary> library_ = std::make_shared<PlanLibrary>();
  std::vector<std::string> stems_;  // of the plans' files
  std::vector<std::string> refused_;
};

/// What a rank tells the others of its plans: summaries that differ, and what went wrong on one rank, are errors on
/// all.
std::string planReport(const Result<ForeignPlans>& plans);
/// Errors: InvalidUsage naming the ranks.
Status comparePlanReports(const std::vector<std::string>& reports);

}  // namespace tutti
