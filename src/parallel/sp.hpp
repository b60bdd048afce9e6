// Which tokens ranks have, and attention over parts of a sequence.
#pragma once

#include <memory>
#include <vector>

#include "src/parallel/attention.hpp"
#include "src/parallel/group.hpp"
#include "src/parallel/sender.hpp"
#include "src/parallel/tensor.hpp"
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
  Products products;
  Device* device = nullptr;  // all that follows is in its memory
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

/// Bytes of what either holds at most, with elements of `one` bytes.
size_t attendBytes(const HeadPart& part, const std::vector<TokenBlock>& queries, const std::vector<TokenBlock>& keys,
                   size_t one, bool gradient);

/// Visible entries of the scores of these queries over these keys.
int64_t visibleEntries(const std::vector<TokenBlock>& queries, const std::vector<TokenBlock>& keys, bool causal);

}  // namespace tutti::parallel

struct tuttiSp {
  tuttiSp(std::shared_ptr<tutti::parallel::Device> of, tuttiComm_t ulyssesComm, tuttiComm_t ringComm)
      : device(std::move(of)), ulysses(ulyssesComm, *device), ring(ringComm, *device) {}
  std::shared_ptr<tutti::parallel::Device> device;  // first: ends after what lies in its memory
  tutti::parallel::Group ulysses, ring;
  tuttiSpConfig_t config = TUTTI_SP_CONFIG_INITIALIZER;
  tutti::parallel::HeadPart part;                                // this rank's heads
  std::vector<std::vector<tutti::parallel::TokenBlock>> blocks;  // of each rank of the ring
  std::vector<int64_t> tokenCuts, groupCuts;        // of the ring rank's tokens, and of groups of heads, over ulysses
  std::unique_ptr<tutti::parallel::Sender> sender;  // of keys and values round the ring
  std::vector<int64_t> leafCuts, leafRuns;          // with leaves: of the sequence; of leaves over the ring's ranks

  int64_t mostHeld = 0;  // bytes, by any call so far

  bool inLeaves() const { return config.leaves > 0; }
  bool gathers() const { return (config.gather && ring.size() > 1) || inLeaves(); }
  int64_t ringTokens(int rank) const { return tutti::parallel::tokensIn(blocks[static_cast<size_t>(rank)]); }
  int64_t whole() const { return ringTokens(ring.rank()); }
  int64_t own() const {
    const size_t r = static_cast<size_t>(ulysses.rank());
    return tokenCuts[r + 1] - tokenCuts[r];
  }
  int64_t perGroup() const { return config.heads / config.kvHeads; }
  int64_t queryColumns() const { return part.shape.heads * config.headDim; }
  int64_t keyColumns() const { return part.shape.kvHeads * config.headDim; }
  size_t querySize() const { return static_cast<size_t>(config.batch * whole() * queryColumns()); }
  size_t keySize(int rank) const { return static_cast<size_t>(config.batch * ringTokens(rank) * keyColumns()); }
  size_t lseSize() const { return static_cast<size_t>(config.batch * whole() * part.shape.heads); }
  size_t savedSize() const { return 2 * querySize() + 2 * keySize(ring.rank()) + lseSize(); }
};

namespace tutti::parallel {

/// The formula of tuttiSpTraffic for elements of `one` bytes.
void predictSp(const tuttiSp& sp, size_t one, tuttiTraffic_t& traffic);
/// The formula of tuttiSpMemory.
size_t predictSpMemory(const tuttiSp& sp, size_t one);
/// Cuts tokens at leaves: blocks, tokenCuts, leafCuts and leafRuns.
void cutIntoLeaves(tuttiSp& sp);

}  // namespace tutti::parallel
