#include "src/parallel/launch.hpp"

#include <algorithm>
#include <cstring>

#include "src/parallel/cuda_images.h"

namespace tutti::parallel {
namespace {

constexpr const char* kNames[] = {
#define TUTTI_LAYER_NAME(Name, ...) "tutti_layer_" #Name,
    TUTTI_LAYER_KERNELS(TUTTI_LAYER_NAME)
#undef TUTTI_LAYER_NAME
};

using namespace kernels;

constexpr void (*kAlone[])(const void*) = {
#define TUTTI_LAYER_ALONE(Name, Argument, items, ...) \
  [](const void* a) { __VA_ARGS__(Alone(), *static_cast<const Argument*>(a)); },
    TUTTI_LAYER_KERNELS(TUTTI_LAYER_ALONE)
#undef TUTTI_LAYER_ALONE
};

constexpr uint64_t (*kItems[])(const void*) = {
#define TUTTI_LAYER_ITEMS(Name, Argument, items, ...)                      \
  [](const void* a) {                                                      \
    [[maybe_unused]] const Argument& c = *static_cast<const Argument*>(a); \
    return static_cast<uint64_t>(items);                                   \
  },
    TUTTI_LAYER_KERNELS(TUTTI_LAYER_ITEMS)
#undef TUTTI_LAYER_ITEMS
};

}  // namespace

const KernelSet& layerKernels() {
  static const KernelSet set{"training layers", tutti_layer_images[0], kNames, kAlone};
  return set;
}

void launchNumber(Device& device, size_t kernel, const void* argument) {
  const uint64_t items = kItems[kernel](argument);
  if (items != 0) orThrow(device.launch(kernel, argument, items));
}

void setInts(Device& device, int32_t* to, const int32_t* host, size_t n) {
  if (device.onHost()) return copyBytes(device, to, host, n * sizeof(int32_t));
  for (size_t first = 0; first < n; first += kIntsAtOnce) {
    IntsCall call;
    const size_t count = std::min(n - first, static_cast<size_t>(kIntsAtOnce));
    call.out = to + first;
    call.count = static_cast<int64_t>(count);
    std::memcpy(call.values, host + first, count * sizeof(int32_t));
    launch<float, Kernel::SetInts>(device, call);
  }
}

}  // namespace tutti::parallel
