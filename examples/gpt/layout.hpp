// How a model is trained: its shape, and what is cut over which ranks.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "tutti/tutti.h"

namespace gpt {

struct Shape {
  int64_t vocabulary = 256, sequence = 64, width = 128, heads = 4, kvHeads = 4, layers = 4;
  int64_t perMicroBatch = 1;  // sequences
  int microBatches = 8;       // of a step, over all ranks
  int64_t experts = 4,
          choices = 2;  // where blocks have experts instead of one MLP; all of a token's cost as much as it
  int64_t expertWidth() const { return 4 * width / choices; }
};

struct Layout {
  std::string name = "1 rank";
  int tp = 1, pp = 1, dp = 1;
  bool sequence = false;  // sequence-parallel regions between tensor-parallel layers
  int zero = -1;          // -1: buckets (tuttiDdp_t), else a stage of ZeRO
  std::string schedule = "1f1b";
  int chunks = 1;             // pipeline stages per rank
  bool tied = false;          // the head's weight is the embedding
  int ulysses = 1, ring = 1;  // ranks over tokens
  int tokens = 0;             // tuttiTokens_t of the ring, in fast mode
  bool experts = false;       // blocks have experts
  int ep = 1;                 // ranks over experts, each with micro-batches of its own
  int ranks() const { return tp * ulysses * ring * ep * pp * dp; }
};

/// Errors of the kind that distributed training is prone to, made on purpose: the comparison of layouts has to see
/// them.
enum class Mistake {
  None,
  SumForAverage,      // gradients are not divided by the number of micro-batches
  SkippedMicroBatch,  // one rank leaves one out
  SwappedGradients,   // one rank puts two gradients into each other's place
  NormNotReduced,     // sequence-parallel: gradients of norms stay those of this rank's tokens
  ReusedTokens,       // one rank computes on another's micro-batch
  ReusedBucket,       // one rank writes to a gradient that it has given away
  ShiftedStage,       // the last pipeline stage begins a layer early
  MissingAllReduce,   // tensor-parallel: the gradient of a layer's input stays this rank's
  WrongMask,          // one rank of a ring lets queries see later tokens
  WrongHop,           // one rank masks one hop of the first step as if its keys were those of its own queries
  UnreducedTie        // the last stage's head is not summed with the first stage's embedding
};

struct Run {
  Mistake mistake = Mistake::None;
  int steps = 20;
  bool invariant = false;
  bool sgd = false;  // in place of AdamW, whose steps are as large for a tiny gradient as for a large one
  double learningRate = 3e-3;
  double clip = 1;
  int device = TUTTI_DEVICE_HOST;  // where ranks compute: or TUTTI_DEVICE_CUDA
  int leaves = 4;                  // of layout-invariant sums; at most that many ranks have a part of anything
};

/// Nothing was trained: the layout cannot be, or what it takes could not be made.
class Refused : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Throws Refused, with the numbers that do not fit.  The layers refuse what is theirs when they are made.
void checkLayout(const Shape& shape, const Layout& layout, const Run& run);

}  // namespace gpt
