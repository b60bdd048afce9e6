// The inner loops of wire.hpp: one pair per format and type, found by table look-up.
#pragma once

#include <cstddef>

#include "src/base/wire_format.hpp"

namespace tutti {

/// As packWire() and unpackWire(), of one format and type.
struct WireKernels {
  void (*pack)(std::byte* to, const std::byte* from, size_t count) = nullptr;
  void (*unpack)(std::byte* to, const std::byte* from, size_t count) = nullptr;
};

/// Those for this machine, looked up anew (wire.cpp keeps them); empty where the format is not narrower.  For tests,
/// which go through the instruction sets.
WireKernels wireKernels(WireFormat format, tuttiDataType_t dtype);

}  // namespace tutti
