// Pipeline schedules: that they can run, what they cost, what is wrong with broken ones, and that they compute.
#include <catch2/catch.hpp>

#include <cstring>
#include <map>

#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/pp.h"

using namespace tutti::test;

namespace {

struct Named {
  const char* name;
  int chunks;
};
const std::vector<Named> kSchedules = {{"gpipe", 1},         {"1f1b", 1},  {"interleaved", 2}, {"interleaved", 3},
                                       {"breadth-first", 2}, {"zb-h1", 1}, {"zb-h2", 1},       {"zbv", 1}};

tuttiSchedule_t make(const char* name, int p, int chunks, int m) {
  tuttiSchedule_t s = nullptr;
  REQUIRE(tuttiScheduleCreate(&s, name, p, chunks, m) == tuttiSuccess);
  return s;
}

tuttiSimulation_t simulated(const char* name, int p, int chunks, int m) {
  tuttiSchedule_t s = make(name, p, chunks, m);
  tuttiSimulation_t costs = TUTTI_SIMULATION_INITIALIZER;
  costs.forward = costs.backwardInput = costs.backwardWeight = 1.0 / chunks;
  REQUIRE(tuttiScheduleSimulate(s, &costs) == tuttiSuccess);
  REQUIRE(tuttiScheduleDestroy(s) == tuttiSuccess);
  return costs;
}

}  // namespace

TEST_CASE("named schedules can run with any number of micro-batches, and survive CSV") {
  for (const Named& named : kSchedules) {
    for (const int p : {1, 2, 3, 4}) {
      for (const int m : {1, 2, 3, 4, 7, 8}) {
        tuttiSchedule_t s = make(named.name, p, named.chunks, m), again = nullptr;
        const char *complaint = nullptr, *csv = nullptr, *csvAgain = nullptr;
        CAPTURE(named.name, named.chunks, p, m);
        REQUIRE(tuttiScheduleValidate(s, 1000, &complaint) == tuttiSuccess);
        CHECK(std::string(complaint) == "");
        REQUIRE(tuttiScheduleCsv(s, &csv) == tuttiSuccess);
        REQUIRE(tuttiScheduleParse(&again, csv) == tuttiSuccess);
        REQUIRE(tuttiScheduleCsv(again, &csvAgain) == tuttiSuccess);
        CHECK(std::string(csv) == csvAgain);
        CHECK(tuttiScheduleDestroy(s) == tuttiSuccess);
        CHECK(tuttiScheduleDestroy(again) == tuttiSuccess);
      }
    }
  }
}

TEST_CASE("ranks without an action survive CSV") {
  tuttiSchedule_t s = nullptr;
  REQUIRE(tuttiScheduleParse(&s, "\n0F0,0B0\n,\n\n,,") == tuttiSuccess);
  const char* csv = nullptr;
  REQUIRE(tuttiScheduleCsv(s, &csv) == tuttiSuccess);
  CHECK(std::string(csv) == "0F0,0B0\n,\n,\n");
  int nRanks = 0, stages = 0, microBatches = 0;
  REQUIRE(tuttiScheduleShape(s, &nRanks, &stages, &microBatches) == tuttiSuccess);
  CHECK(nRanks == 3);
  CHECK(tuttiScheduleDestroy(s) == tuttiSuccess);
}

