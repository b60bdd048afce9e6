// Sums of floating-point numbers in the formats of src/base/wire_format.hpp: packed to travel, unpacked on arrival.
//
// A format is never WireFormat::Full here, and isNarrower() than dtype.  Every number is rounded to nearest, ties to
// even.
//   bf16   as any conversion to bfloat16: what is beyond its largest number becomes infinity
//   blocks scale 2^e, the least with |x| <= 416 * 2^e (fp8) or 125 * 2^e (int8) for the finite x of a block, but at
//          least 2^-126.  A byte of scale holds e + 127.  Numbers are e4m3 or integers in units of 2^e; the codes that
//          are left over (e4m3: 448 and NaN; int8: 127, -127 and -128) are infinities and NaN, which are
//          thus kept one by one, and have no part in the scale.  What rounds up beyond dtype's largest number becomes
//          that.
// With u = 2^-8, m the largest finite |x| of a block and y what comes of a finite x:
//   bf16  |y - x| <= u |x| + 2^-134
//   fp8   |y - x| <= 2^-4 |x| + 2^-17 m + 2^-135     (a step of e4m3; of its subnormal numbers, m > 208 * 2^e)
//   int8  |y - x| <= m / 125 + 2^-127                 (half a unit, m > 62.5 * 2^e)
// Rounding twice is rounding once: unpacked numbers, packed in blocks of the same numbers, come out bit for bit as they
// were (powers of two as scales see to that).
// No function here allocates.  Any thread; any alignment, any count.
// Source: OCP Microscaling Formats (MX) 1.0, which has blocks of 32 with a power of two as scale; it makes a whole
// block NaN for one, and saturates where this takes the next scale.
#pragma once

#include <cstddef>

#include "src/base/wire_format.hpp"

namespace tutti {

/// to: of wireBytes(format, count); from: `count` of dtype, elsewhere.
void packWire(WireFormat format, tuttiDataType_t dtype, std::byte* to, const void* from, size_t count);
/// to: `count` of dtype; from: as packWire() has left it, elsewhere.
void unpackWire(WireFormat format, tuttiDataType_t dtype, void* to, const std::byte* from, size_t count);
/// data becomes what a receiver would have of it.
void roundToWire(WireFormat format, tuttiDataType_t dtype, void* data, size_t count);

}  // namespace tutti
