// oracle: every algorithm of a collective beside the planner's choice; see README.md.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "perf/common/small_program.hpp"

using namespace tutti;
using namespace tutti::perf;

namespace {

struct Options {
  std::vector<size_t> sizes = {8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20};
  std::vector<std::string> collectives = {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce"};
  int rounds = 7;
  bool registered = false;
  bool all = false;
};

/// One collective of one size, as perf/compare counts it: the larger of what goes in and comes out.
struct Cell {
  Collective collective = Collective::AllReduce;
  size_t count = 0;  // elements as the call takes them
  float* in = nullptr;
  float* out = nullptr;

  tuttiResult_t run(tuttiComm_t c) const {
    switch (collective) {
      case Collective::AllReduce: return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, c, nullptr);
      case Collective::AllGather: return tuttiAllGather(in, out, count, tuttiFloat32, c, nullptr);
      case Collective::ReduceScatter: return tuttiReduceScatter(in, out, count, tuttiFloat32, tuttiSum, c, nullptr);
      case Collective::AllToAll: return tuttiAllToAll(in, out, count, tuttiFloat32, c, nullptr);
      case Collective::Broadcast: return tuttiBroadcast(in, out, count, tuttiFloat32, 0, c, nullptr);
      case Collective::Reduce: return tuttiReduce(in, out, count, tuttiFloat32, tuttiSum, 0, c, nullptr);
      default: return tuttiBarrier(c, nullptr);
    }
  }
};

/// One way to do a cell: the planner's (no algorithm), or a forced one.
struct Way {
  std::string algorithm;
  const char* protocol = nullptr;
  tuttiComm_t comm = nullptr;
  std::vector<double> timesUs;
  double medianUs() {
    std::sort(timesUs.begin(), timesUs.end());
    return timesUs.empty() ? HUGE_VAL : timesUs[timesUs.size() / 2];
  }
};

// A communicator reads the variables when it is made.
bool open(const Ranks& w, const Cell& cell, Way* way) {
  const std::string algo = std::string(collectiveKey(cell.collective)) + ":" + way->algorithm;
  way->algorithm.empty() ? unsetenv("TUTTI_ALGO") : setenv("TUTTI_ALGO", algo.c_str(), 1);
  way->protocol == nullptr ? unsetenv("TUTTI_PROTO") : setenv("TUTTI_PROTO", way->protocol, 1);
  check(tuttiCommSplit(w.comm, 0, w.rank, &way->comm, nullptr), "CommSplit");
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_PROTO");
  if (cell.run(way->comm) == tuttiSuccess) return true;  // an algorithm that does not fit fails alike on all ranks
  tuttiCommDestroy(way->comm);
  way->comm = nullptr;
  return false;
}

double timeBlock(const Ranks& w, const Cell& cell, const Way& way, int calls) {
  check(tuttiBarrier(w.comm, nullptr), "Barrier");
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) check(cell.run(way.comm), "call");
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  return overRanks(w, took.count() / calls, tuttiMax);
}

/// Blocks of some 3 ms.
int callsPerBlock(double us) { return static_cast<int>(std::clamp(20000 / std::max(us, 0.01), 2.0, 50000.0)); }

void measure(const Ranks& w, const Cell& cell, std::vector<Way>* ways, int rounds) {
  std::vector<int> calls;
  for (const Way& way : *ways) {
    (void)timeBlock(w, cell, way, 2);
    calls.push_back(callsPerBlock(timeBlock(w, cell, way, 5)));
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways->size(); ++i) {
      (*ways)[i].timesUs.push_back(timeBlock(w, cell, (*ways)[i], calls[i]));
    }
  }
}

struct Verdict {
  double bestUs = HUGE_VAL;
  double chosenUs = 0;
  double loss() const { return chosenUs / bestUs - 1; }
};

