// Sixteen bytes that name a call: they ride in every message, so that ranks which disagree find out at once.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/types.hpp"

namespace tutti {

/// What every message says of the call it belongs to.  All ranks of a collective compute the same one.
struct Fingerprint {
  uint64_t head = 0;   // sequence 24 | kind 5 | dtype 5 | op 6 | root 24, from the high bits down
  uint64_t count = 0;  // elements; v forms: a checksum of the counts that all ranks know
  bool operator==(const Fingerprint&) const = default;
};

/// The parts of a fingerprint.  kind: a Collective, one of its v form, or kKindPointToPoint.
struct CallParts {
  uint32_t sequence = 0;  // modulo 2^24; counts the communicator's collectives, or the pair's messages
  uint32_t kind = 0;
  uint32_t dtype = 0;
  uint32_t op = 0;     // built-in operators, then 10 for PreMulSum and 11 for user operators
  uint32_t root = 0;   // of calls without one 0, or kByLibrary
  uint64_t count = 0;  // of v forms a checksum: 0 where only the two ends of a block know its count
};
inline constexpr uint32_t kKindPointToPoint = 31;
/// Added to a Collective for its v form, with counts by rank.
inline constexpr uint32_t kKindCounts = 16;
/// The root of a call without one that the library makes among the user's.
inline constexpr uint32_t kByLibrary = 1;
/// Messages of the library's own, which belong to no call.
inline constexpr uint32_t kKindControl = 30;

Fingerprint makeFingerprint(const CallParts& parts);
/// One of sequence 0 with another sequence.
inline Fingerprint withSequence(const Fingerprint& f, uint64_t sequence) { return {f.head | sequence << 40, f.count}; }
/// The same call with the next sequence.
inline Fingerprint nextOf(const Fingerprint& f) { return {f.head + (uint64_t{1} << 40), f.count}; }
CallParts partsOf(const Fingerprint& fingerprint);
/// "AllReduce number 17 (count 1024, float, sum)" for error sentences.
std::string describeCall(const Fingerprint& fingerprint);

}  // namespace tutti
