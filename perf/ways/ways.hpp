// Every way to run a collective of one size, timed in turns: for programs that compare algorithms.
#pragma once

#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "perf/common/small_program.hpp"

namespace tutti::perf {

/// What calls send: the same in all calls, which then follow each other back to back, or new data, which every rank
/// writes before each call, outside of the time, as programs do that compute what they send.
enum class Data { Reused, Fresh };

/// One collective of one size, on floats.
struct Cell {
  tutti::Collective collective = tutti::Collective::AllReduce;
  size_t count = 0;  // elements as the call takes them
  float* in = nullptr;
  float* out = nullptr;
  Data data = Data::Reused;

  tuttiResult_t run(tuttiComm_t comm) const;
  tuttiCall_t call() const;  // for tuttiCommEstimate()
};

/// What is as large as `bytes` when it goes in or comes out, whichever is more, as perf/compare counts it.
Cell cellOf(tutti::Collective collective, size_t bytes, int nRanks, float* in, float* out, Data data);

/// Writes `bytes` at `out` anew: no element is as it was.
void renew(float* out, size_t bytes);

/// One way to run a cell: the planner's (no algorithm), or a forced one.
struct Way {
  std::string algorithm;
  const char* protocol = nullptr;
  bool joined = false;  // several chunks of a step in one message
  bool learns = false;  // the planner's, with TUTTI_LEARN as it is set; others learn nothing
  tuttiComm_t comm = nullptr;
  std::vector<double> timesUs = {};
  double medianUs() const { return quantileUs(0.5); }
  double quantileUs(double part) const;
};

/// The planner's way, and every algorithm of the collective with each of the protocols, also with several chunks in a
/// message where it can; those that do not fit are left out, and those that `only` does not name, unless it is empty. A
/// communicator for each, to be closed with closeWays(). Collective.
std::vector<Way> openWays(const Ranks& w, const Cell& cell, std::span<const char* const> protocols,
                          const std::vector<std::string>& only = {});
/// One more, the planner's, and the microseconds of its first `calls` calls.  Collective.
///   learns  with what those calls teach it
Way openAnew(const Ranks& w, const Cell& cell, bool learns, int calls, double* us);
void closeWays(std::vector<Way>* ways);

/// `rounds` blocks of each way, in turns; a block takes about blockUs.  A round in which the cores moved is measured
/// again, at most twice, so that all its blocks are of one placement.  Collective, with the same times on all ranks.
void measureWays(const Ranks& w, const Cell& cell, std::vector<Way>* ways, int rounds, double blockUs);

/// How much longer calls of `way` take than those of `other`, which were measured in turns: of the ratios of their
/// blocks, round by round, the geometric mean of the middle half.  Both met with what a round was like: a core far from
/// the other, another program.  A way that is fast in some rounds alone does not win by those.  NaN: nothing was
/// measured.
double ratioOf(const Way& way, const Way& other);

/// What the planner expects of a way.
tuttiEstimate_t estimateOf(const Cell& cell, const Way& way);

/// Page-aligned and touched: registered, or as a program's own.
float* allocateFloats(size_t bytes, bool registered);

}  // namespace tutti::perf
