// A decoder-only transformer, forward and backward written by hand on Tutti's layers.  Pre-norm blocks, learned
// positions, GELU, grouped-query attention (Radford et al., GPT-2, 2019, for the shape of it).
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "examples/gpt/experts.hpp"
#include "examples/gpt/layout.hpp"
#include "examples/gpt/parameters.hpp"
#include "examples/gpt/room.hpp"
#include "tutti/parallel/sp.h"
#include "tutti/parallel/tp.h"

namespace gpt {

constexpr double kSpread = 0.05;  // of initial weights

/// Where values and gradients lie, and who is told of progress: data parallelism of some kind.
class Storage {
 public:
  virtual ~Storage() = default;
  virtual tuttiTensor_t value(size_t parameter) = 0;
  virtual tuttiTensor_t gradient(size_t parameter) = 0;
  /// Of an expert: for the tokens of one of the ranks that share it.
  virtual tuttiTensor_t gradientFrom(size_t parameter, int /*source*/) { return gradient(parameter); }
  virtual void unshard(int unit) = 0;
  virtual void reshard(int unit, bool afterForward) = 0;
  virtual void ready(size_t parameter) = 0;
};

/// Layers [firstLayer, endLayer) with the embedding if it is the first stage, the head if it is the last.
struct Stage {
  int64_t firstLayer = 0, endLayer = 0;
  bool first = true, last = true;
};

/// Ranks that have other tokens of the same sequences; NULL: none.
struct TokenGroups {
  tuttiComm_t ulysses = nullptr, ring = nullptr, both = nullptr;
  int tokens = 0;  // tuttiTokens_t
};

/// This rank's part of one stage.  T is float, or double to check gradients with.
template <class T>
class Model {
 public:
  /// comm: the tensor-parallel group, NULL for one rank.  experts: blocks have them; ep: over which ranks, NULL for
  /// one.
  Model(const Shape& shape, const Stage& stage, tuttiComm_t comm, bool sequence, const Run& run, bool tied = false,
        const TokenGroups& others = {}, bool experts = false, tuttiComm_t ep = nullptr);
  ~Model();

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Numbers of the embedding and of the head in parameters(); -1: not in this stage.
  int embedding() const { return stage_.first ? 0 : -1; }
  int head() const { return stage_.last ? static_cast<int>(finalNorm_) + 2 : -1; }
  int units() const { return parameters_.empty() ? 0 : parameters_.back().unit + 1; }
  /// Elements between stages on this rank, for one micro-batch.
  int64_t boundary() const { return ownTokens_ * shape_.width; }

  /// One micro-batch through the stage; `slot` keeps what backward needs, one per micro-batch in flight.
  ///   ids, targets  [perMicroBatch * sequence]; read by the first and the last stage
  ///   in, out       [boundary()]; NULL where the stage is first or last
  ///   Returns the mean loss (last stage), else 0
  double forward(int slot, const int32_t* ids, const int32_t* targets, const T* in, T* out, Storage& storage);
  /// Gradients are added to; dout is of out, din of in.  After forward of the same slot.
  /// weights = false: gradients of parameters wait for backwardWeight.
  void backward(int slot, const int32_t* ids, const T* dout, T* din, Storage& storage, bool weights = true);
  void backwardWeight(int slot);
  /// Of a whole micro-batch, the tokens that this rank has.
  std::vector<int32_t> ownTokens(const std::vector<int32_t>& whole) const;

  /// What went through the tensor-parallel group, and what a micro-batch should cause there.
  tuttiTraffic_t traffic() const;
  tuttiTraffic_t expected() const;
  /// Of tokens to experts and back, so far; what is expected follows from the routes.
  void expertTraffic(tuttiTraffic_t* counted, tuttiTraffic_t* expected) const;

 private:
  struct Block {
    tuttiLinear_t qkv, proj, up, down;  // the last two NULL where there are experts
    size_t parameter;                   // number of its first
    std::unique_ptr<Experts<T>> experts;
  };
  struct Saved {
    Room<T> in, normed, qkv, attention, lse, middle, normed2, up, gelu;
    Room<T> kept;  // of tuttiSp_t, which has these instead of lse
    Routed<T> routed;
  };
  struct Slot {
    std::vector<Saved> blocks;
    Room<T> last, normed, dlogits;
    std::vector<std::function<void()>> later;  // what backwardWeight does
  };
  using Buffer = Room<T>;

