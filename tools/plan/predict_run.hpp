// A published run as the planner's question, and how far its answer is off.
#pragma once

#include <string>

#include "tutti/parallel/planner.h"

/// A machine by its specification: links by the rules of NCCL's planner (its topo.h), per GPU.
struct Cluster {
  int gpu;
  double memory, nodeBandwidth, bandwidth;
  double watts = 0, memoryBandwidth = 0, sustained = 0;  // where they are not the generation's own
};
inline constexpr Cluster kSelene = {tuttiGpuA100, 80e9, 12 * 20e9, 24e9};  // DGX A100, 8 x 200 Gbit/s
inline constexpr Cluster kA100 = {tuttiGpuA100, 40e9, 12 * 20e9, 24e9};
inline constexpr Cluster kH100 = {tuttiGpuH100, 80e9, 18 * 20.6e9, 48e9};  // DGX H100, 8 x 400 Gbit/s
/// What products sustain: pytorch/ao, torchao/testing/float8/roofline_utils.py (2024), of "Meta's H100 variant" with
/// 2.4 TB/s: 0.6 of the data sheet's rate, of 16 and of 8 bits.
inline constexpr Cluster kGrandTeton = {tuttiGpuH100, 96e9, 18 * 20.6e9, 48e9, 500, 2.4e12, 0.6};

/// What a program does that this library does not (tuttiMachine_t).
struct Program {
  double overlap = 0.9, castBytes = 0;
  int gathers = 0, tensors = 0, memoryCopies = 0;
  double partUs = 0;
};
struct Run {
  const char* name;
  const char* source = "";
  Cluster cluster;
  double layers, hidden, heads, sequence, vocabulary;
  int batch;
  const char* layout;
  double seconds = 0;        // published, of a step
  bool wholeScores = false;  // attention keeps all scores of a head
  bool open = false;         // micro-batches and chunks are not told: those that are fastest and fit
  double parameters = 0;     // of the layers; 0: 12 layers hidden^2
  double kvHeads = 0;        // 0: heads
  int elementBytes = 2;      // of products
  double experts = 0, choices = 1, expertWidth = 0;
  Program program = {};
  double attentionWidth = 0;  // 0: hidden
  bool inOrder = false;       // a ring's ranks have tokens one behind the other: the last one computes most scores
};

int ranksOf(const tuttiLayout_t& l);
/// The plan of its layout, or of the fastest that it leaves open; false: tuttiParallelGetLastError has the reason.
bool predict(const Run& run, tuttiPlan_t* best);
/// Prints why there is no plan; an exit status.
int unplanned(const Run& run);

/// How far predictions are off.
class MeanError {
 public:
  /// ratio: predicted beside published.
  void add(double ratio);
  void print() const;

 private:
  double sum_ = 0;
  int count_ = 0;
};
