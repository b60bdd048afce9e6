// Training that goes on when ranks come, go, slow down or die.
#include <catch2/catch.hpp>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/support/processes.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/ft.h"
#include "tutti/parallel/zero.h"

using namespace tutti::test;

namespace {

/// AdamW on a few vectors under ZeRO, whose gradients depend on values, micro-batch and step.
struct Training {
  static constexpr int kMicroBatches = 6;
  static constexpr int64_t kSizes[] = {11, 40, 6};
  static constexpr const char* kNames[] = {"a", "b", "c"};

  std::vector<std::vector<float>> first;
  std::vector<tuttiParameter_t> list;
  tuttiZero_t zero = nullptr;
  int begin = 0, count = 0;  // this rank's micro-batches

  std::string start(tuttiComm_t comm, int stage, bool overlap = true) {
    int rank = 0, n = 1;
    if (comm != nullptr) {
      RANK_TRY(tuttiCommUserRank(comm, &rank));
      RANK_TRY(tuttiCommCount(comm, &n));
    }
    count = kMicroBatches / n;
    begin = rank * count;
    for (size_t p = 0; p < 3; ++p) first.push_back(numbers<float>(static_cast<size_t>(kSizes[p]), p + 1));
    for (size_t p = 0; p < 3; ++p) list.push_back({kNames[p], vector(first[p]), 0});
    tuttiZeroConfig_t c = TUTTI_ZERO_CONFIG_INITIALIZER;
    c.stage = stage;
    c.numerics = tuttiNumericsLayoutInvariant;
    c.microBatches = count;
    c.overlap = overlap;
    c.clip = 0.5;
    LAYER_TRY(tuttiZeroCreate(&zero, comm, list.data(), nullptr, 3, &c));
    return "";
  }
  std::string step(int number) {
    for (int m = begin; m < begin + count; ++m) {
      LAYER_TRY(tuttiZeroBegin(zero));
      LAYER_TRY(tuttiZeroUnshard(zero, 0));
      for (size_t p = 3; p-- > 0;) {
        tuttiTensor_t value, gradient;
        LAYER_TRY(tuttiZeroValue(zero, p, &value));
        LAYER_TRY(tuttiZeroGradient(zero, p, &gradient));
        const auto noise = numbers<float>(static_cast<size_t>(kSizes[p]), static_cast<uint64_t>(number * 100 + m) + p);
        for (size_t i = 0; i < noise.size(); ++i) {
          static_cast<float*>(gradient.data)[i] += noise[i] + 0.3f * static_cast<const float*>(value.data)[i];
        }
      }
      for (size_t p = 3; p-- > 0;) LAYER_TRY(tuttiZeroGradReady(zero, p));
      LAYER_TRY(tuttiZeroReshard(zero, 0, 0));
    }
    LAYER_TRY(tuttiZeroStep(zero, nullptr));
    return "";
  }
  /// What this rank holds: values and both states.
  std::vector<tuttiPiece_t> pieces() {
    static const char* const names[] = {"a", "b", "c", "a.m", "b.m", "c.m", "a.v", "b.v", "c.v"};
    std::vector<tuttiPiece_t> all;
    for (int state = -1; state < 2; ++state) {
      for (size_t p = 0; p < 3; ++p) {
        tuttiTensor_t view, values;
        int64_t from = 0, to = 0;
        tuttiZeroOwned(zero, p, &from, &to, &values);
        view = values;
        if (state >= 0) tuttiZeroOwnedState(zero, p, state, &view);
        tuttiPiece_t piece =
            tuttiPieceOf(names[static_cast<size_t>(state + 1) * 3 + p], tuttiFloat32, 1, kSizes[p], view.data);
        piece.begin = from;
        piece.end = to;
        all.push_back(piece);
      }
    }
    return all;
  }
  /// All values, on every rank of comm.
  std::string gather(tuttiComm_t comm, std::vector<float>* whole) {
    whole->assign(57, 0);
    std::vector<tuttiPiece_t> have = pieces(), want;
    int64_t at = 0;
    for (size_t p = 0; p < 3; ++p) {
      want.push_back(tuttiPieceOf(kNames[p], tuttiFloat32, 1, kSizes[p], whole->data() + at));
      at += kSizes[p];
    }
    LAYER_TRY(tuttiReshard(comm, have.data(), have.size(), want.data(), 3, nullptr));
    return "";
  }
};

std::vector<float> trainedOnOneRank(int steps) {
  Training one;
  std::vector<float> values;
  REQUIRE(one.start(nullptr, 1, false) == "");
  for (int s = 0; s < steps; ++s) REQUIRE(one.step(s) == "");
  REQUIRE(one.gather(nullptr, &values) == "");
  tuttiZeroDestroy(one.zero);
  return values;
}

/// From one handle's division to another's; `over` holds all ranks of both.
std::string moveStates(tuttiComm_t over, Training* from, Training* to, int steps) {
  std::vector<tuttiPiece_t> have, want;
  if (from != nullptr) have = from->pieces();
  if (to != nullptr) want = to->pieces();
  LAYER_TRY(tuttiReshard(over, have.data(), have.size(), want.data(), want.size(), nullptr));
  if (to != nullptr) LAYER_TRY(tuttiZeroLoaded(to->zero, steps));
  return "";
}

}  // namespace

