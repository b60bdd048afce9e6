// Layouts of a machine, by the time that a step is expected to take.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <vector>

#include "src/parallel/data_time.hpp"
#include "src/parallel/fail.hpp"
#include "src/parallel/layer_time.hpp"
#include "src/parallel/links.hpp"
#include "src/parallel/model_parameters.hpp"
#include "src/parallel/pipeline_figures.hpp"
#include "tutti/parallel/planner.h"

namespace tutti::parallel {
namespace {

constexpr double kMostStages = 512;  // of a pipeline: each schedule is simulated

struct Search {
  tuttiModelShape_t model;
  tuttiMachine_t machine;
  int batch;
  PipelineSimulations pipelines = {};

  PipelineFigures pipeline(const tuttiLayout_t& l) { return pipelines.of(l, 2 + recomputed(model, l.recompute)); }
  double speedOf(int rank) const { return machine.speeds == nullptr ? 1 : machine.speeds[rank]; }
  /// The slowest rank of each (replica, stage), [dp][pp].
  std::vector<double> cells(const tuttiLayout_t& l) const {
    std::vector<double> slowest(static_cast<size_t>(l.dp * l.pp), INFINITY);
    for (int r = 0; r < machine.ranks; ++r) {
      const int inner = l.tp * l.cp * l.ep;  // go in step
      double& cell = slowest[static_cast<size_t>(r / (inner * l.pp) * l.pp + r / inner % l.pp)];
      cell = std::min(cell, speedOf(r));
    }
    return slowest;
  }
};

std::vector<int64_t> cutsBySpeed(int64_t total, const std::vector<double>& speeds) {
  std::vector<int64_t> cuts(speeds.size() + 1);
  if (tuttiSplitEven(total, 1, static_cast<int>(speeds.size()), speeds.data(), cuts.data()) != tuttiSuccess) {
    fail(tuttiInvalidArgument, tuttiParallelGetLastError());
  }
  return cuts;
}

/// Micro-batches of each replica, layers of each stage (chunks of a rank come one after another), and how much longer
/// the slowest rank computes than if all had speed 1 and even shares.
struct Division {
  std::vector<int64_t> micro, layers;
  double slowdown;
};

Division divisionOf(const Search& s, const tuttiLayout_t& l, bool byStages) {
  const std::vector<double> cells = s.cells(l);
  const size_t dp = static_cast<size_t>(l.dp), pp = static_cast<size_t>(l.pp);
  std::vector<double> replicas(dp, byStages ? 1 : INFINITY), stages(pp, byStages ? INFINITY : 1);
  for (size_t d = 0; d < dp; ++d) {
    for (size_t p = 0; p < pp; ++p) {
      double& slowest = byStages ? stages[p] : replicas[d];
      slowest = std::min(slowest, cells[d * pp + p]);
    }
  }
  const int64_t total = static_cast<int64_t>(l.microBatches) * l.dp, layers = static_cast<int64_t>(s.model.layers);
  std::vector<double> chunked;
  for (int chunk = 0; chunk < l.chunks; ++chunk) chunked.insert(chunked.end(), stages.begin(), stages.end());
  Division division{cutsBySpeed(total, replicas), cutsBySpeed(layers, chunked), 0};
  for (size_t p = 0; p < pp; ++p) {
    int64_t here = 0;
    for (size_t c = p; c < chunked.size(); c += pp) here += division.layers[c + 1] - division.layers[c];
    for (size_t d = 0; d < dp; ++d) {
      const auto work = static_cast<double>(here * (division.micro[d + 1] - division.micro[d]));
      division.slowdown = std::max(division.slowdown, work / cells[d * pp + p]);
    }
  }
  division.slowdown /= static_cast<double>(total * layers) / static_cast<double>(dp * pp);
  return division;
}

/// A slow rank's replica gets fewer micro-batches, or its stage fewer layers: what helps more.
Division divide(const Search& s, const tuttiLayout_t& l) {
  Division micro = divisionOf(s, l, false);
  if (s.machine.speeds == nullptr) return micro;
  Division layers = divisionOf(s, l, true);
  return layers.slowdown < micro.slowdown ? layers : micro;
}

/// Floating-point operations of a step (Narayanan et al., 2021, appendix; Korthikanti et al., 2022).
double flopsOf(const Search& s, int recompute) {
  const tuttiModelShape_t& m = s.model;
  const double mlp = m.experts > 0 ? 4 * m.choices * expertWidth(m) / m.hidden : 16;
  const double one = (8 + mlp) * s.batch * m.sequence * m.layers * m.hidden * m.hidden;
  return one * (1 + attentionShare(m) + headShare(m)) * (3 + recomputed(m, recompute));
}

double embeddingBytes(const Search& s, const tuttiLayout_t& l) {
  const double d = 1.0 * l.dp * l.cp * l.ep;
  const double share = l.zero >= 3 ? d : 1, gradients = l.zero >= 2 ? d : 1, states = l.zero >= 1 ? d : 1;
  return s.model.vocabulary * s.model.hidden / l.tp *
         (l.valueBytes / share + l.gradientBytes / gradients + l.optimizerBytes / states);
}

/// What fills a rank's memory.
struct Memory {
  struct Part {
    const char* name;
    double bytes;
  };
  std::array<Part, 6> parts;
  double bytes() const {
    double sum = 0;
    for (const Part& part : parts) sum += part.bytes;
    return sum;
  }
  const Part& largest() const {
    return *std::max_element(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.bytes < b.bytes; });
  }
};

/// Of the first rank, which has the most micro-batches in flight, or of the last, which has the head.
Memory memoryOf(Search& s, const tuttiPlan_t& p) {
  const tuttiLayout_t& l = p.layout;
  const ModelParameters all = parametersOf(s.model);
  const double layer = (all.dense / l.tp + all.experts / l.ep) / s.model.layers * l.valueBytes;
  const double gathered = l.zero == 3 ? (1 + p.prefetch) * layer : 0;
  const double states = p.cost.values + p.cost.gradients + p.cost.optimizer, embedding = embeddingBytes(s, l);
  const auto with = [&](int inFlight, double working, double logits) {
    return Memory{{{{"states", states},
                    {"embedding", embedding},
                    {"gathered values", gathered},
                    {"activations", p.cost.activations / p.cost.inFlight * inFlight},
                    {"a layer's work", working},
                    {"logits", logits}}}};
  };
  // In the head's backward no layer is at work.
  const bool headIsMore = p.cost.logits > p.cost.working;
  const PipelineFigures pipeline = s.pipeline(l);
  const Memory end = with(pipeline.inFlightLast, headIsMore ? 0 : p.cost.working, headIsMore ? p.cost.logits : 0);
  if (l.pp == 1) return end;
  const Memory begin = with(pipeline.inFlight, p.cost.working, 0);
  return begin.bytes() < end.bytes() ? end : begin;
}

/// Of a rank in a step.
double computeMsOn(const GpuCurve& gpu, const Search& s, const tuttiPlan_t& p) {
  const tuttiLayout_t& l = p.layout;
  const double layer = layerTime(gpu, s.machine.elementBytes, s.model, l).whole();
  const double copies = copiesSeconds(gpu, s.machine, l, parametersHere(s.model, l));
  const double microBatch = (layer * s.model.layers + headSeconds(gpu, s.model, l)) / l.pp + copies;
  return (l.microBatches * microBatch + optimizerSeconds(gpu, l, p.cost)) * 1e3;
}

double computeMsOf(const Search& s, const tuttiPlan_t& p) {
  if (const auto gpu = curveOf(s.machine)) return computeMsOn(*gpu, s, p);
  return flopsOf(s, p.layout.recompute) / s.machine.ranks / s.machine.flops * 1e3;
}

/// How much longer a rank computes because collectives of hiddenMs run beside it and take multiprocessors.
double sharedMsOf(const Search& s, const tuttiPlan_t& p, double hiddenMs) {
  const auto gpu = curveOf(s.machine);
  if (!gpu || hiddenMs <= 0) return 0;
  return hiddenMs * (1 - p.computeMs / computeMsOn(besideCollective(*gpu), s, p));
}

/// slowdown: of the layout's Division.
void measure(Search& s, tuttiPlan_t& p, double slowdown) {
  const tuttiLayout_t& l = p.layout;
  p.cost = TUTTI_LAYOUT_COST_INITIALIZER;
  layoutCost(s.model, l, s.pipelines, &p.cost);
  const double t = l.tp, m = l.microBatches, layersHere = s.model.layers / l.pp;
  const double calls = (2 * forwardsOf(l) + 2) * layersHere * m;  // of tensor parallelism and of experts
  const double whole =
      parametersOf(s.model).dense + parametersOf(s.model).experts / l.ep * t;  // of which 1 / t is here
  p.computeMs = computeMsOf(s, p);
  const int inner = l.tp * l.cp * l.ep, replicas = l.dp * l.cp * l.ep;
  const Link cp = linkOf(s.machine, l.tp * l.cp), ep = linkOf(s.machine, inner), pp = linkOf(s.machine, inner * l.pp);
  const RingLink tp = ringOf(s.machine, l.tp, std::min(l.tp, s.machine.perNode)),
                 dp = ringOf(s.machine, replicas, replicasInNode(s.machine, l));
  p.tpMs = l.tp == 1 ? 0 : p.cost.tpBytes / tp.bandwidth * 1e3 + calls * 2 * tp.onceMs;
  p.ppMs =
      l.pp == 1 ? 0 : p.cost.ppBytes / pp.bandwidth * 1e3 + static_cast<double>(s.pipeline(l).messages) * pp.latencyMs;
  const double hops = l.cp == 1 ? 0 : ringHops(l) * layersHere * m;
  const double attention = attentionShare(s.model),
               busy = p.computeMs * attention / (1 + attention + headShare(s.model));
  const double ringMs = p.cost.cpBytes / cp.bandwidth * 1e3 + hops * cp.latencyMs;
  const double home = ringMs * l.cp / ringHops(l);  // gradients, which are waited for; keys go beside attention
  p.cpMs = l.cp == 1 ? 0 : home + std::max(0.0, ringMs - home - busy);
  p.epMs = l.ep == 1 ? 0 : p.cost.epBytes / ep.bandwidth * 1e3 + calls * (l.ep - 1) * ep.latencyMs;
  const DataTime data = dataTime(s.model, s.machine, l, p.cost.dpBytes);
  p.cost.dpBytes = data.bytes, p.cost.values += data.kept, p.dpMs = data.ms;
  p.bubbleMs = (p.computeMs + p.tpMs + p.cpMs + p.epMs) * p.cost.bubble;
  // What backward can hide: two thirds of the computation (stage 3 gathers beside forward, too), but for the last part.
  const double beside = p.computeMs * (l.zero == 3 ? 1.0 : l.zero >= 1 ? 1.0 / 2 : 2.0 / 3);
  const double hidden =
      std::min(beside, s.machine.overlap * (p.dpMs - data.hostMs) * (1 - 1 / std::max(1.0, layersHere)));
  p.exposedMs = p.dpMs - hidden;
  p.computeMs += sharedMsOf(s, p, replicas == 1 ? 0 : hidden);
  p.unevenMs = p.computeMs * (slowdown - 1);
  p.stepMs = p.computeMs + p.tpMs + p.cpMs + p.epMs + p.ppMs + p.bubbleMs + p.exposedMs + p.unevenMs;
  // 80 % of the bandwidth where latencies are a fifth of the time.
  p.bucketBytes = static_cast<size_t>(4 * dp.onceMs * 1e-3 * dp.bandwidth);
  const double unitMs = p.computeMs / (3 * layersHere * m);
  const double gatherMs = whole / s.model.layers / t * l.valueBytes / dp.bandwidth * 1e3;
  p.prefetch = std::clamp(static_cast<int>(std::ceil(gatherMs / unitMs)), 1, 4);
  const double sumMs = l.tp == 1 ? 0 : p.tpMs / calls;
  p.tiles = std::clamp(static_cast<int>(std::sqrt(sumMs / (2 * tp.onceMs + 1e-9))), 1, 8);
  p.memory = memoryOf(s, p).bytes();
  p.fits = s.machine.memory == 0 || p.memory <= s.machine.memory;
}

std::vector<int> divisorsOf(int n, double most) {
  std::vector<int> all;
  for (int i = 1; i <= n && i <= most; ++i) {
    if (n % i == 0) all.push_back(i);
  }
  return all;
}

/// Everything that a division of the ranks leaves open.
void addVariants(Search& s, const tuttiLayout_t& axes, std::vector<tuttiPlan_t>& plans) {
  const int pp = axes.pp, shares = axes.dp * axes.ep, replicas = shares * axes.cp;  // shares of the batch
  if (s.batch < shares) return;
  for (const int micro : divisorsOf(s.batch / shares, 16)) {
    std::map<int, double> slowdowns;  // by chunks: what memory is spent on does not change them
    for (int recompute = tuttiRecomputeNone; recompute <= tuttiRecomputeFull; ++recompute) {
      for (int zero = 0; zero <= (replicas > 1 ? 3 : 0); ++zero) {
        for (int chunks = 1; chunks <= (pp > 1 ? 4 : 1); chunks *= 2) {
          if (pp * chunks > std::min(s.model.layers, kMostStages)) continue;
          tuttiPlan_t p{};
          p.layout = axes;
          p.layout.chunks = chunks, p.layout.zero = zero, p.layout.sequenceParallel = axes.tp > 1;
          p.layout.recompute = recompute, p.layout.microBatch = micro;
          p.layout.microBatches = (s.batch + shares * micro - 1) / (shares * micro);
          p.schedule = scheduleOf(p.layout);
          auto slowdown = slowdowns.find(chunks);
          if (slowdown == slowdowns.end()) slowdown = slowdowns.emplace(chunks, divide(s, p.layout).slowdown).first;
          measure(s, p, slowdown->second);
          plans.push_back(p);
        }
      }
    }
  }
}

/// body(axes) for every way to write ranks as a product of axes.
template <class Body>
void eachLayout(const Search& s, const Body& body) {
  constexpr double kLeastTokens = 1024;  // of a rank of a ring; with fewer a hop is all latency
  for (const int tp : divisorsOf(s.machine.ranks, s.model.heads)) {
    for (const int cp : divisorsOf(s.machine.ranks / tp, std::max(1.0, s.model.sequence / kLeastTokens))) {
      for (const int ep : divisorsOf(s.machine.ranks / tp / cp, std::max(1.0, s.model.experts))) {
        const int left = s.machine.ranks / tp / cp / ep;
        for (const int pp : divisorsOf(left, std::min(s.model.layers, kMostStages))) {
          tuttiLayout_t axes = TUTTI_LAYOUT_INITIALIZER;
          axes.tp = tp, axes.cp = cp, axes.ep = ep, axes.pp = pp, axes.dp = left / pp;
          body(axes);
        }
      }
    }
  }
}

void explain(Search& s, const tuttiPlan_t& best, tuttiPlan_t& p) {
  if (!p.fits) {
    const Memory memory = memoryOf(s, p);
    std::snprintf(p.why, sizeof(p.why), "does not fit: %.3g GB of %.3g, %.3g for %s", p.memory / 1e9,
                  s.machine.memory / 1e9, memory.largest().bytes / 1e9, memory.largest().name);
    return;
  }
  const struct {
    const char* name;
    double more;
  } terms[] = {{"recomputation", p.computeMs - best.computeMs},
               {"tensor-parallel sums", p.tpMs - best.tpMs},
               {"keys and values", p.cpMs - best.cpMs},
               {"tokens to experts", p.epMs - best.epMs},
               {"pipeline messages", p.ppMs - best.ppMs},
               {"the bubble", p.bubbleMs - best.bubbleMs},
               {"exposed gradients", p.exposedMs - best.exposedMs},
               {"uneven parts", p.unevenMs - best.unevenMs}};
  const auto* worst =
      std::max_element(std::begin(terms), std::end(terms), [](auto& a, auto& b) { return a.more < b.more; });
  std::snprintf(p.why, sizeof(p.why), "%.4g times the best: %.3g ms more for %s", p.stepMs / best.stepMs, worst->more,
                worst->name);
}

/// Where the time of a layout goes, the largest parts first.
void breakDown(Search& s, tuttiPlan_t& p) {
  if (!p.fits) return explain(s, p, p);
  std::array<std::pair<const char*, double>, 8> parts = {{{"computation", p.computeMs},
                                                          {"tensor-parallel sums", p.tpMs},
                                                          {"keys and values", p.cpMs},
                                                          {"tokens to experts", p.epMs},
                                                          {"pipeline messages", p.ppMs},
                                                          {"the bubble", p.bubbleMs},
                                                          {"exposed gradients", p.exposedMs},
                                                          {"uneven parts", p.unevenMs}}};
  std::stable_sort(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.second > b.second; });
  int length = 0;
  for (size_t i = 0; i < 3 && parts[i].second > 0; ++i) {
    length += std::snprintf(p.why + length, sizeof(p.why) - static_cast<size_t>(length), "%s%.3g %% %s",
                            i == 0 ? "" : ", ", 100 * parts[i].second / p.stepMs, parts[i].first);
  }
}

