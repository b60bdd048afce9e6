// A folder of plans: which are kept, which are found.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>

#include "src/import/plan_library.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/import/plans.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

[[maybe_unused]] std::string names(const std::vector<PlanLibrary::Candidate>& found) {
  std::string text;
  for (const auto& candidate : found) {
    text += cat(text.empty() ? "" : " ", std::filesystem::path(candidate.plan->origin).filename().native(),
                candidate.divides ? "" : "?");
  }
  return text;
}

}  // namespace

#if TUTTI_HAVE_PUGIXML && TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("a library keeps what is right and for its ranks, and finds by collective, bytes and place") {
  const TempFolder folder;
  folder.write("b-ring.xml", ringXml(2));         // allreduce, out of place, from 1024 bytes
  folder.write("a-pair.xml", pairXml());          // allreduce, in place, to 4096 bytes
  folder.write("c-load.json", loadStoreJson(2));  // allreduce, in place, 16 to 1048576 bytes
  folder.write("d-gather.xml", gatherXml(2, false));
  folder.write("e-wrong.xml", replaced(ringXml(2), "coll=\"allreduce\"", "coll=\"reduce\""));
  folder.write("f-three.xml", ringXml(3));
  folder.write("g-broken.json", "{\"gpus\": ");
  folder.write("h-notes.txt", "not a plan");
  const auto library = PlanLibrary::read(folder.path(), 2);
  REQUIRE(library.ok());
  CHECK(library->plans().size() == 4);
  REQUIRE(library->refused().size() == 2);
  CHECK(library->refused()[0].why.find("e-wrong.xml") != std::string::npos);
  CHECK(library->refused()[1].why.find("g-broken.json: not JSON") != std::string::npos);

  const auto find = [&](Collective collective, size_t bytes, bool inPlace) {
    return names(library->find({.collective = collective, .nRanks = 2, .inPlace = inPlace, .bytes = bytes}));
  };
  CHECK(find(Collective::AllReduce, 1024, false) == "b-ring.xml");
  CHECK(find(Collective::AllReduce, 1023, false) == "");
  CHECK(find(Collective::AllReduce, 1025, false) == "b-ring.xml?");
  CHECK(find(Collective::AllReduce, 4096, true) == "a-pair.xml c-load.json");
  CHECK(find(Collective::AllReduce, 4097, true) == "c-load.json?");
  CHECK(find(Collective::AllReduce, 8, true) == "a-pair.xml");
  CHECK(find(Collective::AllReduce, size_t{2} << 20, true) == "");
  CHECK(find(Collective::AllGather, 10, false) == "d-gather.xml");  // 20 bytes in all, 4 pieces
  CHECK(find(Collective::AllGather, 11, false) == "d-gather.xml?");
  CHECK(find(Collective::AllGather, 10, true) == "");
  CHECK(find(Collective::ReduceScatter, 10, false) == "");
  CHECK(library->find({.collective = Collective::AllReduce, .nRanks = 2, .bytes = 4096, .commutative = false}).empty());
  CHECK(library->find({.collective = Collective::AllReduce, .nRanks = 3, .bytes = 4096}).empty());
  const auto one = library->find({.collective = Collective::AllReduce, .nRanks = 2, .bytes = 4096});
  REQUIRE(one.size() == 1);
  CHECK(one[0].schedules->size() == 2);
}

TEST_CASE("plans say what calls they are not for, those for other ranks too") {
  const TempFolder folder;
  folder.write("a-ring.xml", ringXml(2));         // allreduce, out of place, from 1024 bytes
  folder.write("b-load.json", loadStoreJson(2));  // allreduce, in place, 16 to 1048576 bytes
  folder.write("c-three.xml", shoutXml(3));
  folder.write("d-load.json", loadStoreJson(5));
  folder.write("e-other.json", replaced(loadStoreJson(5), "allreduce", "custom"));
  const auto library = PlanLibrary::read(folder.path(), 2);
  REQUIRE(library.ok());
  REQUIRE(library->plans().size() == 2);
  CHECK(library->refused().empty());
  REQUIRE(library->others().size() == 3);
  CHECK(library->others()[0].head.nRanks == 3);
  CHECK(library->others()[0].head.name == "shout");
  CHECK(library->others()[0].head.collective == Collective::AllReduce);
  CHECK(library->others()[1].head.nRanks == 5);
  CHECK(library->others()[1].head.name == "own");
  CHECK(!library->others()[2].head.collective);

  const Shape good{.collective = Collective::AllReduce, .nRanks = 2, .inPlace = false, .bytes = 4096};
  const auto why = [&](size_t plan, const std::function<void(Shape*)>& change) {
    Shape shape = good;
    change(&shape);
    return PlanLibrary::misfit(library->plans()[plan], shape);
  };
  CHECK(why(0, [](Shape*) {}) == "");
  CHECK(why(0, [](Shape* s) { s->nRanks = 3; }) == "it is for 2 ranks");
  CHECK(why(0, [](Shape* s) { s->bytes = 1023; }) == "it is for 1024 or more bytes in all");
  CHECK(why(0, [](Shape* s) { s->inPlace = true; }) == "it is for calls out of place");
  CHECK(why(0, [](Shape* s) { s->uneven = true; }) == "it is for blocks that are all of one size");
  CHECK(why(0, [](Shape* s) { s->commutative = false; }).find("it has an order of its own") == 0);
  CHECK(why(1, [](Shape* s) { s->inPlace = true; }) == "");
  CHECK(why(1, [](Shape*) {}) == "it is for calls in place");
  CHECK(why(1, [](Shape* s) { s->bytes = 8; }) == "it is for 16 to 1048576 bytes in all");
  ImportedPlan rooted = library->plans()[0];
  rooted.collective = Collective::Reduce;
  rooted.root = 1;
  CHECK(PlanLibrary::misfit(rooted, {.collective = Collective::Reduce, .nRanks = 2, .bytes = 4096}) ==
        "its root is rank 1");
}

TEST_CASE("libraries of the same files have the same fingerprint, others another") {
  const TempFolder one, two;
  one.write("x.xml", ringXml(2));
  two.write("x.xml", ringXml(2));
  const auto print = [](const TempFolder& folder) { return PlanLibrary::read(folder.path(), 2)->fingerprint(); };
  CHECK(print(one) == print(two));
  two.write("y.xml", ringXml(3));  // for other ranks
  CHECK(print(one) == print(two));
  two.write("x.xml", ringXml(2) + " ");
  CHECK(print(one) != print(two));
}
#endif

TEST_CASE("a folder that is not there is an error, an empty one is not") {
  CHECK(PlanLibrary::read("/nonexistent/plans", 2).status().code() == tuttiInvalidUsage);
  const TempFolder folder;
  const auto library = PlanLibrary::read(folder.path(), 2);
  REQUIRE(library.ok());
  CHECK(library->plans().empty());
  CHECK(library->find({.collective = Collective::AllReduce, .nRanks = 2, .bytes = 8}).empty());
}
