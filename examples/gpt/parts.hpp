// What a rank's training is made of besides the model: groups of ranks, and what stands between model and storage.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/gpt/call.hpp"
#include "examples/gpt/storage.hpp"
#include "tutti/parallel/grid.h"
#include "tutti/parallel/sums.h"

namespace gpt {

/// A grid and the groups of it that have more than one rank.
class Groups {
 public:
  Groups(const Layout& layout, tuttiComm_t world) : world_(world) {
    if (world == nullptr) return;
    const std::string axes = "tp=" + std::to_string(layout.tp) + ",ulysses=" + std::to_string(layout.ulysses) +
                             ",ring=" + std::to_string(layout.ring) + ",pp=" + std::to_string(layout.pp) +
                             ",dp=" + std::to_string(layout.dp);
    call(tuttiGridCreate(&grid_, world, axes.c_str(), nullptr));
    tp = layout.tp > 1 ? along("tp") : nullptr;
    pp = layout.pp > 1 ? along("pp") : nullptr;
    dp = layout.dp > 1 ? along("dp") : nullptr;
    others.ulysses = layout.ulysses > 1 ? along("ulysses") : nullptr;
    others.ring = layout.ring > 1 ? along("ring") : nullptr;
    others.both = layout.ulysses * layout.ring > 1 ? along("ulysses-ring") : nullptr;
    others.tokens = layout.tokens;
    call(tuttiGridCoordinate(grid_, "ulysses-ring", -1, &tokenRank));
    call(tuttiGridCoordinate(grid_, "tp", -1, &tpRank));
    call(tuttiGridCoordinate(grid_, "pp", -1, &ppRank));
    call(tuttiGridCoordinate(grid_, "dp", -1, &dpRank));
  }
  ~Groups() { tuttiGridDestroy(grid_); }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  template <class T>
  void sum(T* data, size_t count, tuttiDataType_t dtype) const {
    if (world_ == nullptr || count == 0) return;
    callComm(tuttiAllReduce(data, data, count, dtype, tuttiSum, world_, nullptr), world_);
  }
  tuttiComm_t tp = nullptr, pp = nullptr, dp = nullptr;
  TokenGroups others;
  int tpRank = 0, ppRank = 0, dpRank = 0, tokenRank = 0;

 private:
  tuttiComm_t along(const char* axis) {
    tuttiComm_t comm = nullptr;
    call(tuttiGridGroup(grid_, axis, &comm));
    return comm;
  }
  tuttiComm_t world_;
  tuttiGrid_t grid_ = nullptr;
};

/// The mistake of Mistake::SwappedGradients: two norms' gradients in each other's place.
class SwappedNorms final : public Storage {
 public:
  SwappedNorms(Storage& real, const std::vector<Parameter>& parameters) : real_(real) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].name == "norm1.gamma") a_ = p;
      if (parameters[p].name == "norm2.gamma") b_ = p;
    }
  }
  tuttiTensor_t value(size_t p) override { return real_.value(p); }
  tuttiTensor_t gradient(size_t p) override { return real_.gradient(other(p)); }
  void unshard(int unit) override { real_.unshard(unit); }
  void reshard(int unit, bool afterForward) override { real_.reshard(unit, afterForward); }
  void ready(size_t p) override { real_.ready(other(p)); }

 private:
  size_t other(size_t p) const { return p == a_ ? b_ : p == b_ ? a_ : p; }
  Storage& real_;
  size_t a_ = 0, b_ = 0;
};

/// Ranks with other tokens have the other summands of every gradient: their sum, per micro-batch, goes to the storage.
class TokenSums final : public Storage {
 public:
  TokenSums(Storage& real, const std::vector<Parameter>& parameters, tuttiComm_t others, bool invariant)
      : real_(real), comm_(others), invariant_(invariant) {
    int n = 0;
    callComm(tuttiCommCount(others, &n), others);
    for (int r = 0; r <= n; ++r) runs_.push_back(r);
    for (const Parameter& p : parameters) gradients_.emplace_back(static_cast<size_t>(p.count()));
  }
  tuttiTensor_t value(size_t p) override { return real_.value(p); }
  tuttiTensor_t gradient(size_t p) override {
    tuttiTensor_t view = real_.gradient(p);
    view.data = gradients_[p].data();
    return view;
  }
  void unshard(int unit) override { real_.unshard(unit); }
  void reshard(int unit, bool afterForward) override { real_.reshard(unit, afterForward); }
  void ready(size_t p) override {
    std::vector<float>& mine = gradients_[p];
    sum_.resize(mine.size());
    if (invariant_) {
      call(tuttiTreeAllReduce(mine.data(), sum_.data(), mine.size(), tuttiFloat32, runs_.data(), comm_));
    } else {
      callComm(tuttiAllReduce(mine.data(), sum_.data(), mine.size(), tuttiFloat32, tuttiSum, comm_, nullptr), comm_);
    }
    float* to = static_cast<float*>(real_.gradient(p).data);
    for (size_t i = 0; i < mine.size(); ++i) {
      to[i] += sum_[i];
      mine[i] = 0;
    }
    real_.ready(p);
  }

 private:
  Storage& real_;
  tuttiComm_t comm_;
  bool invariant_;
  std::vector<int64_t> runs_;
  std::vector<std::vector<float>> gradients_;
  std::vector<float> sum_;
};

}  // namespace gpt
