// What protects records of tcp connections in tests: each way that this machine has, with keys for two ends.
#pragma once

#include <memory>
#include <vector>

#include "transport/tcp/record_seal.hpp"

namespace tutti::test {

inline std::vector<tcp::Protection> protections() {
  if (!Gcm::available().ok()) return {tcp::Protection::Checksums};
  return {tcp::Protection::Checksums, tcp::Protection::Tags, tcp::Protection::Encryption};
}

/// Of end 0 or 1 of a stream.
inline DirectionKeys recordKeysOf(int side) {
  const Secret keys[] = {{1}, {2}};
  return {keys[side], keys[1 - side]};
}

inline std::unique_ptr<tcp::RecordSeal> sealOf(tcp::Protection protection, int side) {
  if (protection == tcp::Protection::Checksums) return nullptr;
  return std::make_unique<tcp::RecordSeal>(recordKeysOf(side), protection == tcp::Protection::Encryption);
}

}  // namespace tutti::test