TEST_CASE("bubbles and memory are the formulas'") {
  const int p = 4, m = 16;
  for (const char* name : {"gpipe", "1f1b"}) {
    const tuttiSimulation_t s = simulated(name, p, 1, m);
    CHECK(s.bubbleOverTotal == Approx(3.0 / 19));  // (p-1) / (m+p-1)
    CHECK(s.bubbleOverIdeal == Approx(3.0 / 16));  // (p-1) / m
    CHECK(s.peakInFlight == (name[0] == 'g' ? m : p));
  }
  CHECK(simulated("interleaved", p, 2, m).bubbleOverIdeal == Approx(3.0 / 16 / 2));
  CHECK(simulated("interleaved", p, 4, m).bubbleOverIdeal == Approx(3.0 / 16 / 4));
  CHECK(simulated("gpipe", 4, 1, 4).bubbleOverTotal == Approx(1 - 4.0 / 7));  // four micro-batches: 57 % busy
  const tuttiSimulation_t h1 = simulated("zb-h1", p, 1, m), h2 = simulated("zb-h2", p, 1, m),
                          v = simulated("zbv", p, 1, m);
  CHECK(h1.total - h1.ideal == Approx(3));  // (p-1)(F + I - W)
  CHECK(h1.peakInFlight <= p);
  CHECK(h2.total - h2.ideal < h1.total - h1.ideal + 1e-9);
  CHECK(h2.peakInFlight <= 2 * p - 1);
  CHECK(v.bubbleOverIdeal == Approx(3.0 / 16 / 6));  // (p-1)F of half stages
  CHECK(v.peakInFlight <= 2 * p);                    // of half stages
}

namespace {

/// `times` steps that follow each other on every rank: a schedule of as many times the micro-batches.
tuttiSchedule_t repeated(tuttiSchedule_t once, int times) {
  int nRanks = 0, microBatches = 0;
  REQUIRE(tuttiScheduleShape(once, &nRanks, nullptr, &microBatches) == tuttiSuccess);
  const char* kinds[] = {"F", "B", "I", "W", "SF", "RF", "SB", "RB"};
  std::string csv;
  for (int rank = 0; rank < nRanks; ++rank) {
    const tuttiAction_t* actions = nullptr;
    int count = 0;
    REQUIRE(tuttiScheduleActions(once, rank, &actions, &count) == tuttiSuccess);
    for (int step = 0; step < times; ++step) {
      for (int a = 0; a < count; ++a) {
        csv += std::to_string(actions[a].stage) + kinds[actions[a].kind];
        csv += std::to_string(actions[a].micro + step * microBatches) + ",";
      }
    }
    csv += "\n";
  }
  tuttiSchedule_t all = nullptr;
  REQUIRE(tuttiScheduleParse(&all, csv.c_str()) == tuttiSuccess);
  return all;
}

tuttiSimulation_t simulatedWith(tuttiSchedule_t s, double forward, double input, double weight) {
  tuttiSimulation_t costs = TUTTI_SIMULATION_INITIALIZER;
  costs.forward = forward, costs.backwardInput = input, costs.backwardWeight = weight;
  REQUIRE(tuttiScheduleSimulate(s, &costs) == tuttiSuccess);
  return costs;
}

}  // namespace

TEST_CASE(
    "zb-h2 and zbv have no bubble in steps that follow each other; one step alone waits for the last rank to begin") {
  for (const int p : {2, 3, 4, 8}) {
    for (const int m : {2 * p - 1, 2 * p, 4 * p + 1}) {
      for (const Named& named : {Named{"zb-h2", 1}, {"zbv", 1}}) {
        tuttiSchedule_t s = make(named.name, p, 1, m), three = repeated(s, 3);
        CAPTURE(named.name, p, m);
        const tuttiSimulation_t one = simulatedWith(s, 1, 1, 1), steps = simulatedWith(three, 1, 1, 1);
        CHECK(one.span == one.ideal);
        CHECK(one.total == one.ideal + p - 1);
        CHECK(steps.total == steps.ideal + p - 1);  // of all three: what fills the pipeline
        CHECK(one.peakInFlight == (named.name[2] == 'v' ? 2 * p : 2 * p - 1));
        CHECK(tuttiScheduleDestroy(s) == tuttiSuccess);
        CHECK(tuttiScheduleDestroy(three) == tuttiSuccess);
      }
    }
  }
  struct Row {
    double forward, input, weight;
  };
  for (const Row& c : {Row{1, 1.2, 0.8}, {1, 1, 0.7}, {2, 3, 2}}) {
    const int p = 4, m = 16;
    tuttiSchedule_t h1 = make("zb-h1", p, 1, m), h2 = make("zb-h2", p, 1, m);
    const tuttiSimulation_t less = simulatedWith(h1, c.forward, c.input, c.weight);
    const tuttiSimulation_t more = simulatedWith(h2, c.forward, c.input, c.weight);
    CHECK(less.span - less.ideal == Approx((p - 1) * (c.forward + c.input - c.weight)));
    CHECK(more.span - more.ideal == Approx((p - 1) * (c.forward + c.input - 2 * c.weight)));
    CHECK(more.total - more.ideal >= (p - 1) * c.forward - 1e-9);  // alone none can do better
    CHECK(tuttiScheduleDestroy(h1) == tuttiSuccess);
    CHECK(tuttiScheduleDestroy(h2) == tuttiSuccess);
  }
}

