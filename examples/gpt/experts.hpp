// A mixture of experts in the place of a block's MLP: a router picks a few for each token, which travel to the ranks
// that have them (Fedus et al., "Switch Transformers", JMLR 2022, for weighting by the router's probability).
#pragma once

#include <memory>
#include <vector>

#include "examples/gpt/layout.hpp"
#include "tutti/parallel/ep.h"
#include "tutti/parallel/kernels.h"

namespace gpt {

struct EpDeleter {
  void operator()(tuttiEp_t ep) const { tuttiEpDestroy(ep); }
};

/// What a micro-batch leaves for its backward pass in one block.
template <class T>
struct Routed {
  std::unique_ptr<tuttiEp, EpDeleter> ep;
  std::vector<T> probabilities;         // [tokens, experts]
  std::vector<int32_t> ids;             // [tokens, choices]
  std::vector<T> weights;               // [tokens, choices]: the probabilities of these
  std::vector<T> rows, up, gelu, kept;  // of what came here, by expert; what came back
  std::vector<T> dup, dy;               // backward: of the hidden rows, of the experts' results
  std::vector<T> dlogits;               // [tokens, experts]
  std::vector<int64_t> from;            // [experts here, ranks] rows
};

/// The parameters of a block's experts, as values or as gradients.  Experts here are e in [0, n): up has rows
/// [e F, (e + 1) F) of width h, down has rows [e h, (e + 1) h) of width F.
template <class T>
struct ExpertViews {
  T *router, *up, *upBias, *down, *downBias;
};

/// The arithmetic of one block's experts on this rank; holds no values.
template <class T>
class Experts {
 public:
  /// comm: ranks that share the experts; NULL: all are here.
  Experts(const Shape& shape, tuttiComm_t comm, bool invariant);

  int64_t begin() const { return begin_; }  // experts here: [begin, end)
  int64_t end() const { return end_; }
  int nSources() const { return nRanks_; }

  /// y [tokens, width] from x of the same shape.
  void forward(Routed<T>& r, const std::vector<T>& x, const ExpertViews<T>& values, std::vector<T>& y);
  /// dx from dy; x as in forward.
  void backward(Routed<T>& r, const std::vector<T>& dy, const ExpertViews<T>& values, std::vector<T>& dx);
  /// Adds the gradient of the router.
  void addRouter(Routed<T>& r, const std::vector<T>& x, T* gradient);
  /// Adds the gradients of experts, of rows that came from `source`; -1: from all.
  void addExperts(Routed<T>& r, int source, const ExpertViews<T>& gradients);

  /// What the routes of all micro-batches so far should cause, forward and backward.
  tuttiTraffic_t expected() const { return expected_; }

 private:
  void route(Routed<T>& r, int64_t tokens);
  /// product(e, first row, rows) for each expert here.
  template <class Product>
  void eachExpert(const Routed<T>& r, const Product& product) const;
  void matmul(bool transposeA, bool transposeB, bool accumulate, int64_t m, int64_t n, int64_t k, const T* a,
              const T* b, T* c) const;

  Shape shape_;
  tuttiComm_t comm_;
  tuttiKernels_t kernels_;
  int rank_ = 0, nRanks_ = 1;
  int64_t begin_ = 0, end_ = 0;
  tuttiTraffic_t expected_ = TUTTI_TRAFFIC_INITIALIZER;
};

}  // namespace gpt
