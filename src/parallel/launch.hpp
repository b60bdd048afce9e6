// Kernels of layers (kernels/kernel_list.hpp) on a device.  They follow what was enqueued before; on the host they are
// done when a call returns.
#pragma once

#include "src/parallel/kernels/kernel_list.hpp"
#include "src/parallel/memory.hpp"

namespace tutti::parallel {

/// Without those of double, which a device has behind those of float.
enum class Kernel : size_t {
#define TUTTI_LAYER_ENUMERATE(Name, ...) Name,
  TUTTI_LAYER_KERNELS_OF(TUTTI_LAYER_ENUMERATE, , ) TUTTI_LAYER_KERNELS_OF_ONE_TYPE(TUTTI_LAYER_ENUMERATE)
#undef TUTTI_LAYER_ENUMERATE
};
inline constexpr size_t kTypedKernels = static_cast<size_t>(Kernel::Widen);

template <Kernel kernel>
struct ArgumentOf;
#define TUTTI_LAYER_ARGUMENT(Name, Argument, ...) \
  template <>                                     \
  struct ArgumentOf<Kernel::Name> {               \
    using Type = kernels::Argument;               \
  };
TUTTI_LAYER_KERNELS_OF(TUTTI_LAYER_ARGUMENT, , )
TUTTI_LAYER_KERNELS_OF_ONE_TYPE(TUTTI_LAYER_ARGUMENT)
#undef TUTTI_LAYER_ARGUMENT

/// All kernels, for the host and for CUDA.
const KernelSet& layerKernels();
/// By its number there; nothing where it has no items.
void launchNumber(Device& device, size_t kernel, const void* argument);

/// T: float or double; float for kernels of one type.
template <class T, Kernel kernel>
void launch(Device& device, const typename ArgumentOf<kernel>::Type& argument) {
  constexpr size_t number = static_cast<size_t>(kernel);
  launchNumber(device, number + (sizeof(T) == sizeof(double) || number >= kTypedKernels ? kTypedKernels : 0),
               &argument);
}

/// x *= by
template <class T>
void scaleVector(Device& device, T* x, size_t n, double by) {
  if (by != 1) launch<T, Kernel::Scale>(device, {x, nullptr, n, by});
}
/// into += from
template <class T>
void addVector(Device& device, T* into, const T* from, size_t n) {
  launch<T, Kernel::Add>(device, {into, from, n, 0});
}
/// to = numbers of the host, which need not live on: it waits for nothing.
void setInts(Device& device, int32_t* to, const int32_t* host, size_t n);

/// to [rows, columns] = from, or += from; rows begin `stride` elements apart, and 0 for `from` is the same row again.
template <class T>
void copyMatrix(Device& device, T* to, int64_t toStride, const T* from, int64_t fromStride, int64_t rows,
                int64_t columns) {
  launch<T, Kernel::CopyMatrix>(device, {to, from, rows, columns, toStride, fromStride});
}
template <class T>
void addMatrix(Device& device, T* to, int64_t toStride, const T* from, int64_t fromStride, int64_t rows,
               int64_t columns) {
  launch<T, Kernel::AddMatrix>(device, {to, from, rows, columns, toStride, fromStride});
}
/// The row `to` = the sum of rows, in their order.
template <class T>
void sumRows(Device& device, T* to, const T* from, int64_t stride, int64_t rows, int64_t columns) {
  launch<T, Kernel::SumRows>(device, {to, from, rows, columns, 0, stride});
}

}  // namespace tutti::parallel
