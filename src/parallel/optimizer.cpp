// The optimizer for those who keep their own states.
#include "src/parallel/optimizer.hpp"

#include "src/parallel/tensor.hpp"

using namespace tutti::parallel;

tuttiResult_t tuttiOptimizerUpdate(const tuttiOptimizer_t* optimizer, int64_t step, double gradientScale,
                                   unsigned parameterFlags, const tuttiTensor_t* value, const tuttiTensor_t* gradient,
                                   const tuttiTensor_t* first, const tuttiTensor_t* second) {
  return guarded([&] {
    const auto o = takeConfig<tuttiOptimizer_t>(optimizer, TUTTI_OPTIMIZER_INITIALIZER, "optimizer");
    require(value != nullptr && gradient != nullptr && step >= 1, "value or gradient is NULL, or step is ", step);
    require(o.kind >= tuttiSgd && o.kind <= tuttiAdamW, "there is no optimizer ", o.kind);
    const int64_t n = elementsOf(*value);
    const std::shared_ptr<Device> device = deviceOf(nullptr, value->device);
    checkContiguous(value, "value", n, value->dtype, kindOf(*device));
    checkContiguous(gradient, "gradient", n, value->dtype, kindOf(*device));
    if (statesOf(o.kind) > 0) checkContiguous(first, "first", n, value->dtype, kindOf(*device));
    if (statesOf(o.kind) > 1) checkContiguous(second, "second", n, value->dtype, kindOf(*device));
    withType(value->dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto data = [](const tuttiTensor_t* t) { return t == nullptr ? nullptr : static_cast<T*>(t->data); };
      updateElements<T>(*device, o, step, gradientScale, nullptr, (parameterFlags & TUTTI_PARAMETER_NO_DECAY) == 0,
                        data(value), data(gradient), data(first), data(second), static_cast<size_t>(n));
    });
  });
}
