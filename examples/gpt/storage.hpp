// Data parallelism of a stage: buckets with an optimizer beside them, or a stage of ZeRO.
#pragma once

#include <memory>
#include <vector>

#include "examples/gpt/model.hpp"
#include "tutti/parallel/zero.h"

namespace gpt {

struct StorageOptions {
  int zero = -1;  // -1: buckets
  int microBatches = 1;
  bool invariant = false, sgd = false;
  double learningRate = 1e-3, clip = 0;
  bool overlap = true, average = true, guard = false;
  tuttiComm_t dp = nullptr;  // NULL: one rank
  // Where several ranks share the experts: how many, and the ranks that have the same ones (NULL: none but this).
  int ep = 1;
  tuttiComm_t sameExperts = nullptr;
  tuttiComm_t world = nullptr;  // over which norms are taken; NULL: dp
};

class Trainer : public Storage {
 public:
  virtual void begin() = 0;
  /// Wait for the sums; the average gradients that this rank counts in the norm.
  virtual std::vector<tuttiTensor_t> finish() = 0;
  /// Update with scaled gradients.  Those that clip for themselves return the norm and ignore scale.
  virtual double update(double scale) = 0;
  virtual bool clips() const = 0;
  /// Elements of a parameter (of this rank's part) that this rank answers for among the replicas.
  virtual void owned(size_t parameter, int64_t* begin, int64_t* end, tuttiTensor_t* values) = 0;
  virtual tuttiTraffic_t traffic() = 0;
  virtual tuttiTraffic_t expected() = 0;  // of a step
  /// Of the last step, in milliseconds.
  virtual double communication() = 0;
  virtual double exposed() = 0;
};

/// Values begin as initialValues says.  ep > 1: buckets, and every rank of dp has as many micro-batches,
/// layout-invariant a power of two.
template <class T>
std::unique_ptr<Trainer> makeTrainer(const std::vector<Parameter>& parameters, const StorageOptions& options);

}  // namespace gpt
