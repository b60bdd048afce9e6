#include "src/import/plan_library.hpp"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "src/base/folder.hpp"
#include "src/import/places.hpp"

namespace tutti {
namespace {

uint64_t hashMore(uint64_t hash, std::string_view text) {
  return hashText("\xff", hashText(text, hash));
}  // 0xff ends it

Result<std::vector<std::filesystem::path>> planFiles(const std::string& directory) {
  const auto names = namesIn(directory);
  if (!names)
    return invalidUsage(ErrorCode::PlanFolder, "cannot read the folder of plans ", directory, ": ",
                        std::generic_category().message(errno));
  std::vector<std::filesystem::path> files;
  for (const std::string& name : *names) {
    std::filesystem::path path = std::filesystem::path(directory) / name;
    if (path.extension() == ".xml" || path.extension() == ".json") files.push_back(std::move(path));
  }
  return files;
}

}  // namespace

Result<PlanLibrary> PlanLibrary::read(const std::string& directory, int nRanks, Places places) {
  TUTTI_ASSIGN(const std::vector<std::filesystem::path> files, planFiles(directory));
  PlanLibrary library;
  library.nRanks_ = nRanks;
  library.fingerprint_ = hashText("");
  for (const std::filesystem::path& file : files) {
    TUTTI_ASSIGN(const std::string text, readPlanText(file));
    Result<PlanHead> head = headOfPlan(text, file);
    if (head.ok() && head->nRanks != nRanks) {
      library.others_.push_back({file, std::move(*head)});
      continue;
    }
    if (head.status().code() == tuttiInternalError)
      return invalidUsage(ErrorCode::NotInBuild, head.status().text());  // no reader
    library.fingerprint_ = hashMore(hashMore(library.fingerprint_, file.filename().native()), text);
    Result<ImportedPlan> plan = head.ok() ? importPlan(text, file) : Result<ImportedPlan>(head.status());
    if (plan.ok() && places == Places::Both) {
      if (const Status status = completePlaces(&*plan); !status.ok()) plan = status;
    }
    if (plan.ok()) {
      library.plans_.push_back(std::move(*plan));
    } else {
      library.refused_.push_back({file, plan.status().message()});
    }
  }
  return library;
}

namespace {

uint64_t bytesInAll(const Shape& s) {
  return uint64_t{s.bytes} * static_cast<uint64_t>(blocksOfCall(s.collective, s.nRanks));
}

}  // namespace

std::string PlanLibrary::misfit(const ImportedPlan& plan, const Shape& s) {
  const uint64_t bytes = bytesInAll(s);
  if (plan.nRanks != s.nRanks) return cat("it is for ", plan.nRanks, plan.nRanks == 1 ? " rank" : " ranks");
  if (s.uneven) return "it is for blocks that are all of one size";
  if (!s.commutative) {
    return "it has an order of its own, and operands have to be combined in rank order (reproducible sums, operators "
           "that do not commute)";
  }
  if (isRooted(plan.collective) && plan.root != s.root) return cat("its root is rank ", plan.root);
  if (bytes < plan.minBytes || bytes > plan.maxBytes) {
    const bool limited = plan.maxBytes != UINT64_MAX;
    return cat("it is for ", plan.minBytes, limited ? cat(" to ", plan.maxBytes) : " or more", " bytes in all");
  }
  return plan.schedules(s.inPlace).empty() ? cat("it is for calls ", s.inPlace ? "out of" : "in", " place") : "";
}

std::vector<PlanLibrary::Candidate> PlanLibrary::find(const Shape& shape) const {
  std::vector<Candidate> found;
  for (const ImportedPlan& plan : plans_) {
    if (plan.collective != shape.collective || !misfit(plan, shape).empty()) continue;
    const bool divides = bytesInAll(shape) % static_cast<uint64_t>(plan.pieces) == 0;
    found.push_back({&plan, &plan.schedules(shape.inPlace), divides});
  }
  std::stable_partition(found.begin(), found.end(), [](const Candidate& c) { return c.divides; });
  return found;
}

}  // namespace tutti
