#include "tools/info/exchange_view.hpp"

#include "algorithms/algorithm.hpp"
#include "src/base/text.hpp"
#include "src/import/imported_plan.hpp"
#include "src/import/msccl_xml.hpp"
#include "src/import/mscclpp_json.hpp"
#include "tools/export/export.hpp"

namespace tutti {
namespace {

constexpr int kMostRanks = 1024;

std::string describe(const ImportedPlan& plan) {
  std::string text = cat(plan.origin, ": ", plan.name, " (", plan.format, "), ", collectiveKey(plan.collective), " on ",
                         plan.nRanks, " ranks, ", plan.pieces, " pieces of ", plan.minBytes, " bytes");
  text += plan.maxBytes == UINT64_MAX ? std::string(" or more") : cat(" to ", plan.maxBytes, " bytes");
  return text + " in all\n";
}

Result<std::string> importView(const std::string& file) {
  TUTTI_ASSIGN(const ImportedPlan plan, importPlanFile(file));
  std::string text = describe(plan);
  for (const std::string& note : plan.notes) text += cat("note: under its own runtime, ", note, "; not so here\n");
  for (const bool inPlace : {false, true}) {
    if (plan.schedules(inPlace).empty()) continue;
    text += cat("\n", inPlace ? "in place" : "out of place", ": verified\n");
    for (const Schedule& schedule : plan.schedules(inPlace)) text += cat("\n", toString(schedule));
  }
  return text;
}

/// COLLECTIVE:NAME, or a NAME that only one collective has.
Result<const Algorithm*> algorithmCalled(const std::string& text) {
  std::vector<const Algorithm*> found;
  std::string names;
  for (const Algorithm* algorithm : algorithms()) {
    const std::string full = cat(collectiveKey(algorithm->collective), ":", algorithm->name);
    if (text != full && text != algorithm->name) continue;
    names += cat(found.empty() ? "" : ", ", full);
    found.push_back(algorithm);
  }
  if (found.empty()) return invalidUsage("--export: there is no algorithm ", text, "; see algorithms/README.md");
  if (found.size() > 1) return invalidUsage("--export: ", text, " could be ", names);
  return found.front();
}

Result<std::string> exportView(const ExchangeQuestion& q) {
  const std::string& format = q.exported[0];
  if (format != "msccl" && format != "mscclpp") return invalidUsage("--export ", format, ": msccl or mscclpp");
  if (q.ranks < 1 || q.ranks > kMostRanks) return invalidUsage("--ranks ", q.ranks, ": 1 to ", kMostRanks);
  TUTTI_ASSIGN(const Algorithm* algorithm, algorithmCalled(q.exported[1]));
  Shape shape{.collective = algorithm->collective, .nRanks = q.ranks, .inPlace = q.inPlace, .bytes = size_t{1} << 20};
  if (const char* missing = algorithm->missing(shape)) {
    return invalidUsage("--export: ", q.exported[1], " does not work on ", q.ranks, " ranks of one node: it needs ",
                        missing);
  }
  std::vector<Schedule> schedules;
  // What a step moves to one rank is a message; foreign plans are for any size, so there is no slot for it to fit.
  if (algorithm->joins) shape.messageBytes = shape.bytes * static_cast<size_t>(shape.nRanks);
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) schedules.push_back(algorithm->build(shape));
  const std::string name = cat("tutti_", collectiveKey(algorithm->collective), "_", algorithm->name);
  return format == "msccl" ? exportMscclXml(schedules, name) : exportMscclppJson(schedules, name);
}

}  // namespace

Result<std::string> exchangeView(const ExchangeQuestion& question) {
  std::string text;
  if (!question.file.empty()) {
    TUTTI_ASSIGN(text, importView(question.file));
  }
  if (question.exported.empty()) return text;
  TUTTI_ASSIGN(const std::string plan, exportView(question));
  return text + plan;
}

}  // namespace tutti