TEST_CASE("a step among others takes no longer than its span") {
  for (const Named& named : kSchedules) {
    for (const int m : {1, 3, 4, 7, 8}) {
      tuttiSchedule_t s = make(named.name, 4, named.chunks, m), three = repeated(s, 3);
      CAPTURE(named.name, named.chunks, m);
      const tuttiSimulation_t one = simulatedWith(s, 1, 1.3, 0.8), steps = simulatedWith(three, 1, 1.3, 0.8);
      CHECK((one.ideal <= one.span + 1e-9 && one.span <= one.total + 1e-9));
      CHECK(steps.total <= one.total + 2 * one.span + 1e-9);
      CHECK(tuttiScheduleDestroy(s) == tuttiSuccess);
      CHECK(tuttiScheduleDestroy(three) == tuttiSuccess);
    }
  }
}

namespace {

/// Groups of p and what is left, all forward and then all backward.
std::string allForward(int p, int chunks, int m) {
  std::string csv;
  for (int rank = 0; rank < p; ++rank) {
    for (const char* kind : {"F", "B"}) {
      for (int first = 0; first < m; first += p) {
        for (int c = 0; c < chunks; ++c) {
          const int stage = (*kind == 'F' ? c : chunks - 1 - c) * p + rank;
          for (int micro = first; micro < std::min(first + p, m); ++micro) {
            csv += std::to_string(stage) + kind + std::to_string(micro) + ",";
          }
        }
      }
    }
    csv += "\n";
  }
  return csv;
}

int inFlightOf(tuttiSchedule_t s, int rank) {
  int most = 0;
  REQUIRE(tuttiScheduleInFlight(s, rank, &most) == tuttiSuccess);
  return most;
}

/// "" or what is wrong with an interleaved schedule.
std::string wrongWith(int p, int chunks, int m) {
  tuttiSchedule_t s = make("interleaved", p, chunks, m), forward = nullptr;
  const char* complaint = nullptr;
  REQUIRE(tuttiScheduleValidate(s, p, &complaint) == tuttiSuccess);  // with room for p messages
  if (*complaint != '\0') return complaint;
  REQUIRE(tuttiScheduleParse(&forward, allForward(p, chunks, m).c_str()) == tuttiSuccess);
  const tuttiSimulation_t here = simulatedWith(s, 1, 1, 1), other = simulatedWith(forward, 1, 1, 1);
  const double shortest = m < p ? 3.0 * (p * chunks + m - 1) : 3.0 * (m * chunks + p - 1);
  const int whole = std::max(m / p, 1), longest = (m + whole - 1) / whole;
  std::string wrong;
  if (here.total > other.total + 1e-9) wrong = "it takes longer than all forward, then all backward";
  if (here.total < shortest - 1e-9) wrong = "it takes less than it can";
  if ((chunks - 1) * (longest - p) <= p - 1 && here.total != shortest) wrong = "ranks wait";
  const double most = m < 2 * p ? 0.19 : m < 3 * p ? 0.11 : 0.04;  // as docs/parallel/pp.md says
  if (here.total - shortest > most * here.ideal) wrong = "ranks wait for long";
  for (int rank = 0; rank < p; ++rank) {
    if (inFlightOf(s, rank) > std::min(m * chunks, chunks * p + p - 1 - rank)) wrong = "too much is in flight";
    if (rank > 0 && inFlightOf(s, rank) > inFlightOf(s, rank - 1)) wrong = "a rank holds more than the one before";
  }
  if (inFlightOf(s, 0) != here.peakInFlight) wrong = "peakInFlight is not the first rank's";
  REQUIRE(tuttiScheduleDestroy(s) == tuttiSuccess);
  REQUIRE(tuttiScheduleDestroy(forward) == tuttiSuccess);
  return wrong;
}

}  // namespace

