// Updates of some elements.
#pragma once

#include <cmath>

#include "src/parallel/launch.hpp"
#include "tutti/parallel/zero.h"

namespace tutti::parallel {

/// How many states an optimizer keeps per element.
inline int statesOf(int kind) { return kind == tuttiAdamW ? 2 : kind == tuttiMomentum ? 1 : 0; }

/// Of n elements in the device's memory.
///   clip  a further factor of the gradient, there too, in place of gradientScale; NULL: none
template <class T>
void updateElements(Device& device, const tuttiOptimizer_t& o, int64_t step, double gradientScale, const double* clip,
                    bool decays, T* w, const T* g, T* first, T* second, size_t n) {
  kernels::UpdateCall call{};
  call.values = w;
  call.first = first;
  call.second = second;
  call.gradient = g;
  call.clip = clip;
  call.count = n;
  call.rate = o.learningRate;
  call.decay = decays ? o.learningRate * o.weightDecay : 0;
  call.beta1 = o.beta1;
  call.beta2 = o.beta2;
  call.epsilon = o.epsilon;
  call.fix1 = 1 - std::pow(o.beta1, static_cast<double>(step));
  call.fix2 = 1 - std::pow(o.beta2, static_cast<double>(step));
  call.scale = gradientScale;
  call.kind = static_cast<uint64_t>(o.kind);
  static_assert(tuttiMomentum == 1 && tuttiAdamW == 2, "as the kernel has it");
  launch<T, Kernel::Update>(device, call);
}

}  // namespace tutti::parallel
