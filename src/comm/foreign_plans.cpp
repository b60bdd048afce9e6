#include "src/comm/foreign_plans.hpp"

#include <cstdio>
#include <filesystem>

#include "src/base/config.hpp"

namespace tutti {

Result<ForeignPlans> ForeignPlans::read(int nRanks) {
  ForeignPlans plans;
  plans.directory_ = configText("TUTTI_PLAN_DIR");
  if (plans.directory_.empty()) return plans;
#if !TUTTI_HAVE_PUGIXML && !TUTTI_HAVE_NLOHMANN_JSON
  return invalidUsage("TUTTI_PLAN_DIR=", plans.directory_,
                      ": this build of Tutti reads no plans: it has neither pugixml nor nlohmann_json");
#endif
  Result<PlanLibrary> library = PlanLibrary::read(plans.directory_, nRanks, PlanLibrary::Places::Both);
  if (!library.ok()) return invalidUsage("TUTTI_PLAN_DIR=", plans.directory_, ": ", library.status().message());
  plans.library_ = std::move(*library);
  plans.refused_ = plans.library_.refused();
  for (const ImportedPlan& plan : plans.library_.plans()) {
    plans.stems_.push_back(std::filesystem::path(plan.origin).stem().string());
  }
  return plans;
}

std::string ForeignPlans::summary() const {
  if (directory_.empty()) return "no plans (TUTTI_PLAN_DIR is not set)";
  char print[24];
  std::snprintf(print, sizeof print, "%016llx", static_cast<unsigned long long>(library_.fingerprint()));
  return cat(library_.plans().size(), " plans with fingerprint ", print);
}

std::vector<ReadyName> ForeignPlans::names() const {
  std::vector<ReadyName> names;
  for (size_t i = 0; i < stems_.size(); ++i) {
    const ImportedPlan& plan = library_.plans()[i];
    if (!plan.name.empty()) names.push_back({plan.collective, plan.name});
    names.push_back({plan.collective, stems_[i]});
  }
  return names;
}

std::vector<ReadyPlan> ForeignPlans::serving(const Shape& shape) const {
  std::vector<ReadyPlan> ready;
  if (directory_.empty()) return ready;
  for (const PlanLibrary::Candidate& found : library_.find(shape)) {
    const std::string& stem = stems_[static_cast<size_t>(found.plan - library_.plans().data())];
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
