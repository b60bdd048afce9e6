#include "src/import/imported_plan.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "src/import/lower.hpp"
#include "src/import/msccl_xml.hpp"
#include "src/import/mscclpp_json.hpp"
#include "src/schedule/verifier.hpp"

namespace tutti {
namespace {

Result<std::vector<Schedule>> lowerAndVerify(const foreign::Program& program, bool inPlace,
                                             std::vector<std::string>* notes) {
  TUTTI_ASSIGN(std::vector<Schedule> schedules, foreign::lower(program, inPlace, notes));
  const std::string complaint = verify(schedules);
  if (!complaint.empty())
    return invalidArgument(ErrorCode::PlanWrong, "is not a right ", collectiveKey(program.collective), ": ", complaint);
  return schedules;
}

}  // namespace

Result<ImportedPlan> finishImport(const foreign::Program& program, ImportedPlan plan, bool outOfPlace, bool inPlace) {
  plan.name = program.name;
  plan.collective = program.collective;
  plan.nRanks = program.nRanks;
  plan.root = program.root;
  plan.pieces = int64_t{program.blockChunks} * blocksOfCall(program.collective, program.nRanks);
  std::string complaints;
  for (const bool wanted : {false, true}) {
    if (!(wanted ? inPlace : outOfPlace)) continue;
    Result<std::vector<Schedule>> schedules = lowerAndVerify(program, wanted, &plan.notes);
    if (schedules.ok()) {
      (wanted ? plan.inPlace : plan.outOfPlace) = std::move(*schedules);
    } else {
      complaints +=
          cat(complaints.empty() ? "" : "; ", wanted ? "in place: " : "out of place: ", schedules.status().message());
    }
  }
  if (!plan.inPlace.empty() || !plan.outOfPlace.empty()) return plan;
  return invalidArgument(ErrorCode::PlanMalformed, plan.origin, ": ",
                         complaints.empty() ? "is for calls neither in nor out of place" : complaints);
}

namespace {

enum class Format { Xml, Json };

Result<Format> formatOf(std::string_view text, const std::string& origin) {
  const size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (first == std::string_view::npos) return invalidArgument(ErrorCode::PlanMalformed, origin, ": is empty");
  if (text[first] == '<') return Format::Xml;
  if (text[first] == '{') return Format::Json;
  return invalidArgument(ErrorCode::PlanMalformed, origin, ": is neither MSCCL's XML nor MSCCL++'s JSON");
}

}  // namespace

Result<PlanHead> headOfPlan(std::string_view text, const std::string& origin) {
  TUTTI_ASSIGN(const Format format, formatOf(text, origin));
  return format == Format::Xml ? headOfMscclXml(text, origin) : headOfMscclppJson(text, origin);
}

Result<ImportedPlan> importPlan(std::string_view text, const std::string& origin) {
  TUTTI_ASSIGN(const Format format, formatOf(text, origin));
  return format == Format::Xml ? importMscclXml(text, origin) : importMscclppJson(text, origin);
}

Result<std::string> readPlanText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    return invalidUsage(ErrorCode::PlanFolder, "cannot read ", path, ": ", std::strerror(errno));
  return std::move(text).str();
}

Result<ImportedPlan> importPlanFile(const std::string& path) {
  TUTTI_ASSIGN(const std::string text, readPlanText(path));
  return importPlan(text, path);
}

}  // namespace tutti