/// A layout of the machine's ranks, with micro-batches that make up the batch.
tuttiLayout_t checkedLayout(const Search& s, const tuttiLayout_t* layout) {
  auto l = takeConfig<tuttiLayout_t>(layout, TUTTI_LAYOUT_INITIALIZER, "layout");
  require(l.tp >= 1 && l.cp >= 1 && l.ep >= 1 && l.pp >= 1 && l.dp >= 1 && l.chunks >= 1 && l.microBatch >= 1,
          "a layout has axes, chunks and micro-batches of 1 or more");
  const double ranks = 1.0 * l.tp * l.cp * l.ep * l.pp * l.dp;
  require(ranks == s.machine.ranks, "tp ", l.tp, " x cp ", l.cp, " x ep ", l.ep, " x pp ", l.pp, " x dp ", l.dp,
          " are ", ranks, " ranks, the machine has ", s.machine.ranks);
  require(l.pp * l.chunks <= std::min(s.model.layers, kMostStages), l.pp * l.chunks, " stages for ", s.model.layers,
          " layers; at most ", kMostStages);
  const double atOnce = l.microBatch * l.dp * l.ep;
  require(l.microBatches > 0 || std::fmod(s.batch, atOnce) == 0, "a batch of ", s.batch,
          " sequences cannot be divided into ", atOnce, " at once: micro-batches of ", l.microBatch,
          " on dp x ep replicas");
  if (l.microBatches == 0) l.microBatches = static_cast<int>(s.batch / atOnce);
  return l;
}

