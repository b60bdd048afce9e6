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

  /// Names of plans and of their files, for TUTTI_ALGO: of any number of ranks.
  std::vector<ReadyName> names() const;
  /// Those that may serve the call, whether in place or not, as PlanLibrary::find.
  std::vector<ReadyPlan> serving(const Shape& shape) const;
  /// Why no plan of that name may serve the call, such as "it is for 4 ranks".
  std::string whyNone(std::string_view name, const Shape& shape) const;
  /// serving() and whyNone() of the plan that TUTTI_ALGO asks for.
  void offer(PlanRequest* request) const;

 private:
  /// A plan, or one that there is not, as TUTTI_ALGO may call it.
  struct Named {
    Collective collective;
    std::string name;
    std::string leftOut;
  };
  void takeNames();

  std::string directory_;
  std::shared_ptr<const PlanLibrary> library_ = std::make_shared<PlanLibrary>();
  std::vector<std::string> stems_;  // of the plans' files
  std::vector<std::string> refused_;
  std::vector<Named> names_;
};

/// What a rank tells the others of its plans and of those that TUTTI_ALGO asks for: reports that differ, and what went
/// wrong on one rank, are errors on all.
std::string planReport(const Result<ForeignPlans>& plans, const Result<Overrides>& asked);
/// Errors: InvalidUsage naming the ranks.
Status comparePlanReports(const std::vector<std::string>& reports);

}  // namespace tutti
