// Which tokens ranks have, and attention over parts of a sequence.
#pragma once

#include <memory>
#include <vector>

#include "src/parallel/group.hpp"
#include "src/parallel/tensor.hpp"
#include "src/parallel/worker.hpp"
#include "tutti/parallel/sp.h"

namespace tutti::parallel {

/// Tokens first, first + step, ... of a sequence, which are a rank's rows [row, row + count).
struct TokenBlock {
  int64_t row, count, first, step;
};

/// Blocks of a rank's tokens.
std::vector<TokenBlock> tokenBlocks(int tokens, int64_t sequence, int rank, int nRanks);
int64_t tokensIn(const std::vector<TokenBlock>& blocks);

/// Attention of some heads of `batch` sequences: what is between the all-to-alls.
struct HeadPart {
  tuttiAttention_t shape = TUTTI_ATTENTION_INITIALIZER;  // heads, kvHeads, headDim, causal, scale of this rank
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
};

/// A rank's tokens of some tensors: rows [batch * tokens], heads * headDim columns.
template <class T>
struct Tokens {
  const std::vector<TokenBlock>* blocks;
  T* data;
  int64_t tokens;  // per sequence
  int64_t columns;
  tuttiTensor_t rows(int64_t sequence, const TokenBlock& block) const;
};

/// out, lse of queries over these keys are merged into what they hold (lse -infinity: nothing yet).
template <class T>
void attendTo(const HeadPart& part, Tokens<T> q, Tokens<T> k, Tokens<T> v, Tokens<T> out, T* lse);
/// dq, dk, dv are added to.
template <class T>
void attendBackward(const HeadPart& part, Tokens<T> q, Tokens<T> k, Tokens<T> v, Tokens<T> out, const T* lse,
                    Tokens<T> dout, Tokens<T> dq, Tokens<T> dk, Tokens<T> dv);

/// Visible entries of the scores of these queries over these keys.
int64_t visibleEntries(const std::vector<TokenBlock>& queries, const std::vector<TokenBlock>& keys, bool causal);

}  // namespace tutti::parallel
