// What layers do with matrices, one text for host and device.  Row i of a matrix begins at data + i * stride.  An
// element is the work of one thread, or of the threads of one row, whoever else there is: its bits depend on nothing
// but the operands.
#pragma once

#include <type_traits>

#include "src/parallel/kernels/vectors.hpp"

namespace tutti::parallel::kernels {

/// out and in [rows, columns], in the memory of the device that runs it.
struct MatrixCall {
  void* out;
  const void* in;
  int64_t rows, columns, outStride, inStride;
};
static_assert(sizeof(MatrixCall) == 48, "host and device agree on the layout");

/// Calls body(row, column) for this thread's elements.
template <class Team, class Body>
TUTTI_HD void eachElement(Team team, int64_t rows, int64_t columns, const Body& body) {
  const uint64_t n = static_cast<uint64_t>(rows) * static_cast<uint64_t>(columns);
  for (uint64_t i = team.index(); i < n; i += team.size()) {
    const uint64_t width = static_cast<uint64_t>(columns);
    body(static_cast<int64_t>(i / width), static_cast<int64_t>(i % width));
  }
}

template <class Body>
inline void eachElement(Alone, int64_t rows, int64_t columns, const Body& body) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < columns; ++i) body(r, i);
  }
}

/// out = in.
template <class T, class Team>
TUTTI_HD void copyMatrix(Team team, const MatrixCall& c) {
  eachElement(team, c.rows, c.columns, [&](int64_t r, int64_t i) {
    static_cast<T*>(c.out)[r * c.outStride + i] = static_cast<const T*>(c.in)[r * c.inStride + i];
  });
}

/// out += in; with an inStride of 0 each row of out += the one row.
template <class T, class Team>
TUTTI_HD void addMatrix(Team team, const MatrixCall& c) {
  eachElement(team, c.rows, c.columns, [&](int64_t r, int64_t i) {
    static_cast<T*>(c.out)[r * c.outStride + i] += static_cast<const T*>(c.in)[r * c.inStride + i];
  });
}

/// The row out = the sum of the rows of in, in their order.
template <class T, class Team>
TUTTI_HD void sumRows(Team team, const MatrixCall& c) {
#ifndef __CUDACC__
  if constexpr (std::is_same_v<Team, Alone>) {  // row by row, as memory lies
    T* to = static_cast<T*>(c.out);
    for (int64_t i = 0; i < c.columns; ++i) to[i] = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      const T* row = static_cast<const T*>(c.in) + r * c.inStride;
      for (int64_t i = 0; i < c.columns; ++i) to[i] += row[i];
    }
    return;
  }
#endif
  eachElement(team, 1, c.columns, [&](int64_t, int64_t i) {
    T sum = 0;
    for (int64_t r = 0; r < c.rows; ++r) sum += static_cast<const T*>(c.in)[r * c.inStride + i];
    static_cast<T*>(c.out)[i] = sum;
  });
}

/// c [m, n] = a [m, k] b [k, n], or c += that; element (i, p) of a lies at a + i * aRow + p * aColumn, b alike.  There
/// are `batch` of them, whose operands begin so many elements apart.
struct ProductCall {
  void* c;
  const void *a, *b;
  int64_t m, n, k, aRow, aColumn, bRow, bColumn, ldc;
  int64_t accumulate;
  int64_t batch, aStep, bStep, cStep;
};
static_assert(sizeof(ProductCall) == 128, "host and device agree on the layout");

