// Sums that are rounded on their way: who completes one keeps what the others get, and nobody else completes it.
#include <catch2/catch.hpp>
#include <map>

#include "src/schedule/chunk_numbers.hpp"
#include "src/schedule/lane_machine.hpp"
#include "tests/support/passes.hpp"
#include "tests/unit/algorithms/shapes.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// The run of all ranks in which a value is the number of the op that rounded it last, 0 if none has; "" or the first
/// output that none has rounded, or that two ranks got from different ops.
class RoundedRun {
 public:
  explicit RoundedRun(const std::vector<Schedule>& schedules) : schedules_(schedules) {
    for (const Schedule& s : schedules_) {
      numbers_.emplace_back(s);
      held_.emplace_back(numbers_.back().size(), 0);
    }
  }

  std::string run() {
    for (size_t lane = 0; lane < schedules_[0].lanes.size(); ++lane) {
      LaneMachine machine(schedules_, static_cast<int>(lane), slotsNeeded(schedules_));
      const bool completed = machine.run([&](int rank, int op, std::span<const int32_t> received) {
        return execute(rank, schedules_[static_cast<size_t>(rank)].lanes[lane].ops[static_cast<size_t>(op)], received);
      });
      if (!completed) return "the run does not complete";
    }
    for (int c = 0; c < schedules_[0].outputChunks(); ++c) {
      for (int rank = 0; rank < static_cast<int>(schedules_.size()); ++rank) {
        if (held(rank, out(c)) == 0) return cat("nobody has rounded chunk ", c, " of rank ", rank);
        if (held(rank, out(c)) != held(0, out(c)))
          return cat("rank ", rank, " has chunk ", c, " from another than rank 0");
      }
    }
    return "";
  }

 private:
  int32_t& held(int rank, Chunk chunk) {
    return held_[static_cast<size_t>(rank)][numbers_[static_cast<size_t>(rank)].of(chunk)];
  }
  int32_t execute(int rank, const Op& op, std::span<const int32_t> received) {
    int32_t value = 0;
    if (op.rounds) {
      value = ++rounded_;
    } else if (!op.reduces()) {
      value = op.sources.empty() ? received[0] : held(rank, op.sources[0]);
    }
    if (op.hasDst) held(rank, op.dst) = value;
    return value;
  }

  const std::vector<Schedule>& schedules_;
  std::vector<ChunkNumbers> numbers_;
  std::vector<std::vector<int32_t>> held_;
  int32_t rounded_ = 0;
};

std::string complaint(const Algorithm& a, const Shape& shape, const Passes& passes) {
  std::vector<Schedule> all = rewrite(tutti::buildAll(a, shape), passes);
  for (Schedule& schedule : all) schedule = roundResults(schedule);
  return RoundedRun(all).run();
}

}  // namespace

TEST_CASE("one rank completes each sum of an AllReduce, exactly where the algorithm says so") {
  std::map<std::string_view, bool> failed;
  for (const Algorithm* a : algorithms()) {
    if (a->collective != Collective::AllReduce) continue;
    for (const int nRanks : {2, 3, 4, 5, 6, 7, 8, 12, 13}) {
      for (const bool inPlace : {false, true}) {
        for (const std::vector<int>& nodes : nodeShapes(nRanks)) {
          Shape shape{.collective = Collective::AllReduce, .nRanks = nRanks, .inPlace = inPlace};
          shape.bytes = 1 << 20;
          shape.nodeOf = nodes;
          if (!a->supports(shape)) continue;
          if (a->name == "hierarchical") shape.parts = {LevelPart::Circulant, LevelPart::Direct};
          const Passes all[] = {{}, {.fused = false}, {.nChannels = 3}, {.reproducible = true}, {.direct = true}};
          for (const Passes& passes : all) {
            const std::string why = complaint(*a, shape, passes);
            failed[a->name] = failed[a->name] || !why.empty();
            INFO(describe(*a, shape) << ", " << describe(passes));
            if (a->sumsOnce) CHECK(why == "");
          }
        }
      }
    }
  }
  for (const auto& [name, fails] : failed) {
    CAPTURE(name);
    CHECK(fails != findAlgorithm(Collective::AllReduce, name)->sumsOnce);
  }
}

TEST_CASE("groups that exchange whole values do not sum once") {
  const Algorithm& a = *findAlgorithm(Collective::AllReduce, "hierarchical");
  Shape shape{.collective = Collective::AllReduce, .nRanks = 6};
  shape.bytes = 1 << 20;
  shape.nodeOf = {0, 0, 1, 1, 2, 2};
  for (const LevelPart inside : {LevelPart::Direct, LevelPart::Circulant, LevelPart::Tree}) {
    shape.parts = {LevelPart::Doubling, inside};
    CHECK(complaint(a, shape, {}) != "");
    for (const LevelPart across : {LevelPart::Direct, LevelPart::Circulant}) {
      shape.parts = {across, inside};
      CHECK(complaint(a, shape, {}) == "");
    }
  }
}

TEST_CASE("only sums are rounded, once each") {
  Shape shape{.collective = Collective::AllReduce, .nRanks = 5};
  shape.bytes = 1 << 20;
  for (const Schedule& schedule : tutti::buildAll(*findAlgorithm(Collective::AllReduce, "ring"), shape)) {
    int rounding = 0;
    const Schedule rounded = roundResults(schedule);
    for (const Op& op : rounded.lanes[0].ops) {
      if (op.rounds) CHECK(op.reduces());
      rounding += op.rounds ? 1 : 0;
    }
    CHECK(rounding == 1);
  }
  shape.collective = Collective::AllGather;
  for (const Schedule& schedule : tutti::buildAll(*findAlgorithm(Collective::AllGather, "ring"), shape)) {
    CHECK(roundResults(schedule) == schedule);
  }
}
