// Schedules for calls in place and out of place made from each other: on every algorithm.
#include "src/import/places.hpp"

#include <catch2/catch.hpp>

#include "algorithms/algorithm.hpp"
#include "src/schedule/verifier.hpp"
#include "tests/unit/algorithms/shapes.hpp"
#include "tests/unit/import/plans.hpp"

namespace tutti {
namespace {

/// Who sends and receives when, in every lane: what the others see of a rank.
std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> messages(const std::vector<Schedule>& schedules) {
  std::vector<std::pair<std::vector<int32_t>, std::vector<int32_t>>> list;
  for (const Schedule& s : schedules) {
    for (const Lane& lane : s.lanes) {
      for (const Op& op : lane.ops) {
        if (!op.from.empty() || !op.to.empty()) list.emplace_back(op.from, op.to);
      }
      list.emplace_back();
    }
  }
  return list;
}

}  // namespace

TEST_CASE("every algorithm's schedules serve the other kind of call, with the same messages") {
  int made = 0;
  for (const Algorithm* a : algorithms()) {
    for (const int nRanks : {1, 2, 3, 5, 8}) {
      Shape shape{.collective = a->collective, .nRanks = nRanks, .bytes = 1 << 20};
      if (isRooted(a->collective)) shape.root = nRanks / 2;
      if (!a->supports(shape)) continue;
      std::vector<Schedule> in, out;
      shape.inPlace = true;
      for (const Schedule& s : buildAll(*a, shape)) out.push_back(outOfPlaceFrom(s));
      const std::vector<Schedule> nativeIn = buildAll(*a, shape);
      shape.inPlace = false;
      const std::vector<Schedule> nativeOut = buildAll(*a, shape);
      for (const Schedule& s : nativeOut) {
        const std::optional<Schedule> other = inPlaceFrom(s);
        if (other) in.push_back(*other);
      }
      INFO(describe(*a, shape));
      CHECK(verify(out) == "");
      CHECK((messages(out) == messages(nativeIn)));
      if (in.size() != nativeOut.size()) continue;  // lanes that overwrite what others read
      ++made;
      CHECK(verify(in) == "");
      CHECK((messages(in) == messages(nativeOut)));
    }
  }
  CHECK(made > 150);
}

TEST_CASE("a lane that reads what another one overwrites cannot be made in place") {
  const Shape shape{.collective = Collective::AllReduce, .nRanks = 1};
  ScheduleBuilder b(shape, 1, 2);
  b.lane(0).copy(in(0), scratch(0));
  b.lane(1).reduce(in(0), in(0), out(0));
  CHECK(!inPlaceFrom(b.finish()));
}

#if TUTTI_HAVE_PUGIXML
TEST_CASE("a plan that cannot be made in place serves calls out of place, and leaves the others a copy to make") {
  for (const int nRanks : {2, 3, 5, 8}) {
    for (const std::string& text : {test::shoutXml(nRanks), test::crossXml(nRanks)}) {
      auto plan = importPlan(text, "plan");
      REQUIRE(plan.status().message() == "");
      CHECK(completePlaces(&*plan).ok());
      CAPTURE(plan->name, nRanks);
      CHECK(plan->inPlace.empty());
      CHECK(verify(plan->outOfPlace) == "");
      CHECK(test::runs(*plan) == "");
    }
  }
}
#endif

}  // namespace tutti
