#include "src/import/plan_library.hpp"

#include <algorithm>
#include <filesystem>

#include "src/import/places.hpp"

namespace tutti {
namespace {

/// FNV-1a, 64 bits.
uint64_t hashMore(uint64_t hash, std::string_view text) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return (hash ^ 0xff) * 0x100000001b3;  // ends the text
}

Result<std::vector<std::filesystem::path>> planFiles(const std::string& directory) {
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  std::vector<std::filesystem::path> files;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::filesystem::path& path = entry->path();
    if (path.extension() == ".xml" || path.extension() == ".json") files.push_back(path);
  }
  if (error) return errnoError(error.value(), cat("cannot read the folder of plans ", directory));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<PlanLibrary> PlanLibrary::read(const std::string& directory, int nRanks, Places places) {
  TUTTI_ASSIGN(const std::vector<std::filesystem::path> files, planFiles(directory));
  PlanLibrary library;
  library.nRanks_ = nRanks;
  library.fingerprint_ = 0xcbf29ce484222325;
  for (const std::filesystem::path& file : files) {
    TUTTI_ASSIGN(const std::string text, readPlanText(file));
    const Result<int> ranks = ranksOfPlan(text, file);
    if (ranks.ok() && *ranks != nRanks) continue;
    if (ranks.status().code() == tuttiInternalError) return invalidUsage(ranks.status().message());  // no reader
    library.fingerprint_ = hashMore(hashMore(library.fingerprint_, file.filename().native()), text);
    Result<ImportedPlan> plan = ranks.ok() ? importPlan(text, file) : Result<ImportedPlan>(ranks.status());
    if (plan.ok() && places == Places::Both) {
      if (const Status status = completePlaces(&*plan); !status.ok()) plan = status;
    }
    if (plan.ok()) {
      library.plans_.push_back(std::move(*plan));
    } else {
      library.refused_.push_back(plan.status().message());
    }
  }
  return library;
}

std::vector<PlanLibrary::Candidate> PlanLibrary::find(const Shape& shape) const {
  std::vector<Candidate> found;
  if (shape.nRanks != nRanks_ || shape.uneven || !shape.commutative) return found;
  const bool vector = shape.collective == Collective::AllReduce || shape.collective == Collective::Broadcast ||
                      shape.collective == Collective::Reduce;
  const uint64_t bytes = uint64_t{shape.bytes} * (vector ? 1 : static_cast<uint64_t>(shape.nRanks));
  for (const ImportedPlan& plan : plans_) {
    const std::vector<Schedule>& schedules = plan.schedules(shape.inPlace);
    if (plan.collective != shape.collective || schedules.empty()) continue;
    if (bytes < plan.minBytes || bytes > plan.maxBytes) continue;
    if (schedules.front().root != shape.root && hasRoot(plan.collective)) continue;
    found.push_back({&plan, &schedules, bytes % static_cast<uint64_t>(plan.pieces) == 0});
  }
  std::stable_partition(found.begin(), found.end(), [](const Candidate& c) { return c.divides; });
  return found;
}

}  // namespace tutti
