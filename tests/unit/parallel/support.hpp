// What the tests of the training layers share.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/support/ranks.hpp"
#include "tutti/parallel/base.h"

namespace tutti::test {

/// Numbers in (-1, 1), the same for the same seed.
template <class T>
std::vector<T> numbers(size_t n, uint64_t seed) {
  std::vector<T> values(n);
  uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (T& value : values) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<T>(static_cast<double>(static_cast<int64_t>(x) >> 11) / 4503599627370496.0);
  }
  return values;
}

/// The largest difference, relative to the largest value of `right`.
template <class A, class B>
double apart(const std::vector<A>& left, const std::vector<B>& right) {
  double most = 0, difference = left.size() == right.size() ? 0 : INFINITY;
  for (const B& x : right) most = std::max(most, std::abs(static_cast<double>(x)));
  for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(left[i]) - static_cast<double>(right[i])));
  }
  return difference / (most > 0 ? most : 1);
}

template <class T>
constexpr tuttiDataType_t dtypeFor() {
  return sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64;
}
template <class T>
tuttiTensor_t matrix(std::vector<T>& v, int64_t rows, int64_t columns) {
  return tuttiMatrixOf(v.data(), dtypeFor<T>(), rows, columns, columns);
}
template <class T>
tuttiTensor_t vector(std::vector<T>& v) {
  return tuttiVectorOf(v.data(), dtypeFor<T>(), static_cast<int64_t>(v.size()));
}

/// Columns or rows [begin, end) of a rows x columns matrix.
template <class T>
std::vector<T> columnsOf(const std::vector<T>& m, int64_t columns, int64_t begin, int64_t end) {
  std::vector<T> part;
  for (size_t r = 0; r < m.size() / static_cast<size_t>(columns); ++r) {
    const T* row = m.data() + r * static_cast<size_t>(columns);
    part.insert(part.end(), row + begin, row + end);
  }
  return part;
}
template <class T>
std::vector<T> rowsOf(const std::vector<T>& m, int64_t columns, int64_t begin, int64_t end) {
  return {m.begin() + begin * columns, m.begin() + end * columns};
}

inline std::string wrong(tuttiResult_t result, const char* what) {
  if (result == tuttiSuccess) return "";
  return std::string(what) + " gave " + std::to_string(result) + ": " + tuttiParallelGetLastError();
}
#define LAYER_TRY(call)                                                                     \
  do {                                                                                      \
    if (std::string why_ = ::tutti::test::wrong((call), #call); !why_.empty()) return why_; \
  } while (0)

inline bool sameTraffic(const tuttiTraffic_t& a, const tuttiTraffic_t& b) {
  bool same = std::abs(a.wireBytes - b.wireBytes) <= 1e-9 * (1 + std::abs(b.wireBytes));
  for (int c = 0; c < tuttiNumCalls; ++c) same = same && a.calls[c] == b.calls[c] && a.bytes[c] == b.bytes[c];
  return same;
}

}  // namespace tutti::test
