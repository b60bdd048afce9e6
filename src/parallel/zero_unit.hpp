// What a rank holds of one unit of parameters: values, gradients, states, each whole or its slice.
#pragma once

#include <memory>
#include <vector>

#include "src/parallel/gradients.hpp"
#include "src/parallel/optimizer.hpp"
#include "src/parallel/sender.hpp"

namespace tutti::parallel {

struct ByteCount {
  size_t now = 0, peak = 0;
  void add(size_t bytes) {
    now += bytes;
    peak = now > peak ? now : peak;
  }
  void remove(size_t bytes) { now -= bytes; }
};

/// Not safe for threads, but for what is marked as the sender's.
template <class T>
class ZeroUnit {
 public:
  ZeroUnit(Device& device, size_t count, const tuttiZeroConfig_t& config, const SumPlan& plan, int rank, int nRanks,
           ByteCount& bytes)
      : device_(device),
        config_(config),
        plan_(plan),
        bytes_(bytes),
        rank_(static_cast<size_t>(rank)),
        count_(count),
        slices_(evenCuts(static_cast<int64_t>(count), 1, nRanks)),
        valueBytes_(bytesOfValue()) {
    const size_t states = config.stage == 0 ? count : mine();
    if (config.stage < 3) hold(values_, count * valueBytes_);
    if (separateMaster()) holdT(master_, states);
    if (statesOf(config.optimizer.kind) > 0) holdT(first_, states);
    if (statesOf(config.optimizer.kind) > 1) holdT(second_, states);
    if (config.stage < 2) {
      whole_ = std::make_unique<FlatGradient<T>>(device, count, plan, rank);
      bytes_.add(count * sizeof(T));
    } else {
      holdT(sliceSum_, mine());
      if (plan.invariant) makeCounters(nRanks);
    }
  }

  size_t count() const { return count_; }
  size_t mine() const { return static_cast<size_t>(slices_[rank_ + 1] - slices_[rank_]); }
  size_t begin() const { return static_cast<size_t>(slices_[rank_]); }
  const std::vector<int64_t>& slices() const { return slices_; }
  char* values() { return values_.data(); }
  size_t valueBytes() const { return valueBytes_; }

  /// The initial values, whole, in the device's memory.
  void fill(const T* from) {
    const size_t at = config_.stage == 0 ? 0 : begin(), n = config_.stage == 0 ? count_ : mine();
    if (separateMaster()) copyBytes(device_, master_.data(), from + at, n * sizeof(T));
    if (config_.stage < 3) storeValues(from, 0, count_);
  }
  void makeRoom() {
    if (values_.empty()) hold(values_, count_ * valueBytes_, Array<char>::Any);  // all of it is gathered
  }
  void freeValues() {
    bytes_.remove(values_.size());
    values_ = {};
  }
  /// The sender's: values of all slices, from the slice that this rank owns.
  void gather(Group& group) {
    if (config_.stage == 3) storeValues(master_.data(), begin(), mine());
    group.allGather(values(), slices_.data(), valueType());
  }

  /// Where gradients are added; room is made where they are not always held.
  T* gradient() {
    if (whole_ != nullptr) return whole_->data();
    if (gradient_.empty()) holdT(gradient_, count_);
    return gradient_.data();
  }
  bool holdsGradient() const { return !gradient_.empty(); }
  void freeGradient() {
    bytes_.remove(gradient_.size() * sizeof(T));
    gradient_ = {};
  }
  void takeIn(size_t offset, size_t n) {
    if (whole_ != nullptr) whole_->takeIn(offset, n);
  }
  void endMicroBatch() {
    if (whole_ != nullptr) whole_->endMicroBatch();
  }
  void clear() {
    if (whole_ != nullptr) return whole_->clear();
    sliceSum_.clear();
    for (LeafCounter<T>& counter : counters_) counter.reset();
  }

