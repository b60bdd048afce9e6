// The gradient of some parameters in one flat vector: over micro-batches, then over ranks.  What data parallelism and
// ZeRO share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/parallel/group.hpp"
#include "src/parallel/predict.hpp"
#include "src/parallel/wire.hpp"

namespace tutti::parallel {

/// How gradients of all flat vectors of a handle are summed.
struct SumPlan {
  bool invariant = false;
  tuttiWire_t wire = tuttiWireExact;
  bool feedback = false;          // what rounding takes from a sum is added to the next one
  std::vector<int64_t> leafCuts;  // micro-batches before each rank, [nRanks + 1]
  double weight = 1;              // of this rank's micro-batches
  double scale = 1;               // of the sum

  int64_t mine(int rank) const { return leafCuts[static_cast<size_t>(rank) + 1] - leafCuts[static_cast<size_t>(rank)]; }
};

/// All ranks' microBatches and weights.  Collective.
SumPlan agreeOnSums(Group& group, int microBatches, double weight, bool average, int numerics, int wire, bool feedback,
                    tuttiDataType_t dtype);

/// Throws tuttiInvalidUsage unless all ranks hold the same list; names the first odd rank and parameter.  Collective.
void compareParameters(Group& group, const tuttiParameter_t* parameters, size_t n);

template <class T>
class FlatGradient {
 public:
  FlatGradient(Device& device, size_t count, const SumPlan& plan, int rank)
      : device_(&device), plan_(&plan), data_(device, count) {
    if (!plan.invariant) return;
    counter_ = std::make_unique<LeafCounter<T>>(
        device, plan.leafCuts.back(),
        LeafRange{plan.leafCuts[static_cast<size_t>(rank)], plan.leafCuts[static_cast<size_t>(rank) + 1]}, count);
  }
  T* data() { return data_.data(); }
  size_t count() const { return data_.size(); }

  /// This micro-batch's part [offset, offset + n) is complete.  Layout-invariant: it is taken away as (part of) a leaf.
  void takeIn(size_t offset, size_t n) {
    if (counter_ == nullptr) return;
    counter_->add(data() + offset, offset, n);
    zeroBytes(*device_, data() + offset, n * sizeof(T));
  }
  void endMicroBatch() {
    if (counter_ != nullptr) counter_->advance();
  }
  void clear() {
    data_.clear();
    if (counter_ != nullptr) counter_->reset();
  }

  /// All micro-batches are in: data becomes the scaled sum over the group, on every rank.
  void reduceAll(Group& group) {
    const std::vector<int64_t> slices = evenCuts(static_cast<int64_t>(count()), 1, group.size());
    if (counter_ != nullptr) {
      group.treeAllReduce(counter_->sums(), data(), plan_->leafCuts.data(), slices.data());
    } else {
      scaleVector(*device_, data(), count(), plan_->weight);
      if constexpr (sizeof(T) == 4) {
        if (plan_->wire != tuttiWireExact) {
          encodedAllReduce(group, plan_->wire, data(), static_cast<int64_t>(count()),
                           plan_->feedback ? &residuals_ : nullptr);
        } else {
          group.allReduce(data(), count(), dtypeOf<T>(), tuttiSum);
        }
      } else {
        group.allReduce(data(), count(), dtypeOf<T>(), tuttiSum);
      }
    }
    scaleVector(*device_, data(), count(), plan_->scale);
  }
  /// As above, and this rank's slice of the sum goes to `to`, which may be where it lies in data.
  void reduceSlice(Group& group, const std::vector<int64_t>& slices, T* to) {
    const size_t rank = static_cast<size_t>(group.rank());
    if (counter_ != nullptr) {
      group.treeReduceScatter(counter_->sums(), to, plan_->leafCuts.data(), slices.data());
    } else {
      scaleVector(*device_, data(), count(), plan_->weight);
      group.reduceScatter(data(), to, slices.data(), dtypeOf<T>());
    }
    scaleVector(*device_, to, static_cast<size_t>(slices[rank + 1] - slices[rank]), plan_->scale);
  }
  void predict(tuttiTraffic_t& traffic, const Group& group, const std::vector<int64_t>& slices, bool all) const {
    if (plan_->wire != tuttiWireExact) {
      return predictEncoded(traffic, group, plan_->wire, static_cast<int64_t>(count()));
    }
    const size_t r = static_cast<size_t>(group.rank());
    const std::vector<LeafRange> parts =
        subtreesOf(plan_->leafCuts.back(), {plan_->leafCuts[r], plan_->leafCuts[r + 1]});
    predictSum(traffic, group, count() * sizeof(T), static_cast<uint64_t>(slices[r + 1] - slices[r]) * sizeof(T),
               plan_->invariant, parts.size(), all);
  }

 private:
  Device* device_;
  const SumPlan* plan_;
  Array<T> data_;
  Residuals residuals_;
  std::unique_ptr<LeafCounter<T>> counter_;
};

}  // namespace tutti::parallel