/// Each product is rounded, then added, in the order of k: the bits of tuttiKernelsInvariant.  A thread has a tile,
/// whose rows and columns beyond the edge repeat the last ones and are not stored.
template <class T, class Team>
TUTTI_HD void multiplyTiles(Team team, const ProductCall& c) {
  constexpr int kTile = 4;
  const int64_t down = (c.m + kTile - 1) / kTile, across = (c.n + kTile - 1) / kTile;
  eachElement(team, c.batch * down, across, [&](int64_t tile, int64_t tileColumn) {
    const int64_t which = tile / down, tileRow = tile % down;
    const T *a[kTile], *b[kTile];
    T sum[kTile][kTile];
    TUTTI_UNROLL
    for (int t = 0; t < kTile; ++t) {
      const int64_t i = tileRow * kTile + t, j = tileColumn * kTile + t;
      a[t] = static_cast<const T*>(c.a) + which * c.aStep + (i < c.m ? i : c.m - 1) * c.aRow;
      b[t] = static_cast<const T*>(c.b) + which * c.bStep + (j < c.n ? j : c.n - 1) * c.bColumn;
      TUTTI_UNROLL
      for (int u = 0; u < kTile; ++u) sum[t][u] = 0;
    }
    for (int64_t p = 0; p < c.k; ++p) {
      T right[kTile];
      TUTTI_UNROLL
      for (int u = 0; u < kTile; ++u) right[u] = b[u][p * c.bRow];
      TUTTI_UNROLL
      for (int t = 0; t < kTile; ++t) {
        const T left = a[t][p * c.aColumn];
        TUTTI_UNROLL
        for (int u = 0; u < kTile; ++u) sum[t][u] += left * right[u];
      }
    }
    TUTTI_UNROLL
    for (int t = 0; t < kTile; ++t) {
      TUTTI_UNROLL
      for (int u = 0; u < kTile; ++u) {
        const int64_t i = tileRow * kTile + t, j = tileColumn * kTile + u;
        if (i >= c.m || j >= c.n) continue;
        T* to = static_cast<T*>(c.c) + which * c.cStep + i * c.ldc + j;
        *to = c.accumulate != 0 ? *to + sum[t][u] : sum[t][u];
      }
    }
  });
}

// ---- Of kernels.h

/// out = GELU(x); with dy: out = dy * GELU'(x).  out may be x or dy.
struct GeluCall {
  void* out;
  const void *x, *dy;
  uint64_t count;
};
static_assert(sizeof(GeluCall) == 32, "host and device agree on the layout");

/// Of GELU's tanh form: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
template <class T, class Team>
TUTTI_HD void geluVector(Team team, const GeluCall& c) {
  constexpr T kScale = T(0.7978845608028654), kCubic = T(0.044715);
  for (uint64_t i = team.index(); i < c.count; i += team.size()) {
    const T x = static_cast<const T*>(c.x)[i], t = tanh(kScale * (x + kCubic * x * x * x));
    if (c.dy == nullptr) {
      static_cast<T*>(c.out)[i] = T(0.5) * x * (1 + t);
    } else {
      const T slope = T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x);
      static_cast<T*>(c.out)[i] = static_cast<const T*>(c.dy)[i] * slope;
    }
  }
}

/// The threads of a row: on a device a warp, on the host one.
constexpr int64_t kRowThreads = 32;
template <class Team>
struct RowTeam {
  Team team;
#ifdef __CUDA_ARCH__
  static constexpr int64_t kThreads = kRowThreads;
  template <class T>
  TUTTI_HD static T sum(T x) {
    for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
    return x;
  }
  template <class T>
  TUTTI_HD static T most(T x) {
    for (int distance = 16; distance > 0; distance /= 2) {
      const T other = __shfl_xor_sync(0xffffffffu, x, distance);
      x = x < other ? other : x;
    }
    return x;
  }
  /// What all have read may be written.
  TUTTI_HD static void meet() { __syncwarp(); }
#else
  static constexpr int64_t kThreads = 1;
  template <class T>
  static T sum(T x) {
    return x;
  }
  template <class T>
  static T most(T x) {
    return x;
  }
  static void meet() {}
#endif
  TUTTI_HD int64_t first() const { return static_cast<int64_t>(team.index()) / kThreads; }
  TUTTI_HD int64_t step() const { return static_cast<int64_t>(team.size()) / kThreads; }
  TUTTI_HD int64_t thread() const { return static_cast<int64_t>(team.index()) % kThreads; }
};

/// Of layer norm, forward: out [rows, width].  Backward: out is dx, or NULL: then statistics [rows][2] are written.
struct NormCall {
  void* out;
  const void *x, *gamma, *beta, *dy;
  void* statistics;
  int64_t rows, width, outStride, xStride, dyStride;
};
static_assert(sizeof(NormCall) == 88, "host and device agree on the layout");

