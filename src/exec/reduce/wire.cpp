#include "src/exec/reduce/wire.hpp"

#include <algorithm>
#include <array>

#include "src/base/assert.hpp"
#include "src/exec/reduce/wire_kernels.hpp"

namespace tutti {
namespace {

/// Found once per process.  Constant afterwards.
const WireKernels& kernelsOf(WireFormat format, tuttiDataType_t dtype) {
  using OfTypes = std::array<WireKernels, tuttiNumTypes>;
  static const std::array<OfTypes, kNumWireFormats> table = [] {
    std::array<OfTypes, kNumWireFormats> made;
    for (size_t f = 0; f < made.size(); ++f) {
      for (size_t t = 0; t < made[f].size(); ++t)
        made[f][t] = wireKernels(static_cast<WireFormat>(f), static_cast<tuttiDataType_t>(t));
    }
    return made;
  }();
  const WireKernels& kernels = table[static_cast<size_t>(format)][static_cast<size_t>(dtype)];
  TUTTI_ASSERT(kernels.pack != nullptr);
  return kernels;
}

}  // namespace

void packWire(WireFormat format, tuttiDataType_t dtype, std::byte* to, const void* from, size_t count) {
  kernelsOf(format, dtype).pack(to, static_cast<const std::byte*>(from), count);
}

void unpackWire(WireFormat format, tuttiDataType_t dtype, void* to, const std::byte* from, size_t count) {
  kernelsOf(format, dtype).unpack(static_cast<std::byte*>(to), from, count);
}

void roundToWire(WireFormat format, tuttiDataType_t dtype, void* data, size_t count) {
  constexpr size_t kPiece = 64 * kWireBlock;
  std::byte packed[2 * kPiece];
  const WireKernels& kernels = kernelsOf(format, dtype);
  auto* at = static_cast<std::byte*>(data);
  for (size_t done = 0; done < count; done += kPiece) {
    const size_t piece = std::min(kPiece, count - done);
    kernels.pack(packed, at, piece);
    kernels.unpack(at, packed, piece);
    at += piece * dataTypeBytes(dtype);
  }
}

}  // namespace tutti
