// Updates of some elements.
#pragma once

#include <cmath>

#include "tutti/parallel/zero.h"

namespace tutti::parallel {

/// How many states an optimizer keeps per element.
inline int statesOf(int kind) { return kind == tuttiAdamW ? 2 : kind == tuttiMomentum ? 1 : 0; }

template <class T>
void updateElements(const tuttiOptimizer_t& o, int64_t step, double gradientScale, bool decays, T* w, const T* g,
                    T* first, T* second, size_t n) {
  const T rate = static_cast<T>(o.learningRate), scale = static_cast<T>(gradientScale);
  const T decay = decays ? static_cast<T>(o.learningRate * o.weightDecay) : T(0);
  const T b1 = static_cast<T>(o.beta1), b2 = static_cast<T>(o.beta2), epsilon = static_cast<T>(o.epsilon);
  const T fix1 = static_cast<T>(1 - std::pow(o.beta1, static_cast<double>(step)));
  const T fix2 = static_cast<T>(1 - std::pow(o.beta2, static_cast<double>(step)));
  for (size_t i = 0; i < n; ++i) {
    const T gradient = g[i] * scale;
    T change = gradient;
    if (o.kind == tuttiMomentum) change = first[i] = b1 * first[i] + gradient;
    if (o.kind == tuttiAdamW) {
      first[i] = b1 * first[i] + (1 - b1) * gradient;
      second[i] = b2 * second[i] + (1 - b2) * gradient * gradient;
      change = first[i] / fix1 / (std::sqrt(second[i] / fix2) + epsilon);
    }
    w[i] = w[i] - decay * w[i] - rate * change;
  }
}

}  // namespace tutti::parallel
