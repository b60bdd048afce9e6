// oracle: every algorithm of a collective beside the planner's choice; see README.md.
#include <getopt.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "perf/oracle/cable.hpp"
#include "perf/ways/halves.hpp"
#include "perf/ways/ways.hpp"
#include "src/base/text.hpp"
#include "tools/version.hpp"

using namespace tutti;
using namespace tutti::perf;

namespace {

struct Options {
  std::vector<size_t> sizes = {8, 1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20};
  std::vector<std::string> collectives = {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce"};
  std::vector<std::string> algorithms;  // empty: all
  int rounds = 7;
  bool registered = false;
  bool all = false;
  int learn = 0;  // calls that teach the planner before it is judged; 0: it learns nothing
  Data data = Data::Reused;
  std::string interface;  // between hosts, whose bytes are counted; empty: none are
};

struct Verdict {
  double bestUs = HUGE_VAL;
  double chosenUs = 0;
  double price = 0;  // of learning: what its calls took beyond those of a communicator that learns nothing, as a part
  ByHalves byHalves;
  double loss() const { return chosenUs / bestUs - 1; }
};

/// Losses of cells, as parts of the best time.
class Losses {
 public:
  void add(double loss) {
    ++cells_;
    good_ += loss <= 0.1 ? 1 : 0;
    logSum_ += std::log(1 + loss);
    worst_ = std::max(worst_, loss);
  }
  int cells() const { return cells_; }
  int good() const { return good_; }  // within 10 %
  double meanPercent() const { return 100 * (std::exp(logSum_ / cells_) - 1); }
  double worstPercent() const { return 100 * worst_; }