TEST_CASE("interleaved schedules of any number of micro-batches run in bounded memory, as fast as all forward") {
  for (int p = 1; p <= 8; ++p) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int m = 1; m <= 33; ++m) {
        CAPTURE(p, chunks, m);
        REQUIRE(wrongWith(p, chunks, m) == "");
      }
    }
  }
  const tuttiSimulation_t two = simulated("interleaved", 3, 2, 16), four = simulated("interleaved", 3, 4, 16);
  CHECK(two.bubbleOverIdeal == Approx(2.0 / 16 / 2));
  CHECK(four.bubbleOverIdeal == Approx(2.0 / 16 / 4));
  CHECK((two.peakInFlight <= 8 && four.peakInFlight <= 14));  // all forward: 32 and 64
}

TEST_CASE("broken schedules are told what is wrong with them") {
  struct Row {
    const char *csv, *says;
  };
  for (const Row& row : {Row{"0F0,0B0\n1F0", "deadlock"},
                         {"0F0,0SF0,0RB0,0B0\n1RF0,1B0,1F0,1SB0", "its forward comes later"},
                         {"0F0,0RB0,0B0\n1RF0,1F0,1B0,1SB0", "deadlock"},
                         {"0F0,0SF0,0RB0,0B0\n1F0,1B0,1SB0", "has not been received"},
                         {"0F0,0F0,0B0", "comes twice"},
                         {"0F0,0B0\n0F1,0B1", "is on rank 0 and on 1"},
                         {"0F0,0I0", "no BackwardWeight"},
                         {"0F0,0X0", "there is no action X"},
                         {"0F0,0B", "not an action"},
                         {"0F0 ,0B0;", "what comes behind"},
                         {"", "at least one rank"},
                         {"1F0,1B0", "no rank has stage 0"},
                         {"0F0,0SF0,0SF0,0RB0,0B0\n1RF0,1F0,1B0,1SB0", "comes twice"},
                         {"0F0,0B0,0F65535", "stage 0 has no forward of micro-batch 1"}}) {
    tuttiSchedule_t s = nullptr;
    CAPTURE(row.csv);
    CHECK(tuttiScheduleParse(&s, row.csv) == tuttiInvalidArgument);
    CHECK(std::string(tuttiParallelGetLastError()).find(row.says) != std::string::npos);
    CAPTURE(tuttiParallelGetLastError());
    CHECK(s == nullptr);
  }
  // Both ranks send before they receive: it takes room for a message.
  tuttiSchedule_t s = nullptr;
  const char* crossed = "0F0,0SF0,0F1,0SF1,0RB0,0B0,0RB1,0B1\n1RF0,1F0,1B0,1SB0,1RF1,1F1,1B1,1SB1\n";
  REQUIRE(tuttiScheduleParse(&s, crossed) == tuttiSuccess);
  const char* complaint = nullptr;
  REQUIRE(tuttiScheduleValidate(s, 1, &complaint) == tuttiSuccess);
  CHECK(std::string(complaint) == "");
  REQUIRE(tuttiScheduleValidate(s, 0, &complaint) == tuttiSuccess);
  CHECK(std::string(complaint).find("deadlock") == 0);
  CHECK(tuttiScheduleDestroy(s) == tuttiSuccess);
  CHECK(tuttiScheduleCreate(&s, "1f1b", 2, 2, 2) == tuttiInvalidArgument);
  CHECK(tuttiScheduleCreate(&s, "2f2b", 2, 1, 2) == tuttiInvalidArgument);
  CHECK(tuttiScheduleCreate(&s, "interleaved", 1 << 16, 1 << 16, 1) == tuttiInvalidArgument);
  CHECK(std::string(tuttiParallelGetLastError()).find("more than a schedule may have") != std::string::npos);
}

