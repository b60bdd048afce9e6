// Rows of attention's scores, and results over several parts of the keys.  One text for host and device, as
// matrices.hpp; a row is the work of the threads of a RowTeam.
#pragma once

#include "src/parallel/kernels/matrices.hpp"

namespace tutti::parallel::kernels {

/// Scores [heads, queries, keys] of a tile: of some heads of one sequence, some queries and keys of them.  What has an
/// element or a row for a query and a head lies at ... + query * Row + head * Head.
struct ScoresCall {
  void *scores, *gradient, *lse, *out;
  const void* dout;
  void* state;  // [heads, queries][2] of the tiles of keys so far: the largest score, the sum of exponentials over it
  int64_t heads, queries, keys, headDim;
  int64_t lseRow, outRow, outHead, doutRow, doutHead, lseHead;
  int64_t causal, shift;  // causal: query i sees the first i + shift keys
  int64_t first;          // the first tile of keys of its queries
  double scale;
};
static_assert(sizeof(ScoresCall) == 160, "host and device agree on the layout");

/// How many keys query i sees: the first ones.
TUTTI_HD int64_t visibleKeys(const ScoresCall& c, int64_t i) {
  if (c.causal == 0) return c.keys;
  const int64_t n = i + c.shift;
  return n < 0 ? 0 : n < c.keys ? n : c.keys;
}

/// Scores become exponentials over the largest so far of the visible keys, 0 of the others; what out and the state hold
/// of the tiles before is brought to that largest one.  A tile that a row sees nothing of changes nothing of it.
/// Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Rabe and Staats, "Self-attention does not
/// need O(n^2) memory", 2021.
template <class T, class Team>
TUTTI_HD void softmaxTile(Team all, const ScoresCall& c) {
  const RowTeam<Team> team{all};
  const T scale = static_cast<T>(c.scale), none = -static_cast<T>(INFINITY);
  for (int64_t r = team.first(); r < c.heads * c.queries; r += team.step()) {
    const int64_t i = r % c.queries, seen = visibleKeys(c, i);
    T* row = static_cast<T*>(c.scores) + r * c.keys;
    T* state = static_cast<T*>(c.state) + 2 * r;
    const T before = c.first != 0 ? none : state[0], sumBefore = c.first != 0 ? T(0) : state[1];
    T most = none, sum = 0;
    for (int64_t j = team.thread(); j < seen; j += team.kThreads) {
      row[j] *= scale;
      most = most < row[j] ? row[j] : most;
    }
    most = team.most(most);
    most = most < before ? before : most;
    const T base = most == none ? T(0) : most;  // of a row that sees nothing yet
    for (int64_t j = team.thread(); j < seen; j += team.kThreads) sum += row[j] = exp(row[j] - base);
    sum = team.sum(sum);
    for (int64_t j = seen + team.thread(); j < c.keys; j += team.kThreads) row[j] = 0;
    const T shrink = exp(before - base);
    if (c.first == 0 && shrink != 1) {
      T* out = static_cast<T*>(c.out) + i * c.outRow + r / c.queries * c.outHead;
      for (int64_t d = team.thread(); d < c.headDim; d += team.kThreads) out[d] *= shrink;
    }
    team.meet();
    if (team.thread() != 0) continue;
    state[0] = most;
    state[1] = sumBefore * shrink + sum;
  }
}

/// After the last tile: out is divided by the sums, lse written.  A row that saw nothing: 0 and -infinity.
template <class T, class Team>
TUTTI_HD void finishRows(Team all, const ScoresCall& c) {
  const RowTeam<Team> team{all};
  for (int64_t r = team.first(); r < c.heads * c.queries; r += team.step()) {
    const int64_t i = r % c.queries, head = r / c.queries;
    const T* state = static_cast<const T*>(c.state) + 2 * r;
    const T sum = state[1];
    T* out = static_cast<T*>(c.out) + i * c.outRow + head * c.outHead;
    for (int64_t d = team.thread(); d < c.headDim; d += team.kThreads) out[d] = sum == 0 ? T(0) : out[d] / sum;
    if (team.thread() != 0) continue;
    static_cast<T*>(c.lse)[i * c.lseRow + head * c.lseHead] =
        sum == 0 ? -static_cast<T>(INFINITY) : state[0] + log(sum);
  }
}

/// Probabilities again from scores and lse; gradient, which holds dout v, becomes p * (it - sum(dout * out)) * scale.
template <class T, class Team>
TUTTI_HD void scoreGradients(Team all, const ScoresCall& c) {
  const RowTeam<Team> team{all};
  const T scale = static_cast<T>(c.scale);
  for (int64_t r = team.first(); r < c.heads * c.queries; r += team.step()) {
    const int64_t i = r % c.queries, head = r / c.queries, seen = visibleKeys(c, i);
    const T* out = static_cast<const T*>(c.out) + i * c.outRow + head * c.outHead;
    const T* dout = static_cast<const T*>(c.dout) + i * c.doutRow + head * c.doutHead;
    const T lse = static_cast<const T*>(c.lse)[i * c.lseRow + head * c.lseHead];
    T dot = 0;
    for (int64_t d = team.thread(); d < c.headDim; d += team.kThreads) dot += dout[d] * out[d];
    dot = team.sum(dot);
    T *row = static_cast<T*>(c.scores) + r * c.keys, *gradient = static_cast<T*>(c.gradient) + r * c.keys;
    for (int64_t j = team.thread(); j < seen; j += team.kThreads) {
      row[j] = exp(row[j] * scale - lse);
      gradient[j] = row[j] * (gradient[j] - dot) * scale;
    }
    for (int64_t j = seen + team.thread(); j < c.keys; j += team.kThreads) row[j] = gradient[j] = 0;
  }
}

/// out [rows, headDim] and lse [rows] become those of both parts of the keys together.
struct MergeCall {
  void *out, *lse;
  const void *partOut, *partLse;
  int64_t rows, headDim;
};
static_assert(sizeof(MergeCall) == 48, "host and device agree on the layout");

template <class T, class Team>
TUTTI_HD void mergeParts(Team all, const MergeCall& c) {
  const RowTeam<Team> team{all};
  for (int64_t r = team.first(); r < c.rows; r += team.step()) {
    const T mine = static_cast<const T*>(c.lse)[r], other = static_cast<const T*>(c.partLse)[r];
    const T most = mine < other ? other : mine;
    if (most == -static_cast<T>(INFINITY)) continue;
    const T a = exp(mine - most), b = exp(other - most), sum = a + b;
    T* out = static_cast<T*>(c.out) + r * c.headDim;
    const T* part = static_cast<const T*>(c.partOut) + r * c.headDim;
    for (int64_t d = team.thread(); d < c.headDim; d += team.kThreads) out[d] = (out[d] * a + part[d] * b) / sum;
    team.meet();
    if (team.thread() == 0) static_cast<T*>(c.lse)[r] = most + log(sum);
  }
}

}  // namespace tutti::parallel::kernels
