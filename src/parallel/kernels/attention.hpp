// Rows of attention's scores, and results over several parts of the keys.  One text for host and device, as
// matrices.hpp; a row is the work of the threads of a RowTeam.
#pragma once

#include "src/parallel/kernels/matrices.hpp"

namespace tutti::parallel::kernels {

/// Scores [heads, queries, keys] of some heads of one sequence; what has an element or a row for a query and a head
/// lies at ... + query * Row + head * Head.
struct ScoresCall {
  void *scores, *gradient, *lse;
  const void *out, *dout;
  int64_t heads, queries, keys, headDim;
  int64_t lseRow, outRow, outHead, doutRow, doutHead, lseHead;
  int64_t causal, shift;  // causal: query i sees the first i + shift keys
  double scale;
};
static_assert(sizeof(ScoresCall) == 144, "host and device agree on the layout");

/// How many keys query i sees: the first ones.
TUTTI_HD int64_t visibleKeys(const ScoresCall& c, int64_t i) {
  if (c.causal == 0) return c.keys;
  const int64_t n = i + c.shift;
  return n < 0 ? 0 : n < c.keys ? n : c.keys;
}

/// Scores become probabilities of the visible keys, 0 of the others; lse is written.
template <class T, class Team>
TUTTI_HD void softmaxRows(Team all, const ScoresCall& c) {
  const RowTeam<Team> team{all};
  const T scale = static_cast<T>(c.scale);
  for (int64_t r = team.first(); r < c.heads * c.queries; r += team.step()) {
    const int64_t i = r % c.queries, seen = visibleKeys(c, i);
    T* row = static_cast<T*>(c.scores) + r * c.keys;
    T most = -static_cast<T>(INFINITY), sum = 0;
    for (int64_t j = team.thread(); j < seen; j += team.kThreads) {
      row[j] *= scale;
      most = most < row[j] ? row[j] : most;
    }
    most = team.most(most);
    for (int64_t j = team.thread(); j < seen; j += team.kThreads) sum += row[j] = exp(row[j] - most);
    sum = team.sum(sum);
    for (int64_t j = team.thread(); j < c.keys; j += team.kThreads) row[j] = j < seen ? row[j] / sum : T(0);
    if (team.thread() != 0) continue;
    static_cast<T*>(c.lse)[i * c.lseRow + r / c.queries * c.lseHead] = seen == 0 ? most : most + log(sum);
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
