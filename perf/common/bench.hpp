// One thread's part of a run: its ranks, their buffers, and how a row is measured and checked.
//
// Every thread of every process makes the same calls in the same order and gets the same Row.
#pragma once

#include <vector>

#include "perf/common/buffers.hpp"
#include "perf/common/collective.hpp"
#include "perf/common/options.hpp"
#include "perf/common/table.hpp"
#include "perf/common/world.hpp"

namespace tutti::perf {

class Bench {
 public:
  /// Joins the communicators.  Throws Failure or Stopped, as all of this does.
  Bench(World& world, const Options& options, const Collective& collective, int thread);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// All ranks of the run, for the header.
  std::vector<RankLine> describeRanks();
  /// Ranks that the smallest measured communicator has (all have the same unless they are split).
  int smallestGroup() const { return smallestGroup_; }
  Row measureRow(const TypeInfo& type, const OpInfo& op, int root, size_t bytes);

 private:
  struct Rank {
    int worldRank = 0;
    Geometry geometry;  // rank and nRanks of the measured communicator
    tuttiComm_t comm = nullptr;
    tuttiStream_t stream = nullptr;
    Buffer send, recv;
    std::vector<std::byte> tile;  // what this rank contributes to a reduction
    tuttiRedOp_t op = tuttiSum;
    bool ownOp = false;  // made by us, to be destroyed
    Layout layout;
    Call call;
  };

  void allocate();
  size_t largestBytes(const Rank& rank, bool send) const;
  void chooseOperator(const TypeInfo& type, const OpInfo& op);
  void dropOperators();
  void place(int root, size_t bytes, bool inPlace);
  void fill(uint32_t seed);
  void fillInput(const Rank& rank, uint32_t seed);
  size_t verify(const Rank& rank, uint32_t seed) const;
  size_t verifyBlock(const Rank& rank, const Block& block, uint32_t seed) const;
  Measurement measure(int root, size_t bytes, bool inPlace);
  double timeCalls(std::vector<double>* callTimesUs);
  void timeSingly(std::vector<double>* callTimesUs);
  double timeFreshCalls(std::vector<double>* callTimesUs);
  void complete();
  std::optional<Expectation> expectation() const;
  void average(Measurement* m, size_t wrong);
  void issue(int times);
  void finish();
  void meetBeforeTiming();
  void meetWithNewData();
  void warmUp();

  World& world_;
  const Options& options_;
  const Collective& collective_;
  const int thread_;
  int smallestGroup_ = 1;
  std::vector<Rank> ranks_;
  TypeInfo type_{};
  OpInfo op_{};
  uint32_t seed_ = 1;  // of the next check; advances alike on all ranks
};

}  // namespace tutti::perf
