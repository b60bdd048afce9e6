// Every algorithm goes out as a foreign plan and comes back as schedules that are proven and move the same data.
#include <catch2/catch.hpp>
#include <iostream>
#include <map>

#include "src/import/msccl_xml.hpp"
#include "src/import/mscclpp_json.hpp"
#include "src/schedule/chunk_values.hpp"
#include "src/schedule/lane_machine.hpp"
#include "src/schedule/passes.hpp"
#include "src/schedule/symbolic_values.hpp"
#include "tests/support/thorough.hpp"
#include "tests/unit/algorithms/shapes.hpp"
#include "tests/unit/import/plans.hpp"
#include "tools/export/export.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// How often which value goes from whom to whom: "1 -> 2: chunk 3 of ranks 0-1".  Parts that channels work on count as
/// chunks of their own, so that it does not matter whether a schedule has chunks or channels.
std::map<std::string, int> messagesOf(const std::vector<Schedule>& schedules) {
  const int parts = schedules.front().nChannels;
  const int lanesPerPart = static_cast<int>(schedules.front().lanes.size()) / parts;
  int mostInputs = 1;
  for (const Schedule& s : schedules) mostInputs = std::max(mostInputs, s.inputChunks());
  SymbolicValues values(static_cast<int>(schedules.size()), mostInputs * parts);
  std::map<std::string, int> result;
  for (int lane = 0; lane < lanesPerPart * parts; ++lane) {
    ChunkValues held(schedules, SymbolicValues::kNone);
    for (const Schedule& s : schedules) {
      for (int c = 0; c < s.inputChunks(); ++c) {
        held.of(s, in(c)) = values.input(s.rank, c * parts + lane / lanesPerPart);
      }
    }
    LaneMachine machine(schedules, lane, 1);
    (void)machine.run([&](int rank, int index, std::span<const int32_t> received) {
      const Op& op =
          schedules[static_cast<size_t>(rank)].lanes[static_cast<size_t>(lane)].ops[static_cast<size_t>(index)];
      int32_t value = SymbolicValues::kNone;
      const auto operand = [&](int32_t next) {
        value = value == SymbolicValues::kNone ? next : values.combine(value, next);
      };
      for (const Chunk source : op.sources) operand(held.of(rank, source));
      for (const int32_t next : received) operand(next);
      if (op.hasDst) held.of(rank, op.dst) = value;
      for (const int32_t to : op.to) ++result[cat(rank, " -> ", to, ": ", values.describe(value))];
      return value;
    });
  }
  return result;
}

using Exporter = Result<std::string> (*)(const std::vector<Schedule>&, const std::string&);
using Importer = Result<ImportedPlan> (*)(std::string_view, const std::string&);

/// "" or what is wrong with the schedules after the way there and back.
std::string goAndReturn(const std::vector<Schedule>& schedules, Exporter out, Importer back) {
  const auto text = out(schedules, "a \"name\" <&>");
  if (!text.ok()) return "export: " + text.status().message();
  const auto plan = back(*text, "exported");
  if (!plan.ok()) return plan.status().message();
  const Schedule& first = schedules.front();
  const std::vector<Schedule>& again = plan->schedules(first.inPlace);
  if (again.size() != schedules.size()) return cat(again.size(), " schedules came back");
  if (plan->name != "a \"name\" <&>") return "the name came back as " + plan->name;
  if (plan->collective != first.collective || (isRooted(first.collective) && plan->root != first.root)) {
    return "another collective or root came back";
  }
  if (messagesOf(again) != messagesOf(schedules)) return "other messages came back";
  return "";
}

bool inMscclpp(Collective c) {
  return c == Collective::AllReduce || c == Collective::AllGather || c == Collective::ReduceScatter ||
         c == Collective::AllToAll;
}