  /// The sender's, stages 0 and 1, after the last micro-batch.
  void reduceStep(Group& group, Group& replicas) {
    if (config_.stage == 0) {
      whole_->reduceAll(group);
      replicas.allReduce(whole_->data(), count_, dtypeOf<T>(), tuttiSum);
    } else {
      whole_->reduceSlice(group, slices_, whole_->data() + begin());
      replicas.allReduce(whole_->data() + begin(), mine(), dtypeOf<T>(), tuttiSum);
    }
  }
  /// The sender's, stages 2 and 3, after each micro-batch.
  void reduceMicroBatch(Group& group) {
    if (plan_.invariant) return exchangeLeaf(group);
    Array<T> slice(device_, mine(), Array<T>::Any);
    group.reduceScatter(gradient_.data(), slice.data(), slices_.data(), dtypeOf<T>());
    addVector<T>(device_, sliceSum_.data(), slice.data(), slice.size());
  }
  /// The sender's, stages 2 and 3, after the last micro-batch.
  void finishSum(Group& replicas) {
    if (plan_.invariant) {
      std::vector<LeafRange> have;
      std::vector<T*> sums;
      for (size_t r = 0; r < counters_.size(); ++r) {
        const auto nodes = subtreesOf(plan_.leafCuts.back(), {plan_.leafCuts[r], plan_.leafCuts[r + 1]});
        have.insert(have.end(), nodes.begin(), nodes.end());
        for (const T* sum : counters_[r].sums()) sums.push_back(const_cast<T*>(sum));
      }
      const T* total = combineSubtrees(device_, {0, plan_.leafCuts.back()}, have, sums, mine());
      copyBytes(device_, sliceSum_.data(), total, mine() * sizeof(T));
    }
    scaleVector(device_, sliceSum_.data(), mine(), plan_.scale);
    replicas.allReduce(sliceSum_.data(), mine(), dtypeOf<T>(), tuttiSum);
  }

  /// The averaged gradient of what this rank owns.
  T* ownGradient() { return whole_ != nullptr ? whole_->data() + begin() : sliceSum_.data(); }
  /// The values of what this rank owns, from which updates go on.
  T* ownValues() {
    if (separateMaster()) return master_.data() + (config_.stage == 0 ? begin() : 0);
    return reinterpret_cast<T*>(values()) + begin();
  }
  T* ownState(int which) { return (which == 0 ? first_ : second_).data() + (config_.stage == 0 ? begin() : 0); }
  /// The sender's: what owners hold was replaced; whoever else holds it gets it.
  void shareOwned(Group& group) {
    if (config_.stage == 3) return;
    for (Array<T>* whole : {&master_, &first_, &second_}) {
      if (config_.stage == 0 && !whole->empty()) group.allGather(whole->data(), slices_.data(), dtypeOf<T>());
    }
    if (separateMaster()) storeValues(ownValues(), begin(), mine());
    gather(group);
  }
  /// Update elements [from, to) of the unit, as far as this rank updates them.
  ///   scale  what gradients are multiplied by, in the device's memory; NULL: 1
  void update(const tuttiOptimizer_t& optimizer, int64_t step, const double* scale, bool decays, size_t from,
              size_t to) {
    const size_t first = config_.stage == 0 ? 0 : begin(), last = config_.stage == 0 ? count_ : begin() + mine();
    from = std::max(from, first);
    to = std::min(to, last);
    if (from >= to) return;
    const size_t at = from - first;
    T* w = separateMaster() ? master_.data() + at : reinterpret_cast<T*>(values()) + from;
    const T* g = config_.stage < 2 ? whole_->data() + from : sliceSum_.data() + at;
    updateElements<T>(device_, optimizer, step, 1, scale, decays, w, g, first_.empty() ? nullptr : first_.data() + at,
                      second_.empty() ? nullptr : second_.data() + at, to - from);
    if (separateMaster() && config_.stage < 3) storeValues(w, from, to - from);
  }