Search checked(const tuttiModelShape_t* model, const tuttiMachine_t* machine, int batch) {
  Search s{takeConfig<tuttiModelShape_t>(model, TUTTI_MODEL_SHAPE_INITIALIZER, "model"),
           takeConfig<tuttiMachine_t>(machine, TUTTI_MACHINE_INITIALIZER, "machine"), batch};
  require(s.model.layers >= 1 && s.model.hidden > 0 && s.model.heads >= 1 && s.model.sequence > 0,
          "the model has no layers, width, heads or tokens");
  const tuttiMachine_t& m = s.machine;
  require(m.ranks >= 1 && m.ranks <= 1 << 20 && m.perNode >= 1 && m.flops > 0 && m.memory >= 0, "a machine of ",
          m.ranks, " ranks, ", m.perNode, " per node");
  require(m.nodeBandwidth > 0 && m.bandwidth > 0 && m.nodeLatencyUs >= 0 && m.latencyUs >= 0,
          "links have no bandwidth, or a negative latency");
  require(m.adapters >= 0, m.adapters, " adapters; 0: one for each rank of a group");
  require(m.sustained >= 0 && m.sustained <= 1, "products sustain ", m.sustained, " of the data sheet's rate");
  require(
      m.castBytes >= 0 && m.gathers >= 0 && m.tensors >= 0 && m.memoryCopies >= 0 && m.partUs >= 0 && m.zeroPlus >= 0,
      "a program with casts of ", m.castBytes, " bytes, ", m.gathers, " gathers of ", m.tensors, " tensors, ",
      m.memoryCopies, " copies, ", m.partUs, " us for a part");
  require(m.overlap >= 0 && m.overlap <= 1, "overlap is ", m.overlap);
  require(batch >= 1, "a batch of ", batch);
  const GpuCurve* gpu = curveOf(m.gpu);
  require(m.gpu == tuttiGpuUnknown || gpu != nullptr, "there is no tuttiGpu_t ", m.gpu);
  require(m.watts >= 0 && m.memoryBandwidth >= 0 && m.attentionFlops >= 0, "a limit of ", m.watts, " W, memory of ",
          m.memoryBandwidth, " bytes per second, attention of ", m.attentionFlops, " operations per second");
  require(m.elementBytes == 1 || m.elementBytes == 2, "products' elements have ", m.elementBytes, " bytes; 1 or 2");
  require(gpu == nullptr || gpu->peak[m.elementBytes == 1 ? 1 : 0] > 0, "these GPUs multiply no elements of 1 byte");
  for (int r = 0; r < m.ranks; ++r) require(s.speedOf(r) > 0, "rank ", r, " has speed ", s.speedOf(r));
  return s;
}

}  // namespace
}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiPlanSearch(const tuttiModelShape_t* model, const tuttiMachine_t* machine, int batch,
                              tuttiPlan_t* plans, size_t capacity, size_t* count) {
  return guardedIf(count != nullptr && (plans != nullptr || capacity == 0), "count or plans is NULL", [&] {
    Search s = checked(model, machine, batch);
    std::vector<tuttiPlan_t> all;
    eachLayout(s, [&](const tuttiLayout_t& axes) { addVariants(s, axes, all); });
    std::stable_sort(all.begin(), all.end(), [](const tuttiPlan_t& a, const tuttiPlan_t& b) {
      if (a.fits != b.fits) return a.fits > b.fits;
      return a.fits ? a.stepMs < b.stepMs : a.memory < b.memory;
    });
    *count = all.size();
    for (size_t i = 0; i < all.size() && i < capacity; ++i) {
      if (i > 0 || !all[0].fits) explain(s, all[0], all[i]);
      plans[i] = all[i];
    }
  });
}

