// A plan that came from a file, proven and ready to run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.hpp"
#include "src/schedule/schedule.hpp"

namespace tutti {

namespace foreign {
struct Program;
}

/// A value.  At least one of outOfPlace and inPlace is there, with one verified schedule of logical ops per rank, to be
/// rewritten by the passes as any algorithm's.
struct ImportedPlan {
  std::string name;
  std::string origin;  // the file
  std::string format;  // "msccl", "mscclpp"
  Collective collective = Collective::AllReduce;
  int nRanks = 1;
  int root = 0;
  /// For calls of minBytes to maxBytes in all: the vector, or all ranks' blocks together.
  uint64_t minBytes = 0;
  uint64_t maxBytes = UINT64_MAX;
  /// Pieces that its author divides those bytes into.  Bytes that are not a multiple work too, with uneven chunks.
  int64_t pieces = 1;
  /// What its own runtime would leave to luck and ours does not, such as a buffer that is written after its rank may
  /// have ended.
  std::vector<std::string> notes;
  std::vector<Schedule> outOfPlace;
  std::vector<Schedule> inPlace;

  const std::vector<Schedule>& schedules(bool wantInPlace) const { return wantInPlace ? inPlace : outOfPlace; }
};

/// Texts larger than this are refused.
inline constexpr size_t kMostPlanBytes = size_t{64} << 20;

/// What a plan says of itself.
struct PlanHead {
  int nRanks = 1;
  std::optional<Collective> collective;  // none: it does not say, or one that cannot be run
  std::string name;                      // empty: none
};
/// The head of the plan in `text`; the rest is not read.
/// Errors: InvalidArgument with origin, if it is no plan; Internal if this build cannot read the format.
Result<PlanHead> headOfPlan(std::string_view text, const std::string& origin);
/// The plan in `text`, whichever format it has.  Errors: as importMscclXml and importMscclppJson.
Result<ImportedPlan> importPlan(std::string_view text, const std::string& origin);
/// A file's contents.  Errors: InvalidUsage if it cannot be read.
Result<std::string> readPlanText(const std::string& path);
/// The same from a file.  Errors: also InvalidUsage if it cannot be read.
Result<ImportedPlan> importPlanFile(const std::string& path);

/// For the readers: play and verify the program for the kinds of call that the file allows, and fill in the schedules.
/// Errors: InvalidArgument with origin and what is wrong, if none of them is right.
Result<ImportedPlan> finishImport(const foreign::Program& program, ImportedPlan plan, bool outOfPlace, bool inPlace);

}  // namespace tutti
