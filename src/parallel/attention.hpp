// Attention on a device, and the matrix products that it is made of.
#pragma once

#include "src/parallel/loops.hpp"
#include "src/parallel/products.hpp"

namespace tutti::parallel {

/// Which products a caller's kernel table asks for.  On the host the table's.  On CUDA NULL and tuttiKernelsFast's
/// stand for the device's fastest, tuttiKernelsInvariant's for Tutti's own there; any other table gets the device's
/// addresses.
class Products {
 public:
  Products() = default;
  Products(const Device& device, const tuttiKernels_t* kernels);
  /// Throws what a table's product failed with.
  void multiply(Device& device, const tuttiMatmul_t& call, const Batch& batch) const;

 private:
  enum class Method { Table, Fast, Own };
  tuttiKernels_t table_ = TUTTI_KERNELS_INITIALIZER;
  Method method_ = Method::Table;
};

struct AttentionOperands {
  const tuttiTensor_t *q, *k, *v, *out, *lse;
};
struct AttentionGradients {
  const tuttiTensor_t *dout, *dq, *dk, *dv;
};

/// See tuttiAttentionMemory.
size_t attentionBytes(const tuttiAttention_t& shape, size_t elementBytes, bool onHost, bool gradient);
/// See tuttiAttentionForward and tuttiAttentionBackward.  All tensors are in the device's memory.
void attentionForward(Device& device, const tuttiAttention_t* shape, const Products& products,
                      const AttentionOperands& operands);
void attentionBackward(Device& device, const tuttiAttention_t* shape, const Products& products,
                       const AttentionOperands& operands, const AttentionGradients& gradients);

}  // namespace tutti::parallel
