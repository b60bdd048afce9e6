#include "tools/plan/formulas.hpp"

#include <algorithm>
#include <cstdio>

#include "tutti/parallel/pp.h"

namespace {

/// Idle time of a rank and its peak of micro-batches, by simulation with F = I = W.
bool simulate(const char* schedule, int ranks, int microBatches, double* idle, int* inFlight) {
  tuttiSchedule_t made = nullptr;
  tuttiSimulation_t s = TUTTI_SIMULATION_INITIALIZER;
  if (tuttiScheduleCreate(&made, schedule, ranks, 1, microBatches) != tuttiSuccess) return false;
  const tuttiResult_t result = tuttiScheduleSimulate(made, &s);
  tuttiScheduleDestroy(made);
  *idle = s.bubbleOverIdeal * s.ideal, *inFlight = s.peakInFlight;
  return result == tuttiSuccess;
}

}  // namespace

/// deepseek-ai/DualPipe, README: B is a whole backward, W its half for weights, and a forward and a backward that
/// overlap (F&B) take as long as both.  Time in forwards: F = 1, B = 2, W = 1.
int dualPipeTable() {
  constexpr double kForward = 1, kBackward = 2, kWeights = 1, kBoth = kForward + kBackward;
  std::printf("%5s %-10s %10s %10s %11s %12s   idle forwards of a rank; 20 micro-batches\n", "ranks", "schedule",
              "formula", "simulated", "parameters", "activations");
  for (const int p : {4, 8, 16}) {
    const struct {
      const char *name, *schedule;
      double idle;
    } rows[] = {{"1F1B", "1f1b", (p - 1) * (kForward + kBackward)},
                {"ZB1P", "zb-h1", (p - 1) * (kForward + kBackward - 2 * kWeights)}};
    for (const auto& row : rows) {
      double idle = 0;
      int inFlight = 0;
      if (!simulate(row.schedule, p, 20, &idle, &inFlight)) {
        std::fprintf(stderr, "tutti-plan: %s\n", tuttiParallelGetLastError());
        return 1;
      }
      std::printf("%5d %-10s %10.0f %10.0f %11d %12d\n", p, row.name, row.idle, idle, 1, inFlight);
    }
    std::printf("%5d %-10s %10.0f %10s %11d %12d\n", p, "DualPipe", (p / 2 - 1) * (kBoth + kBackward - 3 * kWeights),
                "-", 2, p + 1);
  }
  return 0;
}

/// Megabytes that a rank sends in the forward pass of one layer; elements have 16 bits.  Ulysses exchanges queries,
/// keys, values and the result (docs/parallel/sp.md).  A ring passes keys and values on.  Tensor parallelism gathers
/// and scatters twice.
int contextTable() {
  constexpr double kTokens = 131072, kHidden = 4096, kKeys = 1024, kBytes = 2, kMega = 1e6;
  std::printf("%5s %10s %10s %18s   MB a layer of Llama 3.1 8B, 131072 tokens\n", "ranks", "Ulysses", "ring",
              "tensor, sequence");
  for (const int c : {2, 4, 8, 16, 32}) {
    const double own = kTokens / c, others = c - 1;
    // Keys have 8 heads: more ranks than that hold copies, and each sends the whole head.
    const double keys = kKeys * std::max(1.0, c / 8.0);
    std::printf("%5d %10.1f %10.1f %18.1f\n", c, 2 * own * (kHidden + keys) * others / c * kBytes / kMega,
                2 * own * kKeys * others * kBytes / kMega, 4 * kTokens * kHidden * others / c * kBytes / kMega);
  }
  return 0;
}

/// Wang et al., "ZeRO++", 2023: weights gathered as INT8 (qwZ), a copy of them in every node (hpZ), gradients as INT4
/// (qgZ).  Scales of blocks are left out, as there.
int zeroPlusTable() {
  std::printf("%-16s %9s %9s %10s %10s %12s   bytes an element between nodes\n", "stage 3 with", "forward", "backward",
              "gradients", "in a step", "of stage 3");
  const struct {
    const char* name;
    double forward, backward, gradients;
  } rows[] = {{"nothing", 2, 2, 2}, {"qwZ", 1, 1, 2}, {"qwZ, hpZ", 1, 0, 2}, {"qwZ, hpZ, qgZ", 1, 0, 0.5}};
  for (const auto& row : rows) {
    const double step = row.forward + row.backward + row.gradients;
    std::printf("%-16s %9.2f %9.2f %10.2f %10.2f %11.0f%%\n", row.name, row.forward, row.backward, row.gradients, step,
                100 * step / 6);
  }
  return 0;
}

/// Jiang et al., "BytePS", OSDI 2020: servers on machines of their own share the parameters evenly.
int serverTable() {
  std::printf("%8s %8s %10s %10s %10s   of the parameters' bytes, each way through the busiest adapter\n", "workers",
              "servers", "servers", "ring", "gain");
  for (const int workers : {8, 32, 64}) {
    for (const int part : {workers, 4, 2, 1}) {
      const int servers = std::max(1, workers / part);
      const double busiest = std::max(1.0, 1.0 * workers / servers), ring = 2.0 * (workers - 1) / workers;
      std::printf("%8d %8d %10.2f %10.2f %9.2fx\n", workers, servers, busiest, ring, ring / busiest);
    }
  }
  return 0;
}
