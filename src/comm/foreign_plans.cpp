#include "src/comm/foreign_plans.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>

#include "src/base/config.hpp"

namespace tutti {
namespace {

/// Names, sizes and times of the folder's files.
std::string stampOf(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code gone;
    files.push_back(cat(entry->path().native(), " ", entry->file_size(gone), " ",
                        entry->last_write_time(gone).time_since_epoch().count(), "\n"));
  }
  std::sort(files.begin(), files.end());
  std::string stamp;
  for (const std::string& file : files) stamp += file;
  return stamp;
}

/// Ranks that are threads of one process read and prove the plans once.  A value that does not change, kept as long as
/// somebody uses it: no state.
Result<std::shared_ptr<const PlanLibrary>> sharedLibrary(const std::string& directory, int nRanks) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const PlanLibrary>> libraries;
  const std::string key = cat(nRanks, " ", directory, "\n", stampOf(directory));
  const std::lock_guard lock(mutex);
  std::erase_if(libraries, [](const auto& entry) { return entry.second.expired(); });
  if (const auto known = libraries.find(key); known != libraries.end()) {
    if (auto library = known->second.lock()) return library;
  }
  TUTTI_ASSIGN(PlanLibrary read, PlanLibrary::read(directory, nRanks, PlanLibrary::Places::Both));
  std::shared_ptr<const PlanLibrary> library = std::make_shared<PlanLibrary>(std::move(read));
  libraries[key] = library;
  return library;
}

}  // namespace

Result<ForeignPlans> ForeignPlans::read(int nRanks) {
  ForeignPlans plans;
  plans.directory_ = configText("TUTTI_PLAN_DIR");
  if (plans.directory_.empty()) return plans;
#if !TUTTI_HAVE_PUGIXML && !TUTTI_HAVE_NLOHMANN_JSON
  return invalidUsage("TUTTI_PLAN_DIR=", plans.directory_,
                      ": this build of Tutti reads no plans: it has neither pugixml nor nlohmann_json");
#endif
  Result<std::shared_ptr<const PlanLibrary>> library = sharedLibrary(plans.directory_, nRanks);
  if (!library.ok()) return invalidUsage("TUTTI_PLAN_DIR=", plans.directory_, ": ", library.status().message());
  plans.library_ = std::move(*library);
  plans.refused_ = plans.library_->refused();
  for (const ImportedPlan& plan : plans.library_->plans()) {
    plans.stems_.push_back(std::filesystem::path(plan.origin).stem().string());
  }
  return plans;
}

std::string ForeignPlans::summary() const {
  if (directory_.empty()) return "no plans (TUTTI_PLAN_DIR is not set)";
  char print[24];
  std::snprintf(print, sizeof print, "%016llx", static_cast<unsigned long long>(library_->fingerprint()));
  return cat(library_->plans().size(), " plans with fingerprint ", print);
}

std::vector<ReadyName> ForeignPlans::names() const {
  std::vector<ReadyName> names;
  for (size_t i = 0; i < stems_.size(); ++i) {
    const ImportedPlan& plan = library_->plans()[i];
    if (!plan.name.empty()) names.push_back({plan.collective, plan.name});
    names.push_back({plan.collective, stems_[i]});
  }
  return names;
}

std::vector<ReadyPlan> ForeignPlans::serving(const Shape& shape) const {
  std::vector<ReadyPlan> ready;
  if (directory_.empty()) return ready;
  for (const PlanLibrary::Candidate& found : library_->find(shape)) {
    const std::string& stem = stems_[static_cast<size_t>(found.plan - library_->plans().data())];
    ready.push_back({found.plan->name.empty() ? std::string_view(stem) : found.plan->name, stem, found.plan->origin,
                     &found.plan->outOfPlace, &found.plan->inPlace});
  }
  return ready;
}

std::string planReport(const Result<ForeignPlans>& plans) {
  return plans.ok() ? plans->summary() : "error " + plans.status().message();
}

Status comparePlanReports(const std::vector<std::string>& reports) {
  for (size_t r = 0; r < reports.size(); ++r) {
    if (reports[r].starts_with("error ")) return invalidUsage("rank ", r, ": ", reports[r].substr(6));
  }
  for (size_t r = 1; r < reports.size(); ++r) {
    if (reports[r] == reports[0]) continue;
    return invalidUsage("TUTTI_PLAN_DIR: rank ", r, " has ", reports[r], ", rank 0 has ", reports[0],
                        "; all ranks need the same files");
  }
  return {};
}

}  // namespace tutti