  /// Between steps; and what is added while its values or gradients are whole.
  size_t expectedBytes() const {
    const size_t own = config_.stage == 0 ? count_ : mine();
    size_t bytes = own * sizeof(T) * static_cast<size_t>(statesOf(config_.optimizer.kind));
    if (separateMaster()) bytes += own * sizeof(T);
    if (config_.stage < 3) bytes += count_ * valueBytes_;
    return bytes + (config_.stage < 2 ? count_ : mine()) * sizeof(T);
  }
  size_t wholeValues() const { return config_.stage == 3 ? count_ * valueBytes_ : 0; }
  size_t wholeGradient() const { return config_.stage >= 2 ? count_ * sizeof(T) : 0; }

  void predict(tuttiTraffic_t& traffic, const Group& group, int gathers, int reductions) const {
    const uint64_t one = sizeof(T);
    for (int i = 0; i < reductions; ++i) {
      if (whole_ != nullptr) {
        whole_->predict(traffic, group, slices_, config_.stage == 0);
      } else {
        predictSum(traffic, group, count_ * one, mine() * one, plan_.invariant, 1, false);
      }
    }
    for (int i = 0; i < gathers; ++i) predictGather(traffic, group, count_ * valueBytes_);
  }

  Sender::Sent gathering;  // valid while values are on their way, or there
  std::vector<Sender::Sent> reducing;
  size_t missing = 0;  // gradients of this micro-batch
  size_t parameters = 0;

 private:
  bool rounded() const { return config_.values == tuttiBfloat16; }
  bool separateMaster() const { return config_.stage == 3 || rounded(); }
  size_t bytesOfValue() const { return rounded() ? 2 : sizeof(T); }
  tuttiDataType_t valueType() const { return rounded() ? tuttiBfloat16 : dtypeOf<T>(); }

  void hold(Array<char>& room, size_t n, Array<char>::Contents contents = Array<char>::Zeros) {
    room = Array<char>(device_, n, contents);
    bytes_.add(n);
  }
  void holdT(Array<T>& room, size_t n) {
    room = Array<T>(device_, n);
    bytes_.add(n * sizeof(T));
  }
  void storeValues(const T* from, size_t at, size_t n) {
    if (!rounded()) return copyBytes(device_, values() + at * sizeof(T), from, n * sizeof(T));
    launch<T, Kernel::Narrow>(device_, {values() + at * sizeof(uint16_t), from, n, 0});
  }

  void makeCounters(int nRanks) {
    for (size_t r = 0; r < static_cast<size_t>(nRanks); ++r) {
      counters_.emplace_back(device_, plan_.leafCuts.back(), LeafRange{plan_.leafCuts[r], plan_.leafCuts[r + 1]},
                             mine());
    }
  }
  /// Every rank's leaf of this micro-batch, this rank's slice of it.
  void exchangeLeaf(Group& group) {
    const size_t n = counters_.size();
    std::vector<size_t> sendCounts(n), receiveCounts(n, mine());
    for (size_t r = 0; r < n; ++r) sendCounts[r] = static_cast<size_t>(slices_[r + 1] - slices_[r]);
    Array<T> leaves(device_, n * mine(), Array<T>::Any);
    group.allToAll(gradient_.data(), sendCounts, leaves.data(), receiveCounts, dtypeOf<T>());
    for (size_t r = 0; r < n; ++r) {
      counters_[r].add(leaves.data() + r * mine(), 0, mine());
      counters_[r].advance();
    }
  }

  Device& device_;
  const tuttiZeroConfig_t& config_;
  const SumPlan& plan_;
  ByteCount& bytes_;
  size_t rank_, count_;
  std::vector<int64_t> slices_;
  size_t valueBytes_;
  Array<char> values_;
  Array<T> master_, first_, second_;        // of the slice (stage 0: of all)
  std::unique_ptr<FlatGradient<T>> whole_;  // stages 0 and 1
  Array<T> gradient_, sliceSum_;            // stages 2 and 3
  std::vector<LeafCounter<T>> counters_;    // layout-invariant stages 2 and 3: a rank's leaves each
};

}  // namespace tutti::parallel
