#include "perf/ways/ways.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "perf/ways/nearness.hpp"

namespace tutti::perf {
namespace {

// A communicator reads the variables when it is made, and refuses what does not fit.
bool open(const Ranks& w, const Cell& cell, Way* way) {
  const std::string algo = std::string(collectiveKey(cell.collective)) + ":" + way->algorithm;
  way->algorithm.empty() ? unsetenv("TUTTI_ALGO") : setenv("TUTTI_ALGO", algo.c_str(), 1);
  setenv("TUTTI_ALGO_STRICT", "1", 1);
  way->protocol == nullptr ? unsetenv("TUTTI_PROTO") : setenv("TUTTI_PROTO", way->protocol, 1);
  way->algorithm.empty() ? unsetenv("TUTTI_JOIN") : setenv("TUTTI_JOIN", way->joined ? "1" : "0", 1);
  const char* const set = std::getenv("TUTTI_LEARN");
  const std::string learn = set != nullptr ? set : "";
  if (!way->learns) setenv("TUTTI_LEARN", "0", 1);
  check(tuttiCommSplit(w.comm, 0, w.rank, &way->comm, nullptr), "CommSplit");
  set != nullptr ? setenv("TUTTI_LEARN", learn.c_str(), 1) : unsetenv("TUTTI_LEARN");
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_PROTO");
  unsetenv("TUTTI_JOIN");
  unsetenv("TUTTI_ALGO_STRICT");
  if (cell.run(way->comm) == tuttiSuccess) return true;  // an algorithm that does not fit fails alike on all ranks
  tuttiCommDestroy(way->comm);
  way->comm = nullptr;
  return false;
}

using Clock = std::chrono::steady_clock;
double usSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

/// Writes what the rank sends.
void renewInput(const Ranks& w, const Cell& cell) {
  const bool scatters = cell.collective == Collective::ReduceScatter || cell.collective == Collective::AllToAll ||
                        cell.collective == Collective::Scatter;
  const bool fromRoot = cell.collective == Collective::Broadcast || cell.collective == Collective::Scatter;
  if (fromRoot && w.rank != 0) return;
  const size_t blocks = scatters ? static_cast<size_t>(w.nRanks) : 1;
  renew(cell.collective == Collective::Broadcast ? cell.out : cell.in, blocks * cell.count * sizeof(float));
}

double timeFresh(const Ranks& w, const Cell& cell, const Way& way, int calls) {
  double us = 0;
  for (int i = 0; i < calls; ++i) {
    renewInput(w, cell);
    check(tuttiBarrier(w.comm, nullptr), "Barrier");
    const Clock::time_point begin = Clock::now();
    check(cell.run(way.comm), "call");
    us += usSince(begin);
  }
  return us;
}

double timeReused(const Ranks& w, const Cell& cell, const Way& way, int calls) {
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < calls; ++i) check(cell.run(way.comm), "call");
  return usSince(begin);
}

double timeBlock(const Ranks& w, const Cell& cell, const Way& way, int calls) {
  const auto time = cell.data == Data::Fresh ? timeFresh : timeReused;
  return overRanks(w, time(w, cell, way, calls) / calls, tuttiMax);
}

// A block begins with ranks that stand still and ends with the last of them, which is no part of a call: it has to be
// small beside the calls.
int callsOfBlock(double callUs, double blockUs) {
  constexpr double kFew = 4, kEnough = 12, kLongUs = 5e3;
  return static_cast<int>(std::clamp(blockUs / std::max(callUs, 0.01), callUs < kLongUs ? kEnough : kFew, 50000.0));
}

/// A block of each way, with the cores as near all the time, unless every try fails.
std::vector<double> timeRound(const Ranks& w, const Cell& cell, const std::vector<Way>& ways,
                              const std::vector<int>& calls, Nearness* cores) {
  constexpr int kTries = 3;
  std::vector<double> times;
  for (int i = 0; i < kTries; ++i) {
    times.clear();
    const double us = cores->us();
    bool moved = false;
    for (size_t at = 0; at < ways.size() && (!moved || i + 1 == kTries); ++at) {
      times.push_back(timeBlock(w, cell, ways[at], calls[at]));
      moved = !Nearness::alike(cores->us(), us);
    }
    if (!moved) break;
  }
  return times;
}

}  // namespace

tuttiResult_t Cell::run(tuttiComm_t c) const {
  switch (collective) {
    case Collective::AllReduce: return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, c, nullptr);
    case Collective::AllGather: return tuttiAllGather(in, out, count, tuttiFloat32, c, nullptr);
    case Collective::ReduceScatter: return tuttiReduceScatter(in, out, count, tuttiFloat32, tuttiSum, c, nullptr);
    case Collective::AllToAll: return tuttiAllToAll(in, out, count, tuttiFloat32, c, nullptr);
    // In place, as programs call it: else the root copies all of it to itself, too.
    case Collective::Broadcast: return tuttiBroadcast(out, out, count, tuttiFloat32, 0, c, nullptr);
    case Collective::Reduce: return tuttiReduce(in, out, count, tuttiFloat32, tuttiSum, 0, c, nullptr);
    case Collective::Gather: return tuttiGather(in, out, count, tuttiFloat32, 0, c, nullptr);
    case Collective::Scatter: return tuttiScatter(in, out, count, tuttiFloat32, 0, c, nullptr);
    default: return tuttiBarrier(c, nullptr);
  }
}

