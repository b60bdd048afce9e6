// CRC-32C (Castagnoli; RFC 3720, appendix B.4): finds damage, proves nothing about who did it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

/// Of `bytes` bytes; goes on from `crc`, which is 0 at first.  Any thread.
uint32_t crc32c(const void* data, size_t bytes, uint32_t crc = 0);
/// The same, and copies to dst on the way: one pass over memory where two calls make two.  No overlap.
uint32_t crc32cCopy(void* dst, const void* src, size_t bytes, uint32_t crc = 0);
/// The same by the processor's instruction for it alone.
uint32_t crc32cByInstruction(const void* data, size_t bytes, uint32_t crc = 0);
/// The same without instructions for it.
uint32_t crc32cByTable(const void* data, size_t bytes, uint32_t crc = 0);

}  // namespace tutti
