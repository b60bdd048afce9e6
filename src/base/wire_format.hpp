// The formats in which sums of floating-point numbers travel between hosts (TUTTI_WIRE), and their bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/status.hpp"
#include "src/base/types.hpp"

namespace tutti {

/// The values of tuttiWireFormat_t.
enum class WireFormat : uint8_t {
  Full,  // as they are
  Bf16,  // each number as bfloat16
  Fp8,   // blocks of kWireBlock numbers as float8 e4m3, with one scale
  Int8,  // blocks of kWireBlock numbers as int8, with one scale
};
inline constexpr int kNumWireFormats = 4;

/// Numbers of a message that share a scale: the first ones, the next ones, and so on; the last block may be shorter.
inline constexpr size_t kWireBlock = 32;

/// "full", "bf16", "fp8", "int8".
std::string_view wireFormatName(WireFormat format);
/// As in TUTTI_WIRE.  Errors: InvalidUsage.
Result<WireFormat> parseWireFormat(const std::string& name);

/// Whether numbers of this type take fewer bytes in the format: float32 in all but Full; float16 and bfloat16 in those
/// of one byte.  Who computes in float64 wants its digits, and float8 has no more than what travels anyway.
bool isNarrower(WireFormat format, tuttiDataType_t dtype);

/// Bytes of `count` numbers in a format that is not Full: of blocks, all scales, then all numbers.
constexpr size_t wireBytes(WireFormat format, size_t count) {
  if (format == WireFormat::Bf16) return 2 * count;
  return count + (count + kWireBlock - 1) / kWireBlock;
}

}  // namespace tutti
