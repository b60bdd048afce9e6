#include "tools/plan/search_view.hpp"

#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/plan/asked.hpp"

namespace {

const char* const kRecompute[] = {"no", "selective", "full", "alternate"};

void row(const tuttiPlan_t& p) {
  const tuttiLayout_t& l = p.layout;
  std::printf(
      "%4d %4d %4d %4d %5d %4d %5.0f %6d %5d %-10s %9.2f %10.1f %9.1f %8.1f %8.1f %8.1f %8.1f %8.1f %8.1f  %s\n", l.tp,
      l.cp, l.ep, l.pp, l.dp, l.zero, l.microBatch, l.microBatches, l.chunks, kRecompute[l.recompute], p.memory / 1e9,
      p.stepMs, p.computeMs, p.tpMs, p.cpMs, p.epMs, p.ppMs, p.bubbleMs, p.exposedMs, p.why);
}

void printShares(const AskedPlan& a, const tuttiPlan_t& best) {
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

void header() {
  std::printf("%4s %4s %4s %4s %5s %4s %5s %6s %5s %-10s %9s %10s %9s %8s %8s %8s %8s %8s %8s\n", "tp", "cp", "ep",
              "pp", "dp", "zero", "micro", "number", "chunk", "recompute", "GB", "ms/step", "compute", "tp", "cp", "ep",
              "pp", "bubble", "exposed");
}

int search(const AskedPlan& a) {
  size_t count = 0;
  if (tuttiPlanSearch(&a.model, &a.machine, a.batch, nullptr, 0, &count) != tuttiSuccess) {
    throw std::invalid_argument(tuttiParallelGetLastError());
  }
  std::vector<tuttiPlan_t> plans(count);
  if (tuttiPlanSearch(&a.model, &a.machine, a.batch, plans.data(), count, &count) != tuttiSuccess || count == 0) {
    throw std::invalid_argument(count == 0 ? "no layout has a sequence for each replica" : tuttiParallelGetLastError());
  }
  header();
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
}

/// What of a whole a part is, with the parts that are not there left out.
struct Part {
  const char* name;
  double value;
};

void print(const char* title, const std::vector<Part>& parts, double unit) {
  double whole = 0;
  for (const Part& part : parts) whole += part.value;
  std::printf("%s\n", title);
  for (const Part& part : parts) {
    if (part.value > 0)
      std::printf("  %-22s %12.2f  %5.1f %%\n", part.name, part.value / unit, 100 * part.value / whole);
  }
}

/// Memory, traffic, bubble and time of the layout that was given.
int show(const AskedPlan& a) {
  tuttiPlan_t p;
  if (tuttiPlanLayout(&a.model, &a.machine, a.batch, &*a.layout, &p) != tuttiSuccess) {
    throw std::invalid_argument(tuttiParallelGetLastError());
  }
  const tuttiLayoutCost_t& c = p.cost;
  header();
  row(p);
  print("\nmemory of the fullest rank's layers, GB",
        {{"values", c.values},
         {"gradients", c.gradients},
         {"optimizer", c.optimizer},
         {"activations", c.activations},
         {"a layer's work", c.working},
         {"logits", c.logits}},
        1e9);
  print("sent by a rank in a step, GB",
        {{"tensor parallel", c.tpBytes},
         {"ring", c.cpBytes},
         {"experts", c.epBytes},
         {"pipeline", c.ppBytes},
         {"data parallel", c.dpBytes}},
        1e9);
  print("time of a step, ms",
        {{"computation", p.computeMs},
         {"tensor-parallel sums", p.tpMs},
         {"keys and values", p.cpMs},
         {"tokens to experts", p.epMs},
         {"pipeline messages", p.ppMs},
         {"bubble", p.bubbleMs},
         {"exposed gradients", p.exposedMs},
         {"uneven parts", p.unevenMs}},
        1);
  std::printf("%d micro-batches by %s, bubble %.2f %% of ideal time; %s\n", p.layout.microBatches, p.schedule,
              100 * c.bubble, p.why);
  return p.fits ? 0 : 1;
}

}  // namespace

int planLayouts(int argc, char** argv) {
  try {
    AskedPlan a = parsePlan(argc, argv);
    if (!a.speeds.empty()) a.machine.speeds = a.speeds.data();
    return a.layout ? show(a) : search(a);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tutti-plan: %s\n", error.what());
    return 2;
  }
}
