// Trains the same model under many layouts and prints how far losses and weights are from one rank's.
//   parity [--steps N] [--only TEXT]... [--invariant | --fast | --sgd] [--small] [--text FILE] [--device cuda]
//   parity --overlap [...]   how much of data parallelism's communication is waited for, without and with overlap
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "examples/gpt/call.hpp"
#include "examples/gpt/train.hpp"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/sp.h"

namespace {

using namespace gpt;

/// Tokens over ranks; layout-invariant rings have contiguous tokens.
Layout over(const char* name, int tp, int ulysses, int ring, int pp, int dp, int tokens = tuttiTokensContiguous,
            int zero = -1) {
  Layout l{name, tp, pp, dp, false, zero};
  l.ulysses = ulysses;
  l.ring = ring;
  l.tokens = tokens;
  return l;
}

/// Blocks with four experts, two for each token.
Layout experts(const char* name, int ep, int tp, int pp, int dp, int zero = -1) {
  Layout l{name, tp, pp, dp, false, zero};
  l.experts = true;
  l.ep = ep;
  return l;
}

const std::vector<Layout> kLayouts = {
    {"dp 2", 1, 1, 2},
    {"dp 4", 1, 1, 4},
    {"dp 3 (3+3+2 micro-batches)", 1, 1, 3},
    {"zero 0, 2", 1, 1, 2, false, 0},
    {"zero 1, 2", 1, 1, 2, false, 1},
    {"zero 1, 3 (uneven)", 1, 1, 3, false, 1},
    {"zero 2, 4", 1, 1, 4, false, 2},
    {"zero 3, 2", 1, 1, 2, false, 3},
    {"zero 3, 4", 1, 1, 4, false, 3},
    {"tp 2", 2, 1, 1},
    {"tp 3 (heads 2+1+1)", 3, 1, 1},
    {"tp 4", 4, 1, 1},
    {"tp 2, sequence", 2, 1, 1, true},
    {"tp 4, sequence", 4, 1, 1, true},
    {"pp 2, gpipe", 1, 2, 1, false, -1, "gpipe"},
    {"pp 2, 1f1b", 1, 2, 1},
    {"pp 4, 1f1b", 1, 4, 1},
    {"pp 2, interleaved", 1, 2, 1, false, -1, "interleaved", 2},
    {"pp 2, breadth-first", 1, 2, 1, false, -1, "breadth-first", 2},
    {"pp 4, zb-h1", 1, 4, 1, false, -1, "zb-h1"},
    {"pp 2, zb-h2", 1, 2, 1, false, -1, "zb-h2"},
    {"pp 2, zbv", 1, 2, 1, false, -1, "zbv"},
    {"pp 2 x zero 1, 2", 1, 2, 2, false, 1},
    {"tp 2 x pp 2 x dp 2", 2, 2, 2},
    {"tp 2 x dp 2", 2, 1, 2},
    {"tp 2 x zero 1, 2", 2, 1, 2, false, 1},
    {"tp 2, sequence x zero 3, 2", 2, 1, 2, true, 3},
    over("ulysses 2", 1, 2, 1, 1, 1),
    over("ulysses 3 (leaves 2+1+1)", 1, 3, 1, 1, 1),
    over("ulysses 4", 1, 4, 1, 1, 1),
    over("ring 2, zigzag", 1, 1, 2, 1, 1, tuttiTokensZigzag),
    over("ring 4, striped", 1, 1, 4, 1, 1, tuttiTokensStriped),
    over("ring 5 (leaves 1+1+1+1+0)", 1, 1, 5, 1, 1),
    over("ulysses 2 x ring 2", 1, 2, 2, 1, 1),
    over("ring 2 x zero 2, 2", 1, 1, 2, 1, 2, tuttiTokensContiguous, 2),
    over("tp 2 x ulysses 2 x pp 2 x dp 2", 2, 2, 1, 2, 2),
    over("tp 2 x ring 2 x pp 2 x dp 2", 2, 1, 2, 2, 2, tuttiTokensZigzag),
    {"tied, pp 2", 1, 2, 1, false, -1, "1f1b", 1, true},
    {"tied, tp 2 x pp 2 x dp 2", 2, 2, 2, false, -1, "1f1b", 1, true},
    experts("experts, zero 2, 2", 1, 1, 1, 2, 2),
    experts("experts, ep 2", 2, 1, 1, 1),
    experts("experts, ep 4", 4, 1, 1, 1),
    experts("experts, ep 2 x dp 2", 2, 1, 1, 2),
    experts("experts, tp 2 x ep 2 x pp 2", 2, 2, 2, 1),
};

double relative(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]) / std::abs(b[i]));
  return a.size() == b.size() ? most : INFINITY;
}

/// Of the vectors of all weights: the length of their difference over the length of one.
double relative(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, length = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    length += static_cast<double>(b[i]) * b[i];
  }
  return std::sqrt(difference / length);
}

struct Options {
  Shape shape;
  int steps = 20;
  std::vector<std::string> only;
  std::string text = TUTTI_GPT_TEXT;
  int device = TUTTI_DEVICE_HOST;
  bool invariant = true, fast = true, sgd = true, overlap = false;