TEST_CASE("simulations refuse costs that are none, and ranks that are not there") {
  tuttiSchedule_t s = make("1f1b", 2, 1, 2);
  tuttiSimulation_t costs = TUTTI_SIMULATION_INITIALIZER;
  costs.backwardInput = -1;
  CHECK(tuttiScheduleSimulate(s, &costs) == tuttiInvalidArgument);
  CHECK(std::string(tuttiParallelGetLastError()).find("a cost of -1") != std::string::npos);
  costs.forward = costs.backwardInput = costs.backwardWeight = 0;
  CHECK(tuttiScheduleSimulate(s, &costs) == tuttiInvalidArgument);
  int most = 0;
  CHECK(tuttiScheduleInFlight(s, 2, &most) == tuttiInvalidArgument);
  CHECK(tuttiScheduleDestroy(s) == tuttiSuccess);
}

TEST_CASE("stages are balanced by cost") {
  const double costs[] = {1, 1, 1, 5, 1, 1, 4};
  int64_t cuts[4];
  REQUIRE(tuttiBalanceStages(costs, 7, 3, cuts) == tuttiSuccess);
  CHECK(std::vector<int64_t>(cuts, cuts + 4) == std::vector<int64_t>{0, 3, 4, 7});
  double thirty[30];
  std::fill(thirty, thirty + 30, 1.0);
  int64_t four[5];
  REQUIRE(tuttiBalanceStages(thirty, 30, 4, four) == tuttiSuccess);
  for (int s = 0; s < 4; ++s) CHECK((four[s + 1] - four[s] == 7 || four[s + 1] - four[s] == 8));
}

namespace {

/// Stage s: out = in * (s + 2) + weight; the last stage's loss is the sum of out, times the micro-batch + 1.
struct Toy {
  int stages = 0;
  std::vector<double> gradients;   // of each stage's weight
  std::vector<double> firstInput;  // gradient of stage 0's input per micro-batch
  std::map<int, double> later;     // weights' gradients that BackwardWeight adds
};
constexpr int64_t kToyElements = 5;

tuttiResult_t toyForward(void* context, int stage, int micro, const void* in, void* out) {
  auto* toy = static_cast<Toy*>(context);
  double factor = 1;
  for (int before = 0; before < stage; ++before) factor *= before + 2;
  for (int64_t i = 0; i < kToyElements; ++i) {
    const double x = in == nullptr ? micro + static_cast<double>(i) : static_cast<const double*>(in)[i];
    if (stage + 1 < toy->stages) static_cast<double*>(out)[i] = x * (stage + 2);
    if (stage > 0 && x != (micro + static_cast<double>(i)) * factor) return tuttiInternalError;
  }
  return tuttiSuccess;
}
tuttiResult_t toyBackward(void* context, int stage, int micro, const void* dout, void* din, int weights) {
  auto* toy = static_cast<Toy*>(context);
  double sum = 0;
  for (int64_t i = 0; i < kToyElements; ++i) {
    const double d = dout == nullptr ? micro + 1 : static_cast<const double*>(dout)[i];
    sum += d;
    if (din != nullptr) static_cast<double*>(din)[i] = d * (stage + 2);
  }
  if (weights) {
    toy->gradients[static_cast<size_t>(stage)] += sum;
  } else {
    toy->later[stage * 1000 + micro] = sum;
  }
  return tuttiSuccess;
}
tuttiResult_t toyWeight(void* context, int stage, int micro) {
  auto* toy = static_cast<Toy*>(context);
  toy->gradients[static_cast<size_t>(stage)] += toy->later.at(stage * 1000 + micro);
  toy->later.erase(stage * 1000 + micro);
  return tuttiSuccess;
}

}  // namespace

