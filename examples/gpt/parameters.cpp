#include "examples/gpt/parameters.hpp"

#include <algorithm>

namespace gpt {
namespace {

/// A number in [-1, 1) for a position (SplitMix64).
double numberAt(uint64_t position) {
  uint64_t x = (position + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>(static_cast<int64_t>(x ^ (x >> 31)) >> 11) / 4503599627370496.0;
}

}  // namespace

void Parameter::runs(int64_t begin, int64_t end, const std::function<void(int64_t, int64_t, int64_t)>& each) const {
  const int64_t width = column1 - column0;
  while (begin < end) {
    const int64_t row = begin / width, column = begin % width;
    const int64_t n = std::min(end - begin, width - column);
    each(begin, (row0 + row) * columns + column0 + column, n);
    begin += n;
  }
}

template <class T>
std::vector<T> initialValues(const Parameter& p) {
  std::vector<T> values(static_cast<size_t>(p.count()));
  p.runs(0, p.count(), [&](int64_t at, int64_t position, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double x =
          p.middle + p.spread * numberAt(static_cast<uint64_t>((p.like < 0 ? p.first : p.like) + position + i));
      values[static_cast<size_t>(at + i)] = static_cast<T>(x);
    }
  });
  return values;
}
template std::vector<float> initialValues(const Parameter&);
template std::vector<double> initialValues(const Parameter&);

}  // namespace gpt