/// Mean and 1 / deviation of a row of x.
template <class T, class Team>
TUTTI_HD void rowStatistics(const RowTeam<Team>& team, const T* x, int64_t width, T* mean, T* inverse) {
  T sum = 0, variance = 0;
  for (int64_t i = team.thread(); i < width; i += team.kThreads) sum += x[i];
  *mean = team.sum(sum) / static_cast<T>(width);
  for (int64_t i = team.thread(); i < width; i += team.kThreads) variance += (x[i] - *mean) * (x[i] - *mean);
  *inverse = 1 / sqrt(team.sum(variance) / static_cast<T>(width) + T(1e-5));
}

template <class T, class Team>
TUTTI_HD void normRows(Team all, const NormCall& c) {
  const RowTeam<Team> team{all};
  const T *gamma = static_cast<const T*>(c.gamma), *beta = static_cast<const T*>(c.beta);
  for (int64_t r = team.first(); r < c.rows; r += team.step()) {
    const T* x = static_cast<const T*>(c.x) + r * c.xStride;
    T* out = static_cast<T*>(c.out) + r * c.outStride;
    T mean, inverse;
    rowStatistics(team, x, c.width, &mean, &inverse);
    for (int64_t i = team.thread(); i < c.width; i += team.kThreads) {
      out[i] = (x[i] - mean) * inverse * gamma[i] + beta[i];
    }
  }
}

template <class T, class Team>
TUTTI_HD void normRowsBackward(Team all, const NormCall& c) {
  const RowTeam<Team> team{all};
  const T* gamma = static_cast<const T*>(c.gamma);
  for (int64_t r = team.first(); r < c.rows; r += team.step()) {
    const T *x = static_cast<const T*>(c.x) + r * c.xStride, *dy = static_cast<const T*>(c.dy) + r * c.dyStride;
    T mean, inverse, sum = 0, dot = 0;
    rowStatistics(team, x, c.width, &mean, &inverse);
    if (c.out == nullptr) {
      T* statistics = static_cast<T*>(c.statistics) + 2 * r;
      if (team.thread() == 0) {
        statistics[0] = mean;
        statistics[1] = inverse;
      }
      continue;
    }
    T* dx = static_cast<T*>(c.out) + r * c.outStride;
    for (int64_t i = team.thread(); i < c.width; i += team.kThreads) {
      const T normal = (x[i] - mean) * inverse, d = dy[i] * gamma[i];
      sum += d;
      dot += d * normal;
    }
    sum = team.sum(sum) / static_cast<T>(c.width);
    dot = team.sum(dot) / static_cast<T>(c.width);
    for (int64_t i = team.thread(); i < c.width; i += team.kThreads) {
      dx[i] = inverse * (dy[i] * gamma[i] - sum - (x[i] - mean) * inverse * dot);
    }
  }
}

/// Rows' sums dgamma and dbeta [width] of dy and x, in the order of rows; statistics as normRowsBackward left them.
struct NormSumsCall {
  void *dgamma, *dbeta;
  const void *x, *dy, *statistics;
  int64_t rows, width, xStride, dyStride;
};
static_assert(sizeof(NormSumsCall) == 72, "host and device agree on the layout");

template <class T, class Team>
TUTTI_HD void normSums(Team team, const NormSumsCall& c) {
  const T* statistics = static_cast<const T*>(c.statistics);
  eachElement(team, 1, c.width, [&](int64_t, int64_t i) {
    T dgamma = 0, dbeta = 0;
    for (int64_t r = 0; r < c.rows; ++r) {
      const T x = static_cast<const T*>(c.x)[r * c.xStride + i], dy = static_cast<const T*>(c.dy)[r * c.dyStride + i];
      dgamma += dy * ((x - statistics[2 * r]) * statistics[2 * r + 1]);
      dbeta += dy;
    }
    static_cast<T*>(c.dgamma)[i] = dgamma;
    static_cast<T*>(c.dbeta)[i] = dbeta;
  });
}

}  // namespace tutti::parallel::kernels
