#include "src/exec/reduce/reduce.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "src/base/assert.hpp"
#include "src/exec/reduce/reduce_kernels.hpp"

namespace tutti {
namespace {

/// Found once per process: which loops this machine runs.  Constant afterwards.
const TypeKernels& kernelsOf(tuttiDataType_t dtype) {
  static const std::array<TypeKernels, tuttiNumTypes> table = [] {
    std::array<TypeKernels, tuttiNumTypes> made;
    for (size_t i = 0; i < made.size(); ++i) made[i] = findKernels(static_cast<tuttiDataType_t>(i));
    return made;
  }();
  return table[static_cast<size_t>(dtype)];
}

ReduceKernel kernelOf(const Reduction& r) {
  const ReduceKernel kernel = kernelsOf(r.dtype).reduce[r.op < tuttiNumOps ? r.op : tuttiSum];
  TUTTI_ASSERT(kernel != nullptr);
  return kernel;
}

constexpr size_t kBlockBytes = 4096;
/// Up to here nobody asks whether to store past the cache.
constexpr size_t kSmallBytes = 4096;

/// A user's operator computes inout = in op inout.  Blocks of the operands pass through two aligned buffers, so that
/// the running value is always `in`, whatever dst overlaps and however the operands are aligned.
void reduceByUser(const Reduction& r, void* dst, std::span<const void* const> sources, size_t count) {
  alignas(64) std::byte buffers[2][kBlockBytes];
  const size_t elementBytes = dataTypeBytes(r.dtype);
  const size_t perBlock = kBlockBytes / elementBytes;
  for (size_t done = 0; done < count; done += perBlock) {
    const size_t elements = std::min(perBlock, count - done);
    const size_t at = done * elementBytes;
    const size_t bytes = elements * elementBytes;
    const auto part = [&](size_t s) { return static_cast<const std::byte*>(sources[s]) + at; };
    size_t current = 0;
    std::memcpy(buffers[0], part(0), bytes);
    for (size_t s = 1; s < sources.size(); ++s, current ^= 1) {
      std::memcpy(buffers[current ^ 1], part(s), bytes);
      r.function(buffers[current], buffers[current ^ 1], elements, r.dtype, r.context);
    }
    std::memcpy(static_cast<std::byte*>(dst) + at, buffers[current], bytes);
  }
}

template <class T>
void divideIntegers(std::byte* data, int divisor, size_t count) {
  for (size_t i = 0; i < count; ++i, data += sizeof(T)) {
    T value;
    std::memcpy(&value, data, sizeof(T));
    if constexpr (sizeof(T) <= 4) {
      // In double, which vectorises and is exact: a quotient that is no integer is further from the next one
      // (1/divisor) than the rounding error (2^-53 of the quotient).
      value = static_cast<T>(static_cast<double>(value) / divisor);
    } else {
      value = static_cast<T>(value / static_cast<T>(divisor));
    }
    std::memcpy(data, &value, sizeof(T));
  }
}

bool aligned(const void* p, size_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

}  // namespace

TypeKernels findKernels(tuttiDataType_t dtype) {
  const size_t bytes = dataTypeBytes(dtype);
  if (isFloating(dtype)) return bytes >= 4 ? floatKernels(dtype) : bytes == 2 ? halfKernels(dtype) : fp8Kernels(dtype);
  return bytes >= 4 ? intKernels(dtype) : smallIntKernels(dtype);
}

void reducePair(const Reduction& r, void* dst, const void* a, const void* b, size_t count) {
  const size_t elementBytes = dataTypeBytes(r.dtype);
  if (r.function != nullptr && dst == b && dst != a && aligned(a, elementBytes) && aligned(dst, elementBytes)) {
    if (count > 0) r.function(a, dst, count, r.dtype, r.context);  // what the function does is what is asked for
    return;
  }
  if (r.function == nullptr && count != 0 && count * elementBytes <= kSmallBytes) {
    const std::byte* const both[] = {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
    return kernelOf(r)(static_cast<std::byte*>(dst), both, 2, count, false);
  }
  const void* const both[] = {a, b};
  reduceMany(r, dst, both, count);
}

void reduceMany(const Reduction& r, void* dst, std::span<const void* const> sources, size_t count,
                size_t touchedBytes) {
  TUTTI_ASSERT(!sources.empty() && sources.size() <= kMaxSources);
  if (count == 0) return;
  const size_t bytes = count * dataTypeBytes(r.dtype);
  touchedBytes = std::max(touchedBytes, bytes * (1 + sources.size()));
  if (sources.size() == 1) {
    if (dst != sources[0]) copyPiece(dst, sources[0], bytes, touchedBytes);
    return;
  }
  if (r.function != nullptr) return reduceByUser(r, dst, sources, count);
  // In place the line is in the cache already, and a plain store costs nothing more.
  const bool inPlace = std::find(sources.begin(), sources.end(), dst) != sources.end();
  const bool stream = !inPlace && storesPastCache(touchedBytes);
  std::array<const std::byte*, kMaxSources> from;
  for (size_t s = 0; s < sources.size(); ++s) from[s] = static_cast<const std::byte*>(sources[s]);
  kernelOf(r)(static_cast<std::byte*>(dst), from.data(), sources.size(), count, stream);
}

void scale(tuttiDataType_t dtype, void* dst, const void* src, const void* scalar, size_t count) {
  kernelsOf(dtype).scale(static_cast<std::byte*>(dst), static_cast<const std::byte*>(src),
                         static_cast<const std::byte*>(scalar), count);
}

void divide(tuttiDataType_t dtype, void* data, int divisor, size_t count) {
  if (divisor == 1) return;
  auto* bytes = static_cast<std::byte*>(data);
  switch (dtype) {
    case tuttiBool: return;
    case tuttiInt8: return divideIntegers<int8_t>(bytes, divisor, count);
    case tuttiUint8: return divideIntegers<uint8_t>(bytes, divisor, count);
    case tuttiInt16: return divideIntegers<int16_t>(bytes, divisor, count);
    case tuttiUint16: return divideIntegers<uint16_t>(bytes, divisor, count);
    case tuttiInt32: return divideIntegers<int32_t>(bytes, divisor, count);
    case tuttiUint32: return divideIntegers<uint32_t>(bytes, divisor, count);
    case tuttiInt64: return divideIntegers<int64_t>(bytes, divisor, count);
    case tuttiUint64: return divideIntegers<uint64_t>(bytes, divisor, count);
    default: kernelsOf(dtype).divide(bytes, divisor, count);
  }
}

}  // namespace tutti