tuttiResult_t tuttiPlanLayout(const tuttiModelShape_t* model, const tuttiMachine_t* machine, int batch,
                              const tuttiLayout_t* layout, tuttiPlan_t* plan) {
  return guardedIf(layout != nullptr && plan != nullptr, "layout or plan is NULL", [&] {
    Search s = checked(model, machine, batch);
    tuttiPlan_t p{};
    p.layout = checkedLayout(s, layout);
    p.schedule = scheduleOf(p.layout);
    measure(s, p, divide(s, p.layout).slowdown);
    breakDown(s, p);
    *plan = p;
  });
}

tuttiResult_t tuttiPlanShares(const tuttiModelShape_t* model, const tuttiMachine_t* machine, const tuttiPlan_t* plan,
                              int batch, int64_t* microBatches, int64_t* layers) {
  return guardedIf(plan != nullptr, "plan is NULL", [&] {
    const Search s = checked(model, machine, batch);
    const tuttiLayout_t& l = plan->layout;
    require(l.tp >= 1 && l.pp >= 1 && l.dp >= 1 && l.tp * l.cp * l.ep * l.pp * l.dp == s.machine.ranks,
            "the plan is not of ", s.machine.ranks, " ranks");
    const Division division = divide(s, l);
    if (microBatches != nullptr) std::copy(division.micro.begin(), division.micro.end(), microBatches);
    if (layers != nullptr) std::copy(division.layers.begin(), division.layers.end(), layers);
  });
}
