// Data parallelism where ranks share experts: all other parameters are replicas on every rank, an expert's on the ranks
// that have it, each of which gets tokens of several ranks.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "examples/gpt/call.hpp"
#include "examples/gpt/storage.hpp"

namespace gpt {

/// The two kinds of parameters with how each is summed.
struct StorageParts {
  std::vector<Parameter> dense, experts;
  StorageOptions denseOptions, expertOptions;
};
StorageParts partsOf(const std::vector<Parameter>& parameters, const StorageOptions& options);

/// Sums of vectors that come one after another, along the tree of sums.h: complete after a power of two of them.
template <class T>
class RunningTree {
 public:
  void add(std::vector<T> sum) {
    int level = 0;
    for (; !parts_.empty() && parts_.back().first == level; ++level) {
      std::vector<T> left = std::move(parts_.back().second);
      parts_.pop_back();
      for (size_t i = 0; i < sum.size(); ++i) left[i] += sum[i];
      sum = std::move(left);
    }
    parts_.emplace_back(level, std::move(sum));
  }
  std::vector<T> take() {
    std::vector<T> sum = std::move(parts_.at(0).second);
    parts_.clear();
    return sum;
  }

 private:
  std::vector<std::pair<int, std::vector<T>>> parts_;  // 2^first vectors in each
};

/// Layout-invariant: a leaf is a micro-batch, also of an expert's gradient.  The micro-batches of a rank that shares
/// this one's experts are a run of leaves, and this rank gets one of each such run at a time: a tree for each.
template <class T>
class ExpertStorage final : public Trainer {
 public:
  ExpertStorage(const std::vector<Parameter>& parameters, const StorageOptions& options, std::unique_ptr<Trainer> dense,
                std::unique_ptr<Trainer> experts)
      : options_(options), dense_(std::move(dense)), experts_(std::move(experts)) {
    size_t counts[2] = {0, 0};
    for (const Parameter& p : parameters) {
      places_.push_back({p.expert, counts[p.expert]++});
      if (p.expert) sizes_.push_back(static_cast<size_t>(p.count()));
    }
    callComm(tuttiCommCount(options.dp, &nRanks_), options.dp);
    trees_.resize(static_cast<size_t>(options.ep) * sizes_.size());
    leaves_.resize(trees_.size());
  }

  tuttiTensor_t value(size_t p) override { return of(p).value(places_[p].index); }
  tuttiTensor_t gradient(size_t p) override { return of(p).gradient(places_[p].index); }
  tuttiTensor_t gradientFrom(size_t p, int source) override {
    tuttiTensor_t view = gradient(p);
    if (!options_.invariant) return view;
    std::vector<T>& leaf = leaves_[at(source, places_[p].index)];
    leaf.resize(sizes_[places_[p].index]);
    view.data = leaf.data();
    return view;
  }
  void unshard(int) override {}
  void reshard(int, bool) override {}
  void begin() override {
    dense_->begin();
    if (!options_.invariant) experts_->begin();
  }
  void ready(size_t p) override {
    const size_t index = places_[p].index;
    if (!places_[p].expert || !options_.invariant) return of(p).ready(index);
    for (int source = 0; source < options_.ep; ++source) {
      std::vector<T>& leaf = leaves_[at(source, index)];
      trees_[at(source, index)].add(std::move(leaf));
      leaf.clear();
    }
  }
  std::vector<tuttiTensor_t> finish() override {
    for (int source = 0; source < options_.ep && options_.invariant; ++source) {
      experts_->begin();
      for (size_t i = 0; i < sizes_.size(); ++i) {
        const std::vector<T> sum = trees_[at(source, i)].take();
        std::copy(sum.begin(), sum.end(), static_cast<T*>(experts_->gradient(i).data));
        experts_->ready(i);
      }
    }
    std::vector<tuttiTensor_t> counted = dense_->finish();
    const std::vector<tuttiTensor_t> more = experts_->finish();
    // Of all micro-batches, as the others are averaged: ranks that share experts are no group of the experts' sums.
    const T scale = options_.average ? static_cast<T>(1.0 / (options_.microBatches * nRanks_)) : T(1);
    for (size_t i = 0; i < sizes_.size(); ++i) {
      T* g = static_cast<T*>(experts_->gradient(i).data);
      for (size_t e = 0; e < sizes_[i]; ++e) g[e] *= scale;
    }
    counted.insert(counted.end(), more.begin(), more.end());
    return counted;
  }
  double update(double scale) override {
    experts_->update(scale);
    return dense_->update(scale);
  }
  bool clips() const override { return false; }
  void owned(size_t p, int64_t* begin, int64_t* end, tuttiTensor_t* values) override {
    of(p).owned(places_[p].index, begin, end, values);
  }
  tuttiTraffic_t traffic() override { return both(dense_->traffic(), experts_->traffic()); }
  tuttiTraffic_t expected() override { return both(dense_->expected(), experts_->expected()); }
  double communication() override { return dense_->communication() + experts_->communication(); }
  double exposed() override { return dense_->exposed() + experts_->exposed(); }

 private:
  struct Place {
    bool expert;
    size_t index;  // among those of its kind
  };
  Trainer& of(size_t p) { return places_[p].expert ? *experts_ : *dense_; }
  size_t at(int source, size_t index) const { return static_cast<size_t>(source) * sizes_.size() + index; }
  static tuttiTraffic_t both(tuttiTraffic_t a, const tuttiTraffic_t& b) {
    addTraffic(a, b);
    return a;
  }

  StorageOptions options_;
  std::unique_ptr<Trainer> dense_, experts_;
  std::vector<Place> places_;
  std::vector<size_t> sizes_;  // of experts' parameters
  int nRanks_ = 1;
  std::vector<RunningTree<T>> trees_;  // layout-invariant: by source, then parameter
  std::vector<std::vector<T>> leaves_;
};

}  // namespace gpt
