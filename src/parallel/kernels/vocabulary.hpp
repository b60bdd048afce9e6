// What a vocabulary whose rows are cut over ranks takes: rows by number, their gradients, and the cross entropy of rows
// of logits.  One text for host and device, as matrices.hpp.
#pragma once

#include "src/parallel/kernels/matrices.hpp"

namespace tutti::parallel::kernels {

inline constexpr int kIntsAtOnce = 1000;  // as many as the arguments of a kernel have room for on every device

/// out [count] = values: numbers that travel as arguments, and so wait for nothing.
struct IntsCall {
  int32_t* out;
  int64_t count;
  int32_t values[kIntsAtOnce];
};
static_assert(sizeof(IntsCall) == 4016, "host and device agree on the layout");

template <class Team>
TUTTI_HD void setInts(Team team, const IntsCall& c) {
  for (uint64_t i = team.index(); i < static_cast<uint64_t>(c.count); i += team.size()) c.out[i] = c.values[i];
}

/// Rows of a table [.., width] that begins with row `first` and ends before row `end` of a larger one, and a row for
/// each of ids [count].  Ids of other rows are passed by.
struct IdRowsCall {
  void *table, *rows;
  const int32_t* ids;
  int32_t* chain;  // [2][count]: see chainIds
  int64_t count, width, tableStride, first, end;
};
static_assert(sizeof(IdRowsCall) == 72, "host and device agree on the layout");

/// rows[t] = table[ids[t]], or 0 where the table has no such row.
template <class T, class Team>
TUTTI_HD void takeIdRows(Team team, const IdRowsCall& c) {
  eachElement(team, c.count, c.width, [&](int64_t t, int64_t i) {
    const int64_t id = c.ids[t];
    const bool here = id >= c.first && id < c.end;
    static_cast<T*>(c.rows)[t * c.width + i] =
        here ? static_cast<const T*>(c.table)[(id - c.first) * c.tableStride + i] : T(0);
  });
}

/// chain[0][t]: the next t with the same id, or -1; chain[1][t]: whether none before has it.  A thread has a t.
template <class Team>
TUTTI_HD void chainIds(Team team, const IdRowsCall& c) {
  for (int64_t t = static_cast<int64_t>(team.index()); t < c.count; t += static_cast<int64_t>(team.size())) {
    int64_t next = t + 1, before = t - 1;
    while (next < c.count && c.ids[next] != c.ids[t]) ++next;
    while (before >= 0 && c.ids[before] != c.ids[t]) --before;
    c.chain[t] = next < c.count ? static_cast<int32_t>(next) : -1;
    c.chain[c.count + t] = before < 0;
  }
}

/// table[ids[t]] += rows[t] in the order of t: the thread of an id's first row goes along its chain.
template <class T, class Team>
TUTTI_HD void addIdRows(Team team, const IdRowsCall& c) {
  const T* rows = static_cast<const T*>(c.rows);
#ifndef __CUDACC__
  if constexpr (std::is_same_v<Team, Alone>) {  // needs no chain
    for (int64_t t = 0; t < c.count; ++t) {
      if (c.ids[t] < c.first || c.ids[t] >= c.end) continue;
      T* to = static_cast<T*>(c.table) + (c.ids[t] - c.first) * c.tableStride;
      for (int64_t i = 0; i < c.width; ++i) to[i] += rows[t * c.width + i];
    }
    return;
  }
#endif
  eachElement(team, c.count, c.width, [&](int64_t t, int64_t i) {
    const int64_t id = c.ids[t];
    if (c.chain[c.count + t] == 0 || id < c.first || id >= c.end) return;
    T* to = static_cast<T*>(c.table) + (id - c.first) * c.tableStride + i;
    T sum = *to;
    for (int64_t at = t; at >= 0; at = c.chain[at]) sum += rows[at * c.width + i];
    *to = sum;
  });
}

/// Of logits [rows, columns], which are entries [first, first + columns) of the vocabulary.  What has one element for a
/// row is contiguous.
struct LossCall {
  void* gradient;
  const void* logits;
  const int32_t* targets;
  void *most, *at, *sums, *loss;
  int64_t rows, columns, stride, gradientStride, first;
  double scale;
};
static_assert(sizeof(LossCall) == 104, "host and device agree on the layout");

/// most = the largest of each row, at = the target's logit, or 0 where it is not here.
template <class T, class Team>
TUTTI_HD void largestOfRows(Team all, const LossCall& c) {
  const RowTeam<Team> team{all};
  for (int64_t r = team.first(); r < c.rows; r += team.step()) {
    const T* row = static_cast<const T*>(c.logits) + r * c.stride;
    T most = -static_cast<T>(INFINITY);
    for (int64_t j = team.thread(); j < c.columns; j += team.kThreads) most = most < row[j] ? row[j] : most;
    most = team.most(most);
    if (team.thread() != 0) continue;
    const int64_t target = c.targets[r] - c.first;
    static_cast<T*>(c.most)[r] = most;
    static_cast<T*>(c.at)[r] = target >= 0 && target < c.columns ? row[target] : T(0);
  }
}

/// sums = each row's sum of exponentials, of logits less `most`.
template <class T, class Team>
TUTTI_HD void sumExponentials(Team all, const LossCall& c) {
  const RowTeam<Team> team{all};
  for (int64_t r = team.first(); r < c.rows; r += team.step()) {
    const T *row = static_cast<const T*>(c.logits) + r * c.stride, most = static_cast<const T*>(c.most)[r];
    T sum = 0;
    for (int64_t j = team.thread(); j < c.columns; j += team.kThreads) sum += exp(row[j] - most);
    sum = team.sum(sum);
    if (team.thread() == 0) static_cast<T*>(c.sums)[r] = sum;
  }
}

/// loss = log(sums) + most - at.
template <class T, class Team>
TUTTI_HD void lossOfRows(Team team, const LossCall& c) {
  const T *sums = static_cast<const T*>(c.sums), *most = static_cast<const T*>(c.most);
  for (uint64_t r = team.index(); r < static_cast<uint64_t>(c.rows); r += team.size()) {
    static_cast<T*>(c.loss)[r] = log(sums[r]) + most[r] - static_cast<const T*>(c.at)[r];
  }
}

/// gradient = (softmax - target) * scale; may be logits.
template <class T, class Team>
TUTTI_HD void lossGradient(Team team, const LossCall& c) {
  const T *sums = static_cast<const T*>(c.sums), *most = static_cast<const T*>(c.most), scale = static_cast<T>(c.scale);
  eachElement(team, c.rows, c.columns, [&](int64_t r, int64_t j) {
    T slope = exp(static_cast<const T*>(c.logits)[r * c.stride + j] - most[r]) / sums[r] * scale;
    if (c.targets[r] - c.first == j) slope -= scale;
    static_cast<T*>(c.gradient)[r * c.gradientStride + j] = slope;
  });
}

}  // namespace tutti::parallel::kernels