Verdict judge(const Ranks& w, const Cell& cell, size_t bytes, const Options& options) {
  std::vector<Way> ways;
  const auto add = [&](const std::string& algorithm, const char* protocol) {
    Way way{algorithm, protocol, nullptr, {}};
    if (open(w, cell, &way)) ways.push_back(way);
  };
  add("", nullptr);
  for (const Algorithm* a : algorithms()) {
    if (a->collective != cell.collective) continue;
    add(std::string(a->name), "slots");
    if (bytes >= 4096) add(std::string(a->name), "direct");
  }
  measure(w, cell, &ways, options.rounds);
  const auto call = static_cast<tuttiCall_t>(cell.collective == Collective::AllReduce       ? tuttiCallAllReduce
                                             : cell.collective == Collective::AllGather     ? tuttiCallAllGather
                                             : cell.collective == Collective::ReduceScatter ? tuttiCallReduceScatter
                                             : cell.collective == Collective::AllToAll      ? tuttiCallAllToAll
                                             : cell.collective == Collective::Broadcast     ? tuttiCallBroadcast
                                                                                            : tuttiCallReduce);
  const auto estimateOf = [&](const Way& way) {
    tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
    check(tuttiCommEstimate(way.comm, call, cell.count, tuttiFloat32, tuttiSum, 0, &estimate), "CommEstimate");
    return estimate;
  };
  const tuttiEstimate_t estimate = estimateOf(ways[0]);
  Verdict verdict;
  verdict.chosenUs = ways[0].medianUs();
  size_t best = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].medianUs() < verdict.bestUs) {
      verdict.bestUs = ways[i].medianUs();
      best = i;
    }
  }
  const std::string chosen = std::string(estimate.algorithm) + "/" + estimate.protocol;
  for (Way& way : ways) {  // the same plan, forced: what differs is noise
    if (way.protocol != nullptr && way.algorithm + "/" + way.protocol == chosen) {
      verdict.chosenUs = std::min(verdict.chosenUs, way.medianUs());
    }
  }
  const std::string bestName = best == 0 ? "the choice" : ways[best].algorithm + "/" + ways[best].protocol;
  if (w.rank == 0) {
    std::printf("%-14s %9zu %2d  %-28s %10.2f (expected %10.2f)   %-28s %10.2f  %+5.0f %%\n",
                collectiveKey(cell.collective), bytes, w.nRanks, chosen.c_str(), verdict.chosenUs, estimate.timeUs,
                bestName.c_str(), verdict.bestUs, 100 * verdict.loss());
    for (size_t i = 1; options.all && i < ways.size(); ++i) {
      std::printf("      %-20s %-8s %10.2f (expected %10.2f)\n", ways[i].algorithm.c_str(), ways[i].protocol,
                  ways[i].medianUs(), estimateOf(ways[i]).timeUs);
    }
    std::fflush(stdout);
  }
  for (Way& way : ways) check(tuttiCommDestroy(way.comm), "CommDestroy");
  return verdict;
}

size_t parseSize(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return static_cast<size_t>(value * (*end == 'K' ? 1 << 10 : *end == 'M' ? 1 << 20 : *end == 'G' ? 1 << 30 : 1));
}

std::vector<std::string> splitCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

Options parse(int argc, char** argv) {
  Options o;
  for (int c = 0; (c = getopt(argc, argv, "b:c:r:Ra")) != -1;) {
    if (c == 'b') {
      o.sizes.clear();
      for (const std::string& size : splitCommas(optarg)) o.sizes.push_back(parseSize(size));
    } else if (c == 'c') {
      o.collectives = splitCommas(optarg);
    } else if (c == 'r') {
      o.rounds = std::max(1, std::atoi(optarg));
    } else if (c == 'R') {
      o.registered = true;
    } else if (c == 'a') {
      o.all = true;
    } else {
      std::exit(1);
    }
  }
  return o;
}

float* allocate(size_t bytes, bool registered) {
  void* memory = nullptr;
  if (registered) {
    check(tuttiMemAlloc(&memory, bytes), "MemAlloc");
  } else {
    memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    std::memset(memory, 0, bytes);
  }
  return static_cast<float*>(memory);
}

void pin(int rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(rank) % static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const Ranks w = joinRanks();
  pin(w.rank);
  const size_t most = *std::max_element(options.sizes.begin(), options.sizes.end());
  float* in = allocate(most + 4096, options.registered);
  float* out = allocate(most + 4096, options.registered);
  int cells = 0, good = 0;
  double logLoss = 0, worst = 0;
  for (const std::string& name : options.collectives) {
    for (const size_t bytes : options.sizes) {
      Cell cell{Collective::AllReduce, 0, in, out};
      for (const Algorithm* a : algorithms()) {
        if (name == collectiveKey(a->collective)) cell.collective = a->collective;
      }
      const bool blocks = cell.collective == Collective::AllGather || cell.collective == Collective::ReduceScatter ||
                          cell.collective == Collective::AllToAll;
      cell.count = std::max<size_t>(1, bytes / sizeof(float) / (blocks ? static_cast<size_t>(w.nRanks) : 1));
      const Verdict v = judge(w, cell, bytes, options);
      ++cells;
      good += v.loss() <= 0.1 ? 1 : 0;
      logLoss += std::log(1 + v.loss());
      worst = std::max(worst, v.loss());
    }
  }
  if (w.rank == 0) {
    std::printf("%d ranks: within 10 %% of the best in %d of %d cells (%.0f %%); mean loss %.0f %%, worst %.0f %%\n",
                w.nRanks, good, cells, 100.0 * good / cells, 100 * (std::exp(logLoss / cells) - 1), 100 * worst);
  }
  check(tuttiCommDestroy(w.comm), "CommDestroy");
  return 0;
}
