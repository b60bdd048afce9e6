// Rows of tokens on their way to experts and back.  One text for host and device, as matrices.hpp; rows are contiguous.
#pragma once

#include "src/parallel/kernels/matrices.hpp"

namespace tutti::parallel::kernels {

/// Row to[i] of out = row from[i] / share of in, for i < rows; an index that is NULL counts up from 0.
struct IndexedCall {
  void* out;
  const void* in;
  const int32_t *to, *from;
  int64_t rows, width, share;
};
static_assert(sizeof(IndexedCall) == 56, "host and device agree on the layout");

template <class T, class Team>
TUTTI_HD void copyIndexed(Team team, const IndexedCall& c) {
  eachElement(team, c.rows, c.width, [&](int64_t i, int64_t column) {
    const int64_t to = c.to != nullptr ? c.to[i] : i, from = (c.from != nullptr ? c.from[i] : i) / c.share;
    static_cast<T*>(c.out)[to * c.width + column] = static_cast<const T*>(c.in)[from * c.width + column];
  });
}

/// Of tokens, each of which has `choices` pairs [tokens * choices, width].  weights NULL: all 1.
struct CombineCall {
  void *out, *pairs, *dweights;
  const void *weights, *kept;
  int64_t tokens, choices, width;
};
static_assert(sizeof(CombineCall) == 64, "host and device agree on the layout");

/// out [tokens, width] = the weighted sums of pairs, in the order of choices.
template <class T, class Team>
TUTTI_HD void combineRows(Team team, const CombineCall& c) {
  const T *pairs = static_cast<const T*>(c.pairs), *weights = static_cast<const T*>(c.weights);
  eachElement(team, c.tokens, c.width, [&](int64_t t, int64_t i) {
    T sum = 0;
    for (int64_t pair = t * c.choices; pair < (t + 1) * c.choices; ++pair) {
      const T x = pairs[pair * c.width + i];
      sum += weights != nullptr ? weights[pair] * x : x;
    }
    static_cast<T*>(c.out)[t * c.width + i] = sum;
  });
}

/// out is the gradient of the sums: pairs = that of each pair, dweights = its product with what the pair was, kept.
template <class T, class Team>
TUTTI_HD void combineGradient(Team all, const CombineCall& c) {
  const RowTeam<Team> team{all};
  for (int64_t pair = team.first(); pair < c.tokens * c.choices; pair += team.step()) {
    const T* slope = static_cast<const T*>(c.out) + pair / c.choices * c.width;
    const T *kept = static_cast<const T*>(c.kept) + pair * c.width, weight = static_cast<const T*>(c.weights)[pair];
    T dot = 0;
    for (int64_t i = team.thread(); i < c.width; i += team.kThreads) {
      static_cast<T*>(c.pairs)[pair * c.width + i] = weight * slope[i];
      dot += slope[i] * kept[i];
    }
    dot = team.sum(dot);
    if (team.thread() == 0) static_cast<T*>(c.dweights)[pair] = dot;
  }
}

}  // namespace tutti::parallel::kernels