TEST_CASE("pipelines compute what a chain of stages does, and move the formula's bytes") {
  for (const Named& named : kSchedules) {
    for (const int p : {1, 2, 3, 4}) {
      if (p == 1 ? named.chunks == 3 : p == 4 && named.name[0] != 'z') continue;
      const int m = p == 3 ? 5 : 4;
      CAPTURE(named.name, named.chunks, p, m);
      CHECK(onRanks(p, [&](const Rank& r) -> std::string {
              tuttiSchedule_t schedule = nullptr;
              tuttiPipeline_t pipeline = nullptr;
              LAYER_TRY(tuttiScheduleCreate(&schedule, named.name, p, named.chunks, m));
              Toy toy;
              LAYER_TRY(tuttiScheduleShape(schedule, nullptr, &toy.stages, nullptr));
              toy.gradients.resize(static_cast<size_t>(toy.stages));
              tuttiStages_t stages = TUTTI_STAGES_INITIALIZER;
              stages.context = &toy;
              stages.forward = toyForward;
              stages.backward = toyBackward;
              stages.backwardWeight = toyWeight;
              LAYER_TRY(tuttiPipelineCreate(&pipeline, r.comm, schedule, kToyElements, tuttiFloat64, &stages));
              for (int s = 0; s < 2; ++s) LAYER_TRY(tuttiPipelineStep(pipeline));
              for (int stage = 0; stage < toy.stages; ++stage) {
                int rank = -1;
                LAYER_TRY(tuttiScheduleRankOf(schedule, stage, &rank));
                double expected = 0;  // of both steps
                for (int micro = 0; micro < m; ++micro) expected += 2 * kToyElements * (micro + 1);
                for (int behind = stage + 1; behind < toy.stages; ++behind) expected *= behind + 2;
                RANK_CHECK(toy.gradients[static_cast<size_t>(stage)] == (rank == r.rank ? expected : 0));
              }
              RANK_CHECK(toy.later.empty());
              tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER, expected = TUTTI_TRAFFIC_INITIALIZER;
              LAYER_TRY(tuttiPipelineTraffic(pipeline, &counted, &expected));
              for (int c = 0; c < tuttiNumCalls; ++c) {
                expected.calls[c] *= 2;
                expected.bytes[c] *= 2;
              }
              expected.wireBytes *= 2;
              RANK_CHECK(sameTraffic(counted, expected));
              LAYER_TRY(tuttiPipelineDestroy(pipeline));
              LAYER_TRY(tuttiScheduleDestroy(schedule));
              return "";
            }) == "");
    }
  }
}

TEST_CASE("a stage that fails ends the step on all ranks") {
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          tuttiSchedule_t schedule = nullptr;
          tuttiPipeline_t pipeline = nullptr;
          LAYER_TRY(tuttiScheduleCreate(&schedule, "1f1b", 2, 1, 3));
          tuttiStages_t stages = TUTTI_STAGES_INITIALIZER;
          stages.forward = [](void*, int stage, int micro, const void*, void*) {
            return stage == 1 && micro == 1 ? tuttiInvalidUsage : tuttiSuccess;
          };
          stages.backward = [](void*, int, int, const void*, void*, int) { return tuttiSuccess; };
          LAYER_TRY(tuttiPipelineCreate(&pipeline, r.comm, schedule, 2, tuttiFloat32, &stages));
          const tuttiResult_t result = tuttiPipelineStep(pipeline);
          RANK_CHECK(result == (r.rank == 1 ? tuttiInvalidUsage : tuttiRemoteError));
          RANK_CHECK(r.rank == 0 || std::strstr(tuttiParallelGetLastError(), "1F1"));
          LAYER_TRY(tuttiPipelineDestroy(pipeline));
          LAYER_TRY(tuttiScheduleDestroy(schedule));
          return "";
        }) == "");
}