TEST_CASE("pieces go from any division to any other; what nobody has is an error everywhere") {
  CHECK(onRanks(4, [](const Rank& r) -> std::string {
          std::vector<double> whole = numbers<double>(7 * 10, 5);
          // Columns over four ranks, to the flat halves of rows over three.
          const int64_t cuts[] = {0, 3, 5, 5, 10};
          std::vector<double> mine = columnsOf(whole, 10, cuts[r.rank], cuts[r.rank + 1]);
          tuttiPiece_t have = tuttiPieceOf("w", tuttiFloat64, 7, 10, mine.data());
          have.column0 = cuts[r.rank];
          have.column1 = cuts[r.rank + 1];
          have.end = static_cast<int64_t>(mine.size());
          std::vector<double> to(32, -1);
          tuttiPiece_t want = tuttiPieceOf("w", tuttiFloat64, 7, 10, to.data());
          want.row0 = 2;
          want.row1 = 6;
          want.begin = r.rank * 10;
          want.end = r.rank == 3 ? want.begin : want.begin + 12;
          uint64_t moved = 0;
          LAYER_TRY(tuttiReshard(r.comm, &have, 1, &want, 1, &moved));
          for (int64_t i = want.begin; i < want.end; ++i) {
            RANK_CHECK(to[static_cast<size_t>(i - want.begin)] == whole[static_cast<size_t>(20 + i)]);
          }
          RANK_CHECK((moved == 0) == (r.rank == 2));  // which has no columns
          if (r.rank == 1) have.column0 = 4, have.end = 7;
          RANK_CHECK(tuttiReshard(r.comm, &have, 1, &want, 1, &moved) == tuttiInvalidUsage);
          RANK_CHECK(std::strstr(tuttiParallelGetLastError(), "nobody has element"));
          want.row1 = 9;
          RANK_CHECK(tuttiReshard(r.comm, &have, 1, &want, 1, &moved) == tuttiInvalidArgument);
          return "";
        }) == "");
}

TEST_CASE("ranks leave and join between steps, and training has the bits of one rank that never stopped") {
  const std::vector<float> expected = trainedOnOneRank(6);
  tuttiUniqueId joinId;
  REQUIRE(tuttiGetUniqueId(&joinId) == tuttiSuccess);
  for (const int stage : {0, 1, 3}) {
    CAPTURE(stage);
    REQUIRE(tuttiGetUniqueId(&joinId) == tuttiSuccess);
    CHECK(onRanks(3, [&](const Rank& r) -> std::string {
            Training three, two, again;
            std::string why = three.start(r.comm, stage);
            for (int s = 0; s < 2 && why.empty(); ++s) why = three.step(s);
            if (!why.empty()) return why;
            tuttiComm_t fewer = nullptr, grown = nullptr;
            if (r.rank < 2) {
              const int leaver = 2;
              RANK_TRY(tuttiCommShrink(r.comm, &leaver, 1, &fewer, nullptr, TUTTI_SHRINK_DEFAULT));
              why = two.start(fewer, stage);
            }
            if (why.empty()) why = moveStates(r.comm, &three, r.rank < 2 ? &two : nullptr, 2);
            for (int s = 2; s < 4 && why.empty() && r.rank < 2; ++s) why = two.step(s);
            if (!why.empty()) return why;
            // A new rank joins: the thread that left plays it.
            RANK_TRY(tuttiCommGrow(fewer, 3, r.rank == 1 ? nullptr : &joinId, r.rank < 2 ? -1 : 2, &grown, nullptr));
            why = again.start(grown, stage);
            if (why.empty()) why = moveStates(grown, r.rank < 2 ? &two : nullptr, &again, 4);
            for (int s = 4; s < 6 && why.empty(); ++s) why = again.step(s);
            std::vector<float> values;
            if (why.empty()) why = again.gather(grown, &values);
            if (!why.empty()) return why;
            RANK_CHECK(values == expected);
            LAYER_TRY(tuttiZeroDestroy(again.zero));
            RANK_TRY(tuttiCommDestroy(grown));
            if (r.rank < 2) LAYER_TRY(tuttiZeroDestroy(two.zero));
            if (r.rank < 2) RANK_TRY(tuttiCommDestroy(fewer));
            LAYER_TRY(tuttiZeroDestroy(three.zero));
            return "";
          }) == "");
  }
}

