// Attention over parts of a sequence: a mask between two blocks of tokens is one of offsets, and results over several
// blocks of keys are merged by their log-sum-exp.
#include <algorithm>

#include "src/parallel/sp.hpp"

namespace tutti::parallel {
namespace {

/// Where queries and keys of two blocks begin for a mask of offsets.
struct Offsets {
  int64_t query, key;
};
Offsets offsetsOf(const TokenBlock& q, const TokenBlock& k) {
  if (q.step == 1) return {q.first, k.first};
  return {0, k.first > q.first ? 1 : 0};  // stripes: key j is at or before query i if j <= i, or j < i
}

int64_t visible(const TokenBlock& q, const TokenBlock& k, bool causal) {
  if (!causal) return q.count * k.count;
  const Offsets at = offsetsOf(q, k);
  int64_t sum = 0;
  for (int64_t i = 0; i < q.count; ++i) sum += std::clamp<int64_t>(at.query + i - at.key + 1, 0, k.count);
  return sum;
}

tuttiAttention_t shapeOf(const HeadPart& part, const TokenBlock& q, const TokenBlock& k) {
  tuttiAttention_t s = part.shape;
  s.batch = 1;
  s.queries = q.count;
  s.keys = k.count;
  s.queryStart = offsetsOf(q, k).query;
  s.keyStart = offsetsOf(q, k).key;
  return s;
}

template <class T>
tuttiTensor_t viewOf(const HeadPart& part, const Tokens<T>& tokens, int64_t sequence, const TokenBlock& block) {
  tuttiTensor_t t = tokens.rows(sequence, block);
  t.device = kindOf(*part.device);
  return t;
}

template <class T>
tuttiTensor_t lseOf(const HeadPart& part, T* lse, int64_t rows) {
  tuttiTensor_t t = tuttiVectorOf(lse, dtypeOf<T>(), rows * part.shape.heads);
  t.device = kindOf(*part.device);
  return t;
}

}  // namespace

std::vector<TokenBlock> tokenBlocks(int tokens, int64_t sequence, int rank, int nRanks) {
  if (tokens == tuttiTokensStriped) {
    const int64_t count = (sequence - rank + nRanks - 1) / nRanks;
    return {{0, count, rank, nRanks}};
  }
  const bool zigzag = tokens == tuttiTokensZigzag;
  const std::vector<int64_t> cuts = evenCuts(sequence, 1, zigzag ? 2 * nRanks : nRanks);
  std::vector<TokenBlock> blocks;
  int64_t row = 0;
  for (const int part : zigzag ? std::vector<int>{rank, 2 * nRanks - 1 - rank} : std::vector<int>{rank}) {
    const size_t p = static_cast<size_t>(part);
    blocks.push_back({row, cuts[p + 1] - cuts[p], cuts[p], 1});
    row += blocks.back().count;
  }
  return blocks;
}

int64_t tokensIn(const std::vector<TokenBlock>& blocks) {
  int64_t sum = 0;
  for (const TokenBlock& b : blocks) sum += b.count;
  return sum;
}

int64_t visibleEntries(const std::vector<TokenBlock>& queries, const std::vector<TokenBlock>& keys, bool causal) {
  int64_t sum = 0;
  for (const TokenBlock& q : queries) {
    for (const TokenBlock& k : keys) sum += visible(q, k, causal);
  }
  return sum;
}

size_t attendBytes(const HeadPart& part, const std::vector<TokenBlock>& queries, const std::vector<TokenBlock>& keys,
                   size_t one, bool gradient) {
  const int64_t heads = part.shape.heads, wide = heads * part.shape.headDim;
  const int64_t narrow = part.shape.kvHeads * part.shape.headDim;
  size_t most = 0;
  for (const TokenBlock& from : queries) {
    for (const TokenBlock& to : keys) {
      if (heads == 0 || part.shape.batch == 0 || visible(from, to, part.shape.causal != 0) == 0) continue;
      const int64_t parts = gradient ? from.count * wide + 2 * to.count * narrow : from.count * (wide + heads);
      most = std::max(most, static_cast<size_t>(parts) * one +
                                attentionBytes(shapeOf(part, from, to), one, part.device->onHost(), gradient));
    }
  }
  return most;
}

template <class T>
tuttiTensor_t Tokens<T>::rows(int64_t sequence, const TokenBlock& block) const {
  return tuttiMatrixOf(data + (sequence * tokens + block.row) * columns, dtypeOf<T>(), block.count, columns, columns);
}

template <class T>
void attendTo(const HeadPart& part, Tokens<T> q, Tokens<T> k, Tokens<T> v, Tokens<T> out, T* lse) {
  const int64_t heads = part.shape.heads;
  Device& device = *part.device;
  for (int64_t b = 0; b < part.shape.batch && heads > 0; ++b) {
    for (const TokenBlock& from : *q.blocks) {
      for (const TokenBlock& to : *k.blocks) {
        if (visible(from, to, part.shape.causal != 0) == 0) continue;
        Array<T> partOut(device, static_cast<size_t>(from.count * out.columns), Array<T>::Any);
        Array<T> partLse(device, static_cast<size_t>(from.count * heads), Array<T>::Any);
        const tuttiAttention_t s = shapeOf(part, from, to);
        const tuttiTensor_t tq = viewOf(part, q, b, from), tk = viewOf(part, k, b, to), tv = viewOf(part, v, b, to);
        tuttiTensor_t made = viewOf(part, out, b, from);
        made.data = partOut.data();
        const tuttiTensor_t tl = lseOf(part, partLse.data(), from.count);
        attentionForward(device, &s, part.products, {&tq, &tk, &tv, &made, &tl});
        launch<T, Kernel::Merge>(
            device, {out.data + (b * out.tokens + from.row) * out.columns, lse + (b * q.tokens + from.row) * heads,
                     partOut.data(), partLse.data(), from.count * heads, s.headDim});
      }
    }
  }
}

template <class T>
void attendBackward(const HeadPart& part, Tokens<T> q, Tokens<T> k, Tokens<T> v, Tokens<T> out, const T* lse,
                    Tokens<T> dout, Tokens<T> dq, Tokens<T> dk, Tokens<T> dv) {
  const int64_t heads = part.shape.heads;
  Device& device = *part.device;
  for (int64_t b = 0; b < part.shape.batch && heads > 0; ++b) {
    for (const TokenBlock& from : *q.blocks) {
      for (const TokenBlock& to : *k.blocks) {
        if (visible(from, to, part.shape.causal != 0) == 0) continue;
        const tuttiAttention_t s = shapeOf(part, from, to);
        const tuttiTensor_t tq = viewOf(part, q, b, from), tk = viewOf(part, k, b, to), tv = viewOf(part, v, b, to);
        const tuttiTensor_t tout = viewOf(part, out, b, from), td = viewOf(part, dout, b, from);
        const tuttiTensor_t tl = lseOf(part, const_cast<T*>(lse) + (b * q.tokens + from.row) * heads, from.count);
        const tuttiTensor_t targets[3] = {viewOf(part, dq, b, from), viewOf(part, dk, b, to), viewOf(part, dv, b, to)};
        Array<T> parts[3];
        tuttiTensor_t made[3];
        for (int i = 0; i < 3; ++i) {
          parts[i] = Array<T>(device, static_cast<size_t>(elementsOf(targets[i])), Array<T>::Any);
          made[i] = targets[i];
          made[i].data = parts[i].data();
        }
        attentionBackward(device, &s, part.products, {&tq, &tk, &tv, &tout, &tl}, {&td, &made[0], &made[1], &made[2]});
        for (int i = 0; i < 3; ++i) {
          addVector<T>(device, static_cast<T*>(targets[i].data), parts[i].data(), parts[i].size());
        }
      }
    }
  }
}

#define TUTTI_PARTS_OF(T)                                                                                        \
  template struct Tokens<T>;                                                                                     \
  template void attendTo(const HeadPart&, Tokens<T>, Tokens<T>, Tokens<T>, Tokens<T>, T*);                       \
  template void attendBackward(const HeadPart&, Tokens<T>, Tokens<T>, Tokens<T>, Tokens<T>, const T*, Tokens<T>, \
                               Tokens<T>, Tokens<T>, Tokens<T>);
TUTTI_PARTS_OF(float)
TUTTI_PARTS_OF(double)

}  // namespace tutti::parallel