tuttiCall_t Cell::call() const {
  switch (collective) {
    case Collective::AllReduce: return tuttiCallAllReduce;
    case Collective::AllGather: return tuttiCallAllGather;
    case Collective::ReduceScatter: return tuttiCallReduceScatter;
    case Collective::AllToAll: return tuttiCallAllToAll;
    case Collective::Broadcast: return tuttiCallBroadcast;
    case Collective::Reduce: return tuttiCallReduce;
    case Collective::Gather: return tuttiCallGather;
    case Collective::Scatter: return tuttiCallScatter;
    default: return tuttiCallBarrier;
  }
}

Cell cellOf(Collective collective, size_t bytes, int nRanks, float* in, float* out, Data data) {
  const auto blocks = static_cast<size_t>(blocksOfCall(collective, nRanks));
  return {collective, std::max<size_t>(1, bytes / sizeof(float) / blocks), in, out, data};
}

void renew(float* out, size_t bytes) {
  static float turn = 0;
  turn = turn < 1000 ? turn + 1 : 0;
  std::fill_n(out, bytes / sizeof(float), turn);
}

double Way::quantileUs(double part) const {
  std::vector<double> sorted = timesUs;
  std::sort(sorted.begin(), sorted.end());
  return sorted.empty() ? HUGE_VAL : sorted[static_cast<size_t>(part * static_cast<double>(sorted.size()))];
}

double ratioOf(const Way& way, const Way& other) {
  std::vector<double> logs;
  for (size_t i = 0; i < std::min(way.timesUs.size(), other.timesUs.size()); ++i)
    logs.push_back(std::log(way.timesUs[i] / other.timesUs[i]));
  std::ranges::sort(logs);
  const std::span<const double> middle = std::span<const double>(logs).subspan(logs.size() / 4);
  const size_t kept = logs.size() - 2 * (logs.size() / 4);
  double sum = 0;
  for (const double log : middle.first(kept)) sum += log;
  return std::exp(sum / static_cast<double>(kept));
}

std::vector<Way> openWays(const Ranks& w, const Cell& cell, std::span<const char* const> protocols,
                          const std::vector<std::string>& only) {
  std::vector<Way> ways;
  const auto add = [&](const std::string& algorithm, const char* protocol, bool joined = false) {
    Way way{algorithm, protocol, joined};
    if (open(w, cell, &way)) ways.push_back(way);
  };
  add("", nullptr);
  for (const Algorithm* a : algorithms()) {
    if (a->collective != cell.collective) continue;
    if (!only.empty() && std::ranges::find(only, a->name) == only.end()) continue;
    for (const char* protocol : protocols) {
      add(std::string(a->name), protocol);
      if (a->joins && std::string_view(protocol) != "direct") add(std::string(a->name), protocol, true);
    }
  }
  return ways;
}

Way openAnew(const Ranks& w, const Cell& cell, bool learns, int calls, double* us) {
  Way way{.learns = learns};
  open(w, cell, &way);
  *us = calls * timeBlock(w, cell, way, calls);
  return way;
}

void closeWays(std::vector<Way>* ways) {
  for (Way& way : *ways) check(tuttiCommDestroy(way.comm), "CommDestroy");
  ways->clear();
}

void measureWays(const Ranks& w, const Cell& cell, std::vector<Way>* ways, int rounds, double blockUs) {
  std::vector<int> calls;
  for (const Way& way : *ways) {
    (void)timeBlock(w, cell, way, 2);
    calls.push_back(callsOfBlock(timeBlock(w, cell, way, 5), blockUs));
  }
  Nearness cores(w);
  for (int round = 0; round < rounds; ++round) {
    const std::vector<double> times = timeRound(w, cell, *ways, calls, &cores);
    for (size_t i = 0; i < ways->size(); ++i) (*ways)[i].timesUs.push_back(times[i]);
  }
}

tuttiEstimate_t estimateOf(const Cell& cell, const Way& way) {
  tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
  check(tuttiCommEstimate(way.comm, cell.call(), cell.count, tuttiFloat32, tuttiSum, 0, &estimate), "CommEstimate");
  return estimate;
}

float* allocateFloats(size_t bytes, bool registered) {
  void* memory = nullptr;
  if (registered) {
    check(tuttiMemAlloc(&memory, bytes), "MemAlloc");
  } else {
    memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    std::memset(memory, 0, bytes);
  }
  return static_cast<float*>(memory);
}

}  // namespace tutti::perf
