// What a rank's training is made of besides the model: groups of ranks, and what stands between model and storage.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/gpt/call.hpp"
#include "examples/gpt/room.hpp"
#include "examples/gpt/storage.hpp"
#include "tutti/parallel/grid.h"

namespace gpt {

/// A grid and the groups of it that have more than one rank.
class Groups {
 public:
  Groups(const Layout& layout, tuttiComm_t world) : world_(world) {
    if (world == nullptr) return;
    const std::string axes = "tp=" + std::to_string(layout.tp) + ",ulysses=" + std::to_string(layout.ulysses) +
                             ",ring=" + std::to_string(layout.ring) + ",ep=" + std::to_string(layout.ep) +
                             ",pp=" + std::to_string(layout.pp) + ",dp=" + std::to_string(layout.dp);
    call(tuttiGridCreate(&grid_, world, axes.c_str(), nullptr));
    tp = layout.tp > 1 ? along("tp") : nullptr;
    pp = layout.pp > 1 ? along("pp") : nullptr;
    sameExperts = layout.dp > 1 ? along("dp") : nullptr;
    ep = layout.ep > 1 ? along("ep") : nullptr;
    dp = layout.ep > 1 ? along("ep-dp") : sameExperts;
    others.ulysses = layout.ulysses > 1 ? along("ulysses") : nullptr;
    others.ring = layout.ring > 1 ? along("ring") : nullptr;
    others.both = layout.ulysses * layout.ring > 1 ? along("ulysses-ring") : nullptr;
    others.tokens = layout.tokens;
    call(tuttiGridCoordinate(grid_, "ulysses-ring", -1, &tokenRank));
    call(tuttiGridCoordinate(grid_, "tp", -1, &tpRank));
    call(tuttiGridCoordinate(grid_, "pp", -1, &ppRank));
    call(tuttiGridCoordinate(grid_, "ep-dp", -1, &dpRank));
  }
  ~Groups() { tuttiGridDestroy(grid_); }
  /// This rank has failed: nobody waits for it in any group.
  void revoke() const {
    for (tuttiComm_t comm : {world_, tp, pp, dp, ep, sameExperts, others.ulysses, others.ring, others.both}) {
      if (comm != nullptr) tuttiCommRevoke(comm, 0);
    }
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// Over all ranks, of the host's memory.
  template <class T>
  void reduce(std::vector<T>& data, tuttiDataType_t dtype, tuttiRedOp_t op = tuttiSum) const {
    if (world_ == nullptr || data.empty()) return;
    const Room<T> there(data);
    callComm(tuttiAllReduce(there.data(), there.data(), data.size(), dtype, op, world_, Place::current().stream()),
             world_);
    data = there.host();
  }
  tuttiComm_t tp = nullptr, pp = nullptr;
  tuttiComm_t dp = nullptr;  // ranks that have other micro-batches; of them, those that
  tuttiComm_t ep = nullptr, sameExperts = nullptr;
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
  tuttiTensor_t gradientFrom(size_t p, int source) override { return real_.gradientFrom(other(p), source); }
  void unshard(int unit) override { real_.unshard(unit); }
  void reshard(int unit, bool afterForward) override { real_.reshard(unit, afterForward); }
  void ready(size_t p) override { real_.ready(other(p)); }

 private:
  size_t other(size_t p) const { return p == a_ ? b_ : p == b_ ? a_ : p; }
  Storage& real_;
  size_t a_ = 0, b_ = 0;
};

}  // namespace gpt