  bool wants(const Layout& layout) const {
    if (layout.experts && device != TUTTI_DEVICE_HOST) return false;  // the example's router is the host's
    const auto named = [&](const std::string& part) { return layout.name.find(part) != std::string::npos; };
    return only.empty() || std::any_of(only.begin(), only.end(), named);
  }
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw std::runtime_error(flag + " takes a value");
      return std::string(argv[++i]);
    };
    if (flag == "--steps") {
      o.steps = std::stoi(value());
    } else if (flag == "--only") {
      o.only.push_back(value());
    } else if (flag == "--device") {
      const std::string device = value();
      if (device != "host" && device != "cuda") throw std::runtime_error("--device is host or cuda");
      o.device = device == "cuda" ? TUTTI_DEVICE_CUDA : TUTTI_DEVICE_HOST;
    } else if (flag == "--text") {
      o.text = value();
    } else if (flag == "--invariant") {
      o.fast = o.sgd = false;
    } else if (flag == "--fast") {
      o.invariant = o.sgd = false;
    } else if (flag == "--sgd") {
      o.invariant = o.fast = false;
    } else if (flag == "--overlap") {
      o.overlap = true;
    } else if (flag == "--small") {
      o.shape.width = 48;
      o.shape.layers = 2;
      o.shape.sequence = 32;
    } else {
      throw std::runtime_error("there is no " + flag);
    }
  }
  if (o.steps < 1) throw std::runtime_error("--steps is at least 1");
  return o;
}

/// Milliseconds per step that sums and gathers take, and that the owner waits for; the least over the steps.
void overlapTable(const Options& options, const std::string& text) {
  Run run;
  run.device = options.device;
  run.steps = options.steps;
  std::printf("%-30s %-9s %14s %12s %9s\n", "layout", "overlap", "communication", "exposed ms", "ms/step");
  for (const Layout& layout : kLayouts) {
    if (layout.dp == 1 || !options.wants(layout)) continue;
    for (const bool overlap : {false, true}) {
      const Outcome is = trainOnThreads(options.shape, layout, run, text, overlap);
      std::printf("%-30s %-9s %14.2f %12.2f %9.1f\n", layout.name.c_str(), overlap ? "yes" : "no", is.communicationMs,
                  is.exposedMs, is.stepMs);
      std::fflush(stdout);
    }
  }
}

/// The largest difference of any two weights over the largest weight.
double largest(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    most = std::max(most, std::abs(static_cast<double>(b[i])));
  }
  return difference / most;
}

/// Whether all layouts agree with one rank.
bool table(const Options& options, bool invariant, bool sgd, const std::string& text) {
  Run run;
  run.device = options.device;
  run.steps = options.steps;
  run.invariant = invariant;
  run.sgd = sgd;
  if (sgd) run.learningRate = 0.3;
  const Outcome untied = trainOnThreads(options.shape, Layout{}, run, text);
  const Outcome& one = untied;
  std::printf("\n%s: loss %.4f -> %.4f in %d steps on one rank, %zu parameters, hash %016llx\n",
              invariant ? "layout-invariant"
              : sgd     ? "fast, SGD"
                        : "fast, AdamW",
              one.losses.front(), one.losses.back(), run.steps, one.values.size(),
              static_cast<unsigned long long>(one.hash));
  std::printf("%-30s %5s  %-11s %-11s %-11s %-16s %14s %-8s %9s\n", "layout", "ranks", "loss, apart", "weights",
              "largest", "hash", "bytes/step", "formula", "ms/step");
  bool good = run.steps < 2 || one.losses.back() < one.losses.front();
  if (!good) std::printf("the loss did not fall\n");
  Layout oneTied, oneWithExperts;
  oneTied.tied = true;
  oneWithExperts.experts = true;
  const auto ofLayouts = [&](const Layout& alone, bool Layout::*kind) {
    for (const Layout& layout : kLayouts) {
      if (layout.*kind && options.wants(layout)) return trainOnThreads(options.shape, alone, run, text);
    }
    return Outcome{};
  };
  const Outcome tied = ofLayouts(oneTied, &Layout::tied), withExperts = ofLayouts(oneWithExperts, &Layout::experts);
  for (const Layout& layout : kLayouts) {
    if (!options.wants(layout)) continue;
    const Outcome& reference = layout.tied ? tied : layout.experts ? withExperts : untied;
    const Outcome is = trainOnThreads(options.shape, layout, run, text);
    const double losses = relative(is.losses, reference.losses);
    const double weights = relative(is.values, reference.values);
    const bool same = is.hash == reference.hash && losses == 0 && weights == 0;
    const bool fine = is.bytesAgree && (invariant ? same : losses < 1e-6 && weights < (sgd ? 1e-6 : 3e-5));
    std::printf("%-30s %5d  %-11.2g %-11.2g %-11.2g %016llx %14.0f %-8s %9.1f%s\n", layout.name.c_str(), layout.ranks(),
                losses, weights, largest(is.values, reference.values), static_cast<unsigned long long>(is.hash),
                is.sentBytes, is.bytesAgree ? "equal" : "DIFFERS", is.stepMs, fine ? "" : "  FAILED");
    std::fflush(stdout);
    good = good && fine;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse(argc, argv);
    const std::string text = readText(options.text, options.shape);
    tuttiKernels_t fast = TUTTI_KERNELS_INITIALIZER, own = TUTTI_KERNELS_INITIALIZER;
    call(tuttiKernelsFast(&fast));
    call(tuttiKernelsInvariant(&own));
    if (options.device == TUTTI_DEVICE_HOST) {
      std::printf("matrix products: fast %s; layout-invariant %s\n", fast.name, own.name);
    } else {
      std::printf("matrix products: fast cuBLASLt; layout-invariant Tutti's kernel\n");
    }
    if (options.overlap) {
      overlapTable(options, text);
      return 0;
    }
    bool good = true;
    if (options.fast) good = table(options, false, false, text) && good;
    if (options.sgd) good = table(options, false, true, text) && good;
    if (options.invariant) good = table(options, true, false, text) && good;
    std::printf("\n%s\n", good ? "all layouts agree" : "LAYOUTS DISAGREE");
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parity: %s\n", error.what());
    return 2;
  }
}
