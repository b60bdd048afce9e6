#include "tools/plan/search_view.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tutti/parallel/planner.h"

namespace {

struct Asked {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  std::vector<double> speeds;
  int batch = 0;
};

double numberOf(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double x = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(x) || x < 0) {
    throw std::invalid_argument(flag + " " + text + ": that is no number of 0 or more");
  }
  return x;
}

Asked parse(int argc, char** argv) {
  Asked a;
  double ranks = 1, perNode = 8, batch = 0;
  const std::map<std::string, double*> numbers = {{"--layers", &a.model.layers},
                                                  {"--hidden", &a.model.hidden},
                                                  {"--heads", &a.model.heads},
                                                  {"--kv-heads", &a.model.kvHeads},
                                                  {"--key-block", &a.model.keyBlock},
                                                  {"--visible", &a.model.visible},
                                                  {"--sequence", &a.model.sequence},
                                                  {"--vocabulary", &a.model.vocabulary},
                                                  {"--experts", &a.model.experts},
                                                  {"--choices", &a.model.choices},
                                                  {"--expert-width", &a.model.expertWidth},
                                                  {"--batch", &batch},
                                                  {"--ranks", &ranks},
                                                  {"--per-node", &perNode},
                                                  {"--flops", &a.machine.flops},
                                                  {"--memory", &a.machine.memory},
                                                  {"--node-bandwidth", &a.machine.nodeBandwidth},
                                                  {"--node-latency-us", &a.machine.nodeLatencyUs},
                                                  {"--bandwidth", &a.machine.bandwidth},
                                                  {"--latency-us", &a.machine.latencyUs},
                                                  {"--overlap", &a.machine.overlap}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (i + 1 >= argc) throw std::invalid_argument(flag + " takes a value");
    const std::string value = argv[++i];
    if (flag == "--speeds") {
      std::istringstream list(value);
      for (std::string one; std::getline(list, one, ',');) a.speeds.push_back(numberOf(flag, one));
    } else if (const auto found = numbers.find(flag); found != numbers.end()) {
      *found->second = numberOf(flag, value);
    } else {
      throw std::invalid_argument("there is no " + flag);
    }
  }
  if (batch > 1e9 || ranks > 1e6 || perNode > 1e6) throw std::invalid_argument("too many sequences or ranks");
  a.batch = static_cast<int>(batch);
  a.machine.ranks = static_cast<int>(ranks);
  a.machine.perNode = static_cast<int>(perNode);
  if (!a.speeds.empty() && a.speeds.size() != static_cast<size_t>(a.machine.ranks)) {
    throw std::invalid_argument("--speeds has " + std::to_string(a.speeds.size()) + " numbers for " +
                                std::to_string(a.machine.ranks) + " ranks");
  }
  return a;
}

const char* const kRecompute[] = {"no", "selective", "full"};

void row(const tuttiPlan_t& p) {
  const tuttiLayout_t& l = p.layout;
  std::printf(
      "%4d %4d %4d %4d %5d %4d %5.0f %6d %5d %-10s %9.2f %10.1f %9.1f %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f  %s\n", l.tp,
      l.cp, l.ep, l.pp, l.dp, l.zero, l.microBatch, l.microBatches, l.chunks, kRecompute[l.recompute], p.memory / 1e9,
      p.stepMs, p.computeMs, p.tpMs, p.cpMs, p.epMs, p.ppMs, p.bubbleMs, p.exposedMs, p.why);
}

void printShares(const Asked& a, const tuttiPlan_t& best) {
  std::vector<int64_t> micro(static_cast<size_t>(best.layout.dp) + 1);
  std::vector<int64_t> layers(static_cast<size_t>(best.layout.pp * best.layout.chunks) + 1);
  if (tuttiPlanShares(&a.model, &a.machine, &best, a.batch, micro.data(), layers.data()) != tuttiSuccess) return;
  const auto print = [](const char* what, const std::vector<int64_t>& cuts) {
    std::printf("%s:", what);
    for (size_t i = 0; i + 1 < cuts.size(); ++i) std::printf(" %lld", static_cast<long long>(cuts[i + 1] - cuts[i]));
    std::printf("\n");
  };
  print("micro-batches of each data-parallel rank", micro);
  print("layers of each stage", layers);
}

}  // namespace

int searchLayouts(int argc, char** argv) {
  try {
    Asked a = parse(argc, argv);
    if (!a.speeds.empty()) a.machine.speeds = a.speeds.data();
    size_t count = 0;
    if (tuttiPlanSearch(&a.model, &a.machine, a.batch, nullptr, 0, &count) != tuttiSuccess) {
      throw std::invalid_argument(tuttiParallelGetLastError());
    }
    std::vector<tuttiPlan_t> plans(count);
    if (tuttiPlanSearch(&a.model, &a.machine, a.batch, plans.data(), count, &count) != tuttiSuccess || count == 0) {
      throw std::invalid_argument(count == 0 ? "no layout has a sequence for each replica"
                                             : tuttiParallelGetLastError());
    }
    std::printf("%4s %4s %4s %4s %5s %4s %5s %6s %5s %-10s %9s %10s %9s %8s %8s %8s %8s %8s %8s\n", "tp", "cp", "ep",
                "pp", "dp", "zero", "micro", "number", "chunk", "recompute", "GB", "ms/step", "compute", "tp", "cp",
                "ep", "pp", "bubble", "exposed");
    for (size_t i = 0; i < 10 && i < count; ++i) row(plans[i]);
    std::map<std::string, std::pair<size_t, const tuttiPlan_t*>> lost;  // by reason, the first of each
    for (size_t i = 10; i < count; ++i) {
      const std::string why = plans[i].why;
      const size_t at = plans[i].fits ? why.rfind(" for ") : std::string::npos;
      auto& entry = lost[at == std::string::npos ? "memory" : why.substr(at + 5)];
      if (entry.first++ == 0) entry.second = &plans[i];
    }
    std::printf("\n%zu layouts; the others lose by\n", count);
    for (const auto& [reason, entry] : lost) {
      std::printf("%6zu  %s; the best of them:\n", entry.first, reason.c_str());
      row(*entry.second);
    }
    if (!plans[0].fits) return std::printf("\nnothing fits\n"), 1;
    std::printf("\nthe best with schedule %s, buckets of %zu bytes, prefetch %d, tiles %d\n", plans[0].schedule,
                plans[0].bucketBytes, plans[0].prefetch, plans[0].tiles);
    if (!a.speeds.empty()) printShares(a, plans[0]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti-plan: %s\n", error.what());
    return 2;
  }
}
