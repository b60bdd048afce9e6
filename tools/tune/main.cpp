// tutti-tune: runs every way of every collective among the ranks that it is started with, and keeps the fastest of each
// size beside this machine's calibration, where the planner looks first.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "perf/common/progress.hpp"
#include "perf/ways/ways.hpp"
#include "src/base/text.hpp"
#include "src/comm/handle.hpp"
#include "src/cost/kept_text.hpp"
#include "tools/sentence.hpp"
#include "tools/tune/sends.hpp"
#include "tools/version.hpp"
#include "transport/table.hpp"

namespace {

using namespace tutti;
using namespace tutti::perf;

struct Options {
  std::string sizes = "8,64,512,2K,8K,32K,64K,128K,256K,512K,1M,2M,4M,8M,16M";
  std::string collectives = "allreduce,allgather,reducescatter,alltoall,broadcast,reduce,gather,scatter";
  int rounds = 8;
  double blockMs = 4;
  bool sends = true;
  bool fresh = true;
  bool dryRun = false;
};

/// Another way than the planner's own has to be better by more than what measurements differ by.
constexpr double kWorthIt = 0.95;

/// What else runs makes calls seem slower, never faster: the faster quarter of the blocks tells more than their median.
double usOf(const Way& way) { return way.quantileUs(0.25); }

std::string nameOf(const Cell& cell, const Way& way) {
  const tuttiEstimate_t estimate = estimateOf(cell, way);
  return cat(estimate.algorithm, "/", estimate.protocol, estimate.joined != 0 ? "/joined" : "");
}

/// Drops those whose best block took more than `times` as long as the best of all; the planner's own stays.
void keepPromising(std::vector<Way>* ways, double times) {
  double best = HUGE_VAL;
  for (const Way& way : *ways) best = std::min(best, way.quantileUs(0));
  std::vector<Way> kept, dropped;
  for (size_t i = 0; i < ways->size(); ++i) {
    ((i == 0 || (*ways)[i].quantileUs(0) < times * best) ? kept : dropped).push_back((*ways)[i]);
  }
  closeWays(&dropped);
  *ways = std::move(kept);
}

/// The fastest way of a cell.  Collective; the same on all ranks.
TunedWay fastest(const Ranks& w, const Cell& cell, size_t shapeBytes, const Options& options,
                 perf::Progress* progress) {
  constexpr const char* kProtocols[] = {"inline", "slots", "direct"};
  const size_t first = shapeBytes <= 4096 ? 0 : 1, last = shapeBytes >= 512 ? 3 : 2;
  std::vector<Way> ways = openWays(w, cell, std::span(kProtocols).subspan(first, last - first));
  // One block may have met with anything, so it takes a few until a way that is not far behind is out of the running.
  for (const double times : {2.5, 1.4}) {
    measureWays(w, cell, &ways, 2, options.blockMs * 1e3);
    keepPromising(&ways, times);
  }
  measureWays(w, cell, &ways, options.rounds, options.blockMs * 1e3);
  const std::string chosen = nameOf(cell, ways[0]);
  const Way* best = &ways[0];
  double ratio = kWorthIt;
  for (const Way& way : ways) {
    const double than = ratioOf(way, ways[0]);
    if (than >= ratio || nameOf(cell, way) == chosen) continue;  // the same, forced: what differs is noise
    best = &way;
    ratio = than;
  }
  const double bestUs = usOf(*best), chosenUs = usOf(ways[0]);
  const tuttiEstimate_t estimate = estimateOf(cell, *best);
  TunedWay way{cell.collective, shapeBytes, estimate.algorithm, Protocol::Slots, bestUs, estimate.joined != 0};
  if (!parseProtocol(estimate.protocol, &way.protocol)) std::exit(3);
  if (w.rank == 0) {
    progress->clear();
    std::printf("%-14s %10s  %-26s %10.2f us   (before: %s, %.2f us)\n", collectiveKey(cell.collective),
                formatBytes(shapeBytes).c_str(), nameOf(cell, *best).c_str(), bestUs, chosen.c_str(), chosenUs);
    std::fflush(stdout);
  }
  closeWays(&ways);
  return way;
}

/// What holds for these ranks, with all its sizes of all collectives; rank 0 keeps it.
int tune(const Ranks& w, const Options& options, const std::vector<size_t>& sizes,
         const std::vector<Collective>& collectives) {
  auto comm = use(w.comm);
  if (!comm.ok()) return 3;
  const std::optional<TunedRanks> ranks = (*comm)->planner().tunedRanks();
  if (!ranks) {
    if (w.rank == 0) {
      std::fprintf(stderr,
                   "tutti-tune: nothing to keep: hosts have different numbers of ranks, or ranks compute on CUDA "
                   "devices, whose plans go by published figures\n");
    }
    return 2;
  }
  const size_t most = *std::ranges::max_element(sizes);
  float* in = allocateFloats(most + 4096, false);
  float* out = allocateFloats(most + 4096, false);
  Tuning::Set set{*ranks, {}};
  perf::Progress progress(w.rank == 0 ? collectives.size() * sizes.size() : 0, "cells");
  size_t done = 0;
  for (const Collective collective : collectives) {
    for (const size_t bytes : sizes) {
      progress.show(done++, cat(collectiveKey(collective), " of ", formatBytes(bytes)));
      const Cell cell = cellOf(collective, bytes, w.nRanks, in, out, options.fresh ? Data::Fresh : Data::Reused);
      set.ways.push_back(fastest(w, cell, cell.count * sizeof(float), options, &progress));
    }
  }
  const std::optional<LinkProfile> intra = findLink(ranks->intra);
  if (intra && intra->lends() && ranks->nHosts == 1 && options.sends) {
    set.sends = tuneSends(w, sizes, in, out, options.fresh, options.rounds, options.blockMs * 1e3);
  }
  if (w.rank != 0 || options.dryRun) return 0;
  const MachineIdentity machine = thisMachine();
  const std::string path = tuningPath(machine);
  if (path.empty()) {
    std::fprintf(stderr, "tutti-tune: TUTTI_CALIBRATION=off, or no folder HOME: nowhere to keep it\n");
    return 2;
  }
  Tuning tuning = tuningIn(machine, TuningFile::Tuned);
  tuning.put(std::move(set));
  Status status = writeKeptFile(path, toText(tuning));
  if (status.ok()) status = forgetLearned(machine, *ranks);
  if (!status.ok()) {
    std::fprintf(stderr, "tutti-tune: %s\n", sentence(status).c_str());
    return 1;
  }
  std::printf("# kept in %s; measured with %s\n", path.c_str(),
              options.fresh ? "new data in every call" : "the same data in all calls");
  return 0;
}

bool parseLists(const Options& options, std::vector<size_t>* sizes, std::vector<Collective>* collectives) {
  for (const std::string& size : split(options.sizes, ',')) {
    sizes->emplace_back();
    if (!parseBytes(size, &sizes->back())) return false;
  }
  for (const std::string& name : split(options.collectives, ',')) {
    collectives->emplace_back();
    if (!parseCollective(name, &collectives->back())) return false;
  }
  return !sizes->empty();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures which way of each collective is the fastest among these ranks, and keeps it for the planner");
  app.set_version_flag("--version", programVersion("tutti-tune"), "print the version");
  Options options;
  app.add_option("--sizes", options.sizes, "bytes of the larger of what goes in and comes out")->capture_default_str();
  app.add_option("--collectives", options.collectives, "")->capture_default_str();
  app.add_option("--rounds", options.rounds, "blocks of each way")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--block-ms", options.blockMs, "time of a block")->check(CLI::Range(0.1, 1e4))->capture_default_str();
  app.add_flag("!--no-sends", options.sends, "leave out messages between two ranks");
  bool fresh = false, reused = false;
  app.add_flag("--fresh", fresh, "new data, which every rank writes before each call, outside of the time (default)");
  app.add_flag("--reused", reused, "the same data in calls back to back");
  app.add_flag("--dry-run", options.dryRun, "print, keep nothing");
  CLI11_PARSE(app, argc, argv);
  options.fresh = fresh || !reused;
  std::vector<size_t> sizes;
  std::vector<Collective> collectives;
  if (!parseLists(options, &sizes, &collectives)) {
    std::fprintf(stderr, "tutti-tune: --sizes are as 8,64K,1M; --collectives as allreduce,reducescatter\n");
    return 1;
  }
  const Ranks w = joinRanks();
  const int status = tune(w, options, sizes, collectives);
  check(tuttiCommDestroy(w.comm), "CommDestroy");
  return status;
}
