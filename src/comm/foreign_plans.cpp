#include "src/comm/foreign_plans.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>

#include "src/base/config.hpp"
#include "src/base/folder.hpp"

namespace tutti {
namespace {

/// Names, sizes and times of the folder's files.
std::string stampOf(const std::string& directory) {
  std::string stamp;
  const auto names = namesIn(directory);
  for (const std::string& name : names.value_or(std::vector<std::string>())) {
    const std::filesystem::path file = std::filesystem::path(directory) / name;
    std::error_code gone;
    stamp += cat(name, " ", std::filesystem::file_size(file, gone), " ",
                 std::filesystem::last_write_time(file, gone).time_since_epoch().count(), "\n");
  }
  return stamp;
}

std::string stemOf(const std::string& path) { return std::filesystem::path(path).stem().string(); }

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
  return invalidUsage(ErrorCode::NotInBuild, "TUTTI_PLAN_DIR=", plans.directory_,
                      ": this build of Tutti reads no plans: it has neither pugixml nor nlohmann_json");
#endif
  Result<std::shared_ptr<const PlanLibrary>> library = sharedLibrary(plans.directory_, nRanks);
  if (!library.ok())
    return invalidUsage(ErrorCode::PlanFolder, "TUTTI_PLAN_DIR=", plans.directory_, ": ", library.status().text(),
                        "; name a folder that every rank can read, or leave it unset");
  plans.library_ = std::move(*library);
  for (const PlanLibrary::Refused& file : plans.library_->refused()) plans.refused_.push_back(file.why);
  plans.takeNames();
  return plans;
}

void ForeignPlans::takeNames() {
  const auto take = [&](Collective collective, const std::string& name, const std::string& origin) {
    if (!name.empty()) names_.push_back({collective, name, ""});
    names_.push_back({collective, stemOf(origin), ""});
  };
  for (const ImportedPlan& plan : library_->plans()) {
    take(plan.collective, plan.name, plan.origin);
    stems_.push_back(stemOf(plan.origin));
  }
  for (const PlanLibrary::Other& other : library_->others()) {
    if (other.head.collective) take(*other.head.collective, other.head.name, other.origin);
  }
  for (const PlanLibrary::Refused& file : library_->refused()) {
    names_.push_back({Collective::AllReduce, stemOf(file.origin), file.why});
  }
}

std::string ForeignPlans::summary() const {
  if (directory_.empty()) return "no plans (TUTTI_PLAN_DIR is not set)";
  char print[24];
  std::snprintf(print, sizeof print, "%016llx", static_cast<unsigned long long>(library_->fingerprint()));
  return cat(library_->plans().size(), " plans with fingerprint ", print);
}

std::vector<ReadyName> ForeignPlans::names() const {
  std::vector<ReadyName> names;
  for (const Named& named : names_) names.push_back({named.collective, named.name, named.leftOut});
  return names;
}

std::vector<ReadyPlan> ForeignPlans::serving(const Shape& shape) const {
  std::vector<ReadyPlan> ready;
  if (directory_.empty()) return ready;
  Shape apart = shape;
  apart.inPlace = false;
  for (const PlanLibrary::Candidate& found : library_->find(apart)) {
    const ImportedPlan& plan = *found.plan;
    const std::string& stem = stems_[static_cast<size_t>(found.plan - library_->plans().data())];
    ready.push_back({plan.name.empty() ? stem : plan.name, stem, plan.origin, &plan.outOfPlace,
                     plan.inPlace.empty() ? nullptr : &plan.inPlace});
  }
  return ready;
}

std::string ForeignPlans::whyNone(std::string_view name, const Shape& shape) const {
  Shape apart = shape;
  apart.inPlace = false;
  std::vector<std::string> reasons;
  const auto add = [&](std::string reason) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(std::move(reason));
  };
  for (const ImportedPlan& plan : library_->plans()) {
    const bool meant = plan.collective == shape.collective && (name == plan.name || name == stemOf(plan.origin));
    if (meant) add(PlanLibrary::misfit(plan, apart));
  }
  for (const PlanLibrary::Other& other : library_->others()) {
    const bool meant =
        other.head.collective == shape.collective && (name == other.head.name || name == stemOf(other.origin));
    if (meant) add(cat("it is for ", other.head.nRanks, other.head.nRanks == 1 ? " rank" : " ranks"));
  }
  std::string all;
  for (const std::string& reason : reasons) all += cat(all.empty() ? "" : "; ", reason);
  return all;
}

void ForeignPlans::offer(PlanRequest* request) const {
  request->ready = serving(request->shape);
  const std::string& asked = request->overrides.readyOf(request->shape.collective);
  const auto answers = [&](const ReadyPlan& plan) { return plan.answersTo(asked); };
  if (asked.empty() || std::any_of(request->ready.begin(), request->ready.end(), answers)) return;
  request->whyNoneReady = whyNone(asked, request->shape);
}

std::string planReport(const Result<ForeignPlans>& plans, const Result<Overrides>& asked) {
  if (!plans.ok()) return "error " + plans.status().text();
  if (!asked.ok()) return "error " + asked.status().text();
  std::string report = plans->summary();
  for (int i = 0; i < kNumCollectives; ++i) {
    const Shape call{.collective = static_cast<Collective>(i), .nRanks = 0};
    const std::string& name = asked->readyOf(call.collective);
    if (!name.empty())
      report += cat(", and '", name, "' for ", collectiveKey(call.collective), ": ", plans->whyNone(name, call));
  }
  return report;
}

Status comparePlanReports(const std::vector<std::string>& reports) {
  for (size_t r = 0; r < reports.size(); ++r) {
    if (reports[r].starts_with("error "))
      return invalidUsage(ErrorCode::PlanFolder, "rank ", r, ": ", reports[r].substr(6));
  }
  for (size_t r = 1; r < reports.size(); ++r) {
    if (reports[r] == reports[0]) continue;
    return invalidUsage(ErrorCode::PlansDiffer, "TUTTI_PLAN_DIR: rank ", r, " has ", reports[r], ", rank 0 has ",
                        reports[0], "; all ranks need the same files");
  }
  return {};
}

}  // namespace tutti