 private:
  int cells_ = 0, good_ = 0;
  double logSum_ = 0, worst_ = 0;
};

std::string nameOf(const std::string& algorithm, const char* protocol, bool joined) {
  return algorithm + "/" + protocol + (joined ? "/joined" : "");
}
std::string nameOf(const Way& way) { return nameOf(way.algorithm, way.protocol, way.joined); }

/// Bytes sent by the busiest host, and by all hosts together.
std::string cableText(const Ranks& w, const Cell& cell, const Way& way, const Options& options) {
  if (options.interface.empty()) return "";
  const CableBytes bytes = cableBytes(w, cell, way, options.interface);
  double counted = 0, planned = 0;
  for (size_t host = 0; host < bytes.counted.size(); ++host)
    counted += bytes.counted[host], planned += bytes.planned[host];
  char text[160];
  std::snprintf(text, sizeof text, "  cable %12.0f of at most %12.0f; all %12.0f, planned %12.0f, %+.1f %%",
                *std::ranges::max_element(bytes.counted), *std::ranges::max_element(bytes.planned), counted, planned,
                planned > 0 ? 100 * (counted / planned - 1) : 0);
  return text;
}

/// What the planner's own choice loses, and what learning a better one cost.
std::string learnedText(const std::vector<Way>& ways, const Verdict& verdict, const Options& options) {
  if (options.learn == 0) return "";
  char text[96];
  std::snprintf(text, sizeof text, "  planned %+5.0f %%, learning %+4.0f %%",
                100 * (ways[1].medianUs() / verdict.bestUs - 1), 100 * verdict.price);
  return text;
}

Verdict judge(const Ranks& w, const Cell& cell, size_t bytes, const Options& options) {
  constexpr const char* kProtocols[] = {"slots", "direct"};
  std::vector<Way> ways = openWays(w, cell, std::span(kProtocols).first(bytes >= 4096 ? 2 : 1), options.algorithms);
  double learningUs = 0, plainUs = 0;
  if (options.learn > 0) {
    std::vector<Way> plain = {openAnew(w, cell, false, options.learn, &plainUs)};
    closeWays(&plain);
    ways.insert(ways.begin(), openAnew(w, cell, true, options.learn, &learningUs));
  }
  measureWays(w, cell, &ways, options.rounds, /*blockUs=*/20000);
  const tuttiEstimate_t estimate = estimateOf(cell, ways[0]);
  Verdict verdict;
  verdict.chosenUs = ways[0].medianUs();
  if (options.learn > 0) verdict.price = learningUs / plainUs - 1;
  verdict.byHalves = judgeByHalves(ways, 0);
  size_t best = 0;
  for (size_t i = 0; i < ways.size(); ++i) {
    if (ways[i].medianUs() < verdict.bestUs) {
      verdict.bestUs = ways[i].medianUs();
      best = i;
    }
  }
  const std::string chosen = nameOf(estimate.algorithm, estimate.protocol, estimate.joined != 0);
  for (const Way& way : ways) {  // the same plan, forced: what differs is noise
    if (way.protocol != nullptr && nameOf(way) == chosen) {
      verdict.chosenUs = std::min(verdict.chosenUs, way.medianUs());
    }
  }
  const std::string bestName = ways[best].algorithm.empty() ? "the choice" : nameOf(ways[best]);
  const std::string cable = cableText(w, cell, ways[0], options);
  if (w.rank == 0) {
    std::printf("%-14s %9zu %2d  %-28s %10.2f (expected %10.2f)   %-28s %10.2f  %+5.0f %%%s%s\n",
                collectiveKey(cell.collective), bytes, w.nRanks, chosen.c_str(), verdict.chosenUs, estimate.timeUs,
                bestName.c_str(), verdict.bestUs, 100 * verdict.loss(), learnedText(ways, verdict, options).c_str(),
                cable.c_str());
  }
  for (size_t i = 1; options.all && i < ways.size(); ++i) {
    if (ways[i].algorithm.empty()) continue;
    const std::string own = cableText(w, cell, ways[i], options);
    if (w.rank != 0) continue;
    std::printf("      %-28s %10.2f (expected %10.2f)%s\n", nameOf(ways[i]).c_str(), ways[i].medianUs(),
                estimateOf(cell, ways[i]).timeUs, own.c_str());
  }
  std::fflush(stdout);
  closeWays(&ways);
  return verdict;
}

Options parse(int argc, char** argv) {
  Options o;
  constexpr option kLong[] = {{"fresh", no_argument, nullptr, 'f'}, {"learn", required_argument, nullptr, 'l'}, {}};
  for (int c = 0; (c = getopt_long(argc, argv, "b:c:w:r:Rai:l:", kLong, nullptr)) != -1;) {
    if (c == 'f') {
      o.data = Data::Fresh;
    } else if (c == 'b') {
      o.sizes.clear();
      for (const std::string& size : split(optarg, ',')) {
        o.sizes.emplace_back();
        if (!parseBytes(size, &o.sizes.back())) std::exit(1);
      }
    } else if (c == 'c') {
      o.collectives = split(optarg, ',');
    } else if (c == 'w') {
      o.algorithms = split(optarg, ',');
    } else if (c == 'r') {
      o.rounds = std::max(1, std::atoi(optarg));
    } else if (c == 'R') {
      o.registered = true;
    } else if (c == 'a') {
      o.all = true;
    } else if (c == 'l') {
      o.learn = std::max(0, std::atoi(optarg));
    } else if (c == 'i') {
      o.interface = optarg;
    } else {
      std::exit(1);
    }
  }
  return o;
}

void pin(int rank) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(rank) % static_cast<size_t>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  (void)sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const Options options = parse(argc, argv);
  const Ranks w = joinRanks();
  if (options.interface.empty()) pin(w.rank);  // ranks of several hosts that share a machine are not bound either
  const size_t most = *std::max_element(options.sizes.begin(), options.sizes.end());
  float* in = allocateFloats(most + 4096, options.registered);
  float* out = allocateFloats(most + 4096, options.registered);
  Losses losses, lossesByHalves, noise;
  double price = 0;
  for (const std::string& name : options.collectives) {
    for (const size_t bytes : options.sizes) {
      Collective collective{};
      if (!parseCollective(name, &collective)) return 1;
      const Cell cell = cellOf(collective, bytes, w.nRanks, in, out, options.data);
      const Verdict v = judge(w, cell, bytes, options);
      losses.add(v.loss());
      lossesByHalves.add(v.byHalves.loss);
      noise.add(v.byHalves.noise);
      price += v.price;
    }
  }
  if (w.rank == 0) {
    std::printf(
        "%d ranks: within 10 %% of the best in %d of %d cells (%.0f %%); mean loss %.0f %%, worst %.0f %%; "
        "%s\n",
        w.nRanks, losses.good(), losses.cells(), 100.0 * losses.good() / losses.cells(), losses.meanPercent(),
        losses.worstPercent(), options.data == Data::Fresh ? "new data in every call" : "the same data in all calls");
    if (options.rounds > 1)
      std::printf(
          "one half of the rounds picks the best, the other half times it: the choice is within 10 %% of it in "
          "%d cells, mean loss %.0f %%; what is picked is within 10 %% of the best of the other half in %d, mean %.0f "
          "%%\n",
          lossesByHalves.good(), lossesByHalves.meanPercent(), noise.good(), noise.meanPercent());
    if (options.learn > 0)
      std::printf("the first %d calls: %+.0f %% beside those of communicators that learn nothing\n", options.learn,
                  100 * price / losses.cells());
  }
  check(tuttiCommDestroy(w.comm), "CommDestroy");
  return 0;
}
