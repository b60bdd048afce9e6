// The plans of a folder (TUTTI_PLAN_DIR) that are for a given number of ranks, for a planner to ask.
//
//   TUTTI_ASSIGN(const PlanLibrary library, PlanLibrary::read(directory, comm.nRanks()));
//   for (const PlanLibrary::Refused& file : library.refused()) log(file.why);
//   for (const PlanLibrary::Candidate& c : library.find(shape)) ...   // (*c.schedules)[rank], then the passes
//
// Ranks that choose among candidates must have read the same files: compare fingerprint() when they meet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/import/imported_plan.hpp"

namespace tutti {

/// A value, not changed after it was read: any thread may ask it.
class PlanLibrary {
 public:
  /// AsWritten: for calls in place or out of place, as the files say.  Both: every plan for calls out of place, and for
  /// calls in place where it can be, as completePlaces() makes them.
  enum class Places { AsWritten, Both };

  /// Files *.xml and *.json of the folder, in the order of their names; others are ignored.  Of plans for other numbers
  /// of ranks only the heads are read.  A plan that is wrong is left out and listed in refused().
  /// Errors: InvalidUsage if the folder or a file of it cannot be read, or this build cannot read a format.
  static Result<PlanLibrary> read(const std::string& directory, int nRanks, Places places = Places::AsWritten);

  struct Candidate {
    const ImportedPlan* plan = nullptr;
    const std::vector<Schedule>* schedules = nullptr;  // one per rank, for in place or not, as asked
    /// The bytes divide into the plan's pieces evenly.  Where they do not, the plan works, with uneven chunks; its
    /// author's runtime would not have used it.
    bool divides = false;
  };
  /// Plans that may serve a call of this collective, root, in place or not, whose bytes are in their window; in the
  /// order of the file names, those that divide first.  `shape.bytes` as in Shape; shape.rank and nodeOf are ignored.
  /// None for shape.nRanks other than the library's, for v forms and for operators that do not commute: those want
  /// their operands in rank order.  Candidates point into the library.
  std::vector<Candidate> find(const Shape& shape) const;
  /// Why `plan` may not serve a call of its collective, such as "it is for 4 ranks"; empty: it may.
  static std::string misfit(const ImportedPlan& plan, const Shape& shape);

  const std::vector<ImportedPlan>& plans() const { return plans_; }
  /// A file that was left out.
  struct Refused {
    std::string origin;
    std::string why;  // a sentence with the file's name
  };
  const std::vector<Refused>& refused() const { return refused_; }
  /// A file for another number of ranks.
  struct Other {
    std::string origin;
    PlanHead head;
  };
  const std::vector<Other>& others() const { return others_; }
  /// Depends on the names and contents of all files that are kept or refused.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  int nRanks_ = 0;
  std::vector<ImportedPlan> plans_;
  std::vector<Refused> refused_;
  std::vector<Other> others_;
  uint64_t fingerprint_ = 0;
};

}  // namespace tutti
