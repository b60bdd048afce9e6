// Data types and operators, as the rest of the library sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tutti/tutti.h"

namespace tutti {

enum class Collective : uint8_t {
  AllReduce,
  Broadcast,
  Reduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Gather,
  Scatter,
  Barrier,
};
inline constexpr int kNumCollectives = 9;

/// "AllReduce", and the lower-case form of the command line, "allreduce".
const char* collectiveName(Collective c);
const char* collectiveKey(Collective c);
/// False if key names none.
bool parseCollective(const std::string& key, Collective* out);

bool validDataType(int dtype);
/// Bytes of one element; dtype must be valid.
size_t dataTypeBytes(tuttiDataType_t dtype);
/// nccl-tests' names: "float", "half", "f8e4m3", ...
const char* dataTypeName(tuttiDataType_t dtype);
bool isFloating(tuttiDataType_t dtype);

/// "sum", "prod", ...; "user" from tuttiNumOps on.
const char* redOpName(tuttiRedOp_t op);
/// Whether a built-in operator is defined on a type (bitwise operators are not on floating types).
bool validOpForType(tuttiRedOp_t op, tuttiDataType_t dtype);

/// The cache-line size that shared control words are spaced by: two lines, because the adjacent-line prefetcher
/// pulls pairs.
inline constexpr size_t kCacheLineBytes = 64;

}  // namespace tutti