  void addParameter(const char* name, int64_t rows, int64_t columns, int64_t cutRows0, int64_t cutRows1,
                    int64_t cutColumns0, int64_t cutColumns1, int unit, double spread, double middle = 0);
  int64_t vocabularyHere() const {
    return vocabulary_[static_cast<size_t>(rank_) + 1] - vocabulary_[static_cast<size_t>(rank_)];
  }
  void describe();
  void describeMlp(Block& block, int unit);
  tuttiTensor_t rowsOf(Buffer& b, int64_t columns);
  void blockForward(const Block& block, Saved& saved, Buffer& x, Storage& storage);
  void blockBackward(const Block& block, Saved& saved, Buffer& dx, Storage& storage);
  ExpertViews<T> expertValues(const Block& block, Storage& storage) const;
  void mlpForward(const Block& block, Saved& saved, Buffer& y, Storage& storage);
  void mlpBackward(const Block& block, Saved& saved, Buffer& dy, Buffer& dx, Storage& storage);
  void expertGradients(const Block& block, Saved& saved, Storage& storage);
  void linearBackward(tuttiLinear_t linear, Buffer& x, int64_t inputs, size_t weight, bool bias, Buffer& dy,
                      int64_t outputs, Buffer& dx, Storage& storage);
  /// Now, or in backwardWeight.
  void addGradients(std::function<void()> task);
  void linear(tuttiLinear_t linear, Buffer& from, int64_t in, size_t weight, Buffer& to, int64_t rows, int64_t out,
              Storage& storage);
  tuttiLinear_t makeLinear(bool column, int64_t in, int64_t out, int64_t of, int64_t* begin, int64_t* end);
  void cutTokens(const TokenGroups& others);
  void cutRows();
  void attendOverRanks();
  void attention(Saved& saved, Buffer* dqkv, Buffer* dattention);
  void attentionOverRanks(Saved& saved, Buffer* dqkv, Buffer* dattention);
  void normBackward(Buffer& x, size_t gamma, Buffer& dy, Buffer& dx, Storage& storage);
  /// gradient += the sum over all ranks' tokens; `fill` adds rows [begin, end) of this rank's tokens to a zeroed leaf.
  template <class Fill>
  void addTokenSums(tuttiTensor_t gradient, const Fill& fill);
  double meanOf(const Buffer& losses);
  void embed(const int32_t* ids, Buffer& x, Storage& storage);
  void embedBackward(const int32_t* ids, Buffer& dx, Storage& storage);

  Shape shape_;
  Stage stage_;
  tuttiComm_t comm_;
  bool sequence_, invariant_, tied_, experts_;
  tuttiComm_t ep_;
  Mistake mistake_;
  int leaves_;  // of layout-invariant sums
  int rank_ = 0, nRanks_ = 1;
  tuttiTp_t tp_ = nullptr;
  TokenGroups others_;
  int otherRanks_ = 1, otherRank_ = 0;  // that have other tokens
  tuttiSp_t sp_ = nullptr;              // where tokens lie on several ranks, and layout-invariant
  struct FaultyHop {
    tuttiKernels_t kernels;
    int64_t perHop, scores;  // products that make scores: of a hop, so far
  } faultyHop_{};
  static tuttiResult_t maskFirstHop(void* faultyHop, const tuttiMatmul_t* product);
  std::vector<int64_t> positions_;  // of this rank's tokens, in all sequences of a micro-batch
  tuttiTp_t table_ = nullptr;       // that of positions is whole on every rank
  std::vector<int32_t> places_;     // positions of the tokens between layers
  int64_t wholeTokens_, tokens_, ownTokens_, firstToken_ = 0;
  int64_t groups_ = 0;                       // of heads, on this rank
  std::vector<int64_t> vocabulary_;          // cuts
  std::vector<int64_t> rowCuts_, lossCuts_;  // leaves of this rank's rows between layers, and of its tokens' losses
  std::vector<Block> blocks_;
  tuttiLinear_t head_ = nullptr;
  std::vector<Parameter> parameters_;
  size_t finalNorm_ = 0;
  std::deque<Slot> slots_;    // one stays where it is
  Slot* deferred_ = nullptr;  // in a backward without weights
  bool splits_ = false;       // backward passes are such
};

}  // namespace gpt