[[maybe_unused]] void exchangeAll(Exporter out, Importer back, bool all) {
  int plans = 0;
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->collective == Collective::Barrier || (!all && !inMscclpp(algorithm->collective))) continue;
    for (const int nRanks : {1, 2, 3, 4, 5, 8, 13}) {
      if (!kThorough && nRanks > 5) continue;
      for (const bool inPlace : {false, true}) {
        Shape shape{.collective = algorithm->collective, .nRanks = nRanks, .inPlace = inPlace, .bytes = 1 << 20};
        if (isRooted(shape.collective)) shape.root = nRanks / 2;
        if (algorithm->name == "hierarchical") shape.nodeOf = nodeShapes(nRanks)[0];
        if (!algorithm->supports(shape)) continue;
        const std::vector<Schedule> schedules = buildAll(*algorithm, shape);
        const std::string why = goAndReturn(schedules, out, back);
        if (!why.empty()) FAIL_CHECK(describe(*algorithm, shape) << ": " << why);
        ++plans;
        if (nRanks != 5) continue;
        Shape joined = shape;
        joined.messageBytes = size_t{1} << 30;
        const std::string whyNotJoined = goAndReturn(buildAll(*algorithm, joined), out, back);
        if (!whyNotJoined.empty()) FAIL_CHECK(describe(*algorithm, joined) << " joined: " << whyNotJoined);
        ++plans;
        std::vector<Schedule> channels;
        for (const Schedule& s : schedules) channels.push_back(replicate(s, 3));
        const std::string whyNot = goAndReturn(channels, out, back);
        if (!whyNot.empty()) FAIL_CHECK(describe(*algorithm, shape) << " with 3 channels: " << whyNot);
        ++plans;
      }
    }
  }
  std::cout << plans << " plans went out and came back\n";
  CHECK(plans > 100);
}

}  // namespace

#if TUTTI_HAVE_PUGIXML
TEST_CASE("every algorithm goes out as MSCCL XML and comes back the same", "[thorough]") {
  exchangeAll(exportMscclXml, importMscclXml, true);
}
#endif

#if TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("every algorithm that MSCCL++ can express goes out as its JSON and comes back the same", "[thorough]") {
  exchangeAll(exportMscclppJson, importMscclppJson, false);
}
#endif

#if TUTTI_HAVE_PUGIXML && TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("exported plans run with right results after they have come back") {
  for (const auto& [collective, name] :
       {std::pair(Collective::AllReduce, "tree"), std::pair(Collective::AllGather, "bruck"),
        std::pair(Collective::ReduceScatter, "ring"), std::pair(Collective::AllToAll, "bruck2")}) {
    const Shape shape{.collective = collective, .nRanks = 6, .bytes = 1 << 20};
    const std::vector<Schedule> schedules = buildAll(*findAlgorithm(collective, name), shape);
    for (const Exporter out : {Exporter(exportMscclXml), Exporter(exportMscclppJson)}) {
      const auto text = out(schedules, name);
      REQUIRE(text.ok());
      const auto plan = importPlan(*text, "exported");
      INFO(name);
      REQUIRE(plan.ok());
      CHECK(runs(*plan) == "");
    }
  }
}
#endif

TEST_CASE("what foreign plans cannot express is refused") {
  const auto complaint = [](Exporter out, const std::vector<Schedule>& schedules) {
    return out(schedules, "x").status().message();
  };
  const Shape barrier{.collective = Collective::Barrier, .nRanks = 3};
  const auto schedules = buildAll(*findAlgorithm(Collective::Barrier, "dissemination"), barrier);
  CHECK(complaint(exportMscclXml, schedules).find("a barrier moves no data") != std::string::npos);
  const Shape broadcast{.collective = Collective::Broadcast, .nRanks = 3};
  const auto tree = buildAll(*findAlgorithm(Collective::Broadcast, "binomial"), broadcast);
  CHECK(complaint(exportMscclppJson, tree).find("MSCCL++ has no broadcast") != std::string::npos);
  const Shape reduce{.collective = Collective::AllReduce, .nRanks = 3};
  std::vector<Schedule> ring = buildAll(*findAlgorithm(Collective::AllReduce, "ring"), reduce);
  std::vector<Schedule> fused;
  for (const Schedule& s : ring) fused.push_back(fuse(s));
  CHECK(complaint(exportMscclXml, fused).find("export before fusing") != std::string::npos);
  ring[1].lanes[0].ops.pop_back();
  CHECK(complaint(exportMscclXml, ring).find("rank") != std::string::npos);
}