TEST_CASE("a checkpoint of three ranks loads on two, and one that was changed does not") {
  const std::vector<float> expected = trainedOnOneRank(4);
  const TempFolder folder;
  const std::string path = folder.path();
  CHECK(onRanks(3, [&](const Rank& r) -> std::string {
          Training t;
          std::string why = t.start(r.comm, 1);
          for (int s = 0; s < 2 && why.empty(); ++s) {
            why = t.step(s);
            const auto pieces = t.pieces();
            if (why.empty()) LAYER_TRY(tuttiCheckpointSave(r.comm, path.c_str(), s + 1, pieces.data(), pieces.size()));
          }
          LAYER_TRY(tuttiZeroDestroy(t.zero));
          return why;
        }) == "");
  for (const bool changed : {false, true}) {
    CAPTURE(changed);
    if (changed) {
      std::fstream file(path + "/step-000000000002/rank-1", std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(-3, std::ios::end);
      file.put('x');
    }
    CHECK(onRanks(2, [&](const Rank& r) -> std::string {
            Training t;
            std::string why = t.start(r.comm, 1);
            if (!why.empty()) return why;
            const auto pieces = t.pieces();
            int64_t step = -1;
            const tuttiResult_t result = tuttiCheckpointLoad(r.comm, path.c_str(), &step, pieces.data(), pieces.size());
            if (changed) {
              RANK_CHECK(result == tuttiSystemError);
              step = 7;
              RANK_CHECK(tuttiCheckpointLoad(r.comm, path.c_str(), &step, pieces.data(), 1) == tuttiSystemError);
            } else {
              RANK_CHECK(result == tuttiSuccess && step == 2);
              LAYER_TRY(tuttiZeroLoaded(t.zero, step));
              for (int s = 2; s < 4 && why.empty(); ++s) why = t.step(s);
              std::vector<float> values;
              if (why.empty()) why = t.gather(r.comm, &values);
              if (!why.empty()) return why;
              RANK_CHECK(apart(values, expected) < 1e-3);
              RANK_CHECK(values == expected);
            }
            LAYER_TRY(tuttiZeroDestroy(t.zero));
            return why;
          }) == "");
  }
}

namespace {

/// A rank of three of which rank 1 kills itself in step 3; the others go on from mirrors.
std::string survive(int rank, const tuttiUniqueId& id, const std::vector<float>& expected) {
  tuttiComm_t comm = nullptr, left = nullptr;
  RANK_TRY(tuttiCommInitRank(&comm, 3, id, rank));
  Training t, fewer;
  tuttiMirror_t mirror = nullptr;
  std::string why = t.start(comm, 2);
  if (!why.empty()) return why;
  const auto pieces = t.pieces();
  LAYER_TRY(tuttiMirrorCreate(&mirror, comm, pieces.data(), pieces.size()));
  for (int s = 0; s < 6 && why.empty(); ++s) {
    if (s == 3 && rank == 1) ::raise(SIGKILL);
    why = t.step(s);
    if (why.empty() && tuttiMirrorUpdate(mirror, s + 1) != tuttiSuccess) why = tuttiParallelGetLastError();
  }
  if (why.empty()) return "nobody noticed that rank 1 is dead";
  const int dead = 1;
  RANK_TRY(tuttiCommShrink(comm, &dead, 1, &left, nullptr, TUTTI_SHRINK_ABORT));
  why = fewer.start(left, 2);
  if (!why.empty()) return why;
  int64_t step = -1;
  const auto want = fewer.pieces();
  LAYER_TRY(tuttiMirrorRestore(mirror, left, want.data(), want.size(), &step));
  RANK_CHECK(step == 3);
  LAYER_TRY(tuttiZeroLoaded(fewer.zero, step));
  for (int s = 3; s < 6 && why.empty(); ++s) why = fewer.step(s);
  std::vector<float> values;
  if (why.empty()) why = fewer.gather(left, &values);
  if (!why.empty()) return why;
  RANK_CHECK(values == expected);
  LAYER_TRY(tuttiMirrorDestroy(mirror));
  LAYER_TRY(tuttiZeroDestroy(fewer.zero));
  RANK_TRY(tuttiCommDestroy(left));  // not before the other is done, too
  return "";
}

}  // namespace

TEST_CASE("a rank is killed, and its shard comes from its neighbour's memory") {
  const std::vector<float> expected = trainedOnOneRank(6);
  const std::vector<int> ends =
      onProcesses(3, [&](int rank, const UniqueIds& ids) { return survive(rank, ids[0], expected); });
  CHECK(unlessEnded(ends, [](int rank) { return rank == 1; }) == "");
}

TEST_CASE("replicas that differ are named, and a slow rank gets less to do") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          std::vector<float> a(10, 1), b(5, 2);
          std::vector<tuttiPiece_t> pieces = {tuttiPieceOf("a", tuttiFloat32, 2, 5, a.data()),
                                              tuttiPieceOf("b", tuttiFloat32, 1, 5, b.data())};
          LAYER_TRY(tuttiReplicaCheck(r.comm, pieces.data(), 2));
          if (r.rank == 1) b[3] = 2.5;
          RANK_CHECK(tuttiReplicaCheck(r.comm, pieces.data(), 2) == tuttiInvalidUsage);
          RANK_CHECK(std::strstr(tuttiParallelGetLastError(), "replicas of b differ: rank 1 is not like"));

          tuttiPace_t pace = nullptr;
          LAYER_TRY(tuttiPaceCreate(&pace, r.comm, nullptr));
          int64_t cuts[4];
          int slowest = -1;
          double ratio = 0;
          RANK_CHECK(tuttiPaceShares(pace, 10, cuts, &slowest, &ratio) == tuttiInvalidUsage);
          for (int s = 0; s < 5; ++s) LAYER_TRY(tuttiPaceStep(pace, s == 0 ? 900 : r.rank == 1 ? 40 : 20, 2));
          LAYER_TRY(tuttiPaceShares(pace, 10, cuts, &slowest, &ratio));
          RANK_CHECK(slowest == 1 && ratio == 2);
          RANK_CHECK(cuts[1] == 4 && cuts[2] - cuts[1] == 2 && cuts[3] == 10);

          // The shares applied: the average is still that of all micro-batches.
          std::vector<float> value(10, 0);
          const tuttiParameter_t parameter = {"w", vector(value), 0};
          tuttiDdp_t ddp = nullptr;
          tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
          c.microBatches = r.rank == 0 ? 4 : 3;
          LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, &parameter, 1, &c));
          for (int round = 0; round < 2; ++round) {
            const int64_t even[] = {0, 4, 7, 10};
            const int64_t* mine = round == 0 ? even : cuts;
            if (round == 1) LAYER_TRY(tuttiDdpShare(ddp, static_cast<int>(cuts[r.rank + 1] - cuts[r.rank])));
            for (int64_t m = mine[r.rank]; m < mine[r.rank + 1]; ++m) {
              tuttiTensor_t g;
              LAYER_TRY(tuttiDdpBegin(ddp));
              LAYER_TRY(tuttiDdpGradient(ddp, 0, &g));
              for (int i = 0; i < 10; ++i) static_cast<float*>(g.data)[i] += static_cast<float>(m);
              LAYER_TRY(tuttiDdpGradReady(ddp, 0));
            }
            LAYER_TRY(tuttiDdpFinish(ddp));
            tuttiTensor_t g;
            LAYER_TRY(tuttiDdpGradient(ddp, 0, &g));
            RANK_CHECK(std::abs(static_cast<float*>(g.data)[9] - 4.5f) < 1e-5f);
          }
          LAYER_TRY(tuttiDdpDestroy(ddp));
          LAYER_TRY(tuttiPaceDestroy(pace));
          return "";
        }) == "");
}
