#include "src/base/types.hpp"

#include <array>

namespace tutti {
namespace {

struct TypeRow {
  const char* name;
  size_t bytes;
  bool floating;
};
constexpr std::array<TypeRow, tuttiNumTypes> kTypes = {{
    {"int8", 1, false},
    {"uint8", 1, false},
    {"int32", 4, false},
    {"uint32", 4, false},
    {"int64", 8, false},
    {"uint64", 8, false},
    {"half", 2, true},
    {"float", 4, true},
    {"double", 8, true},
    {"bfloat16", 2, true},
    {"f8e4m3", 1, true},
    {"f8e5m2", 1, true},
    {"int16", 2, false},
    {"uint16", 2, false},
    {"bool", 1, false},
}};

struct CollectiveRow {
  const char* name;
  const char* key;
};
constexpr std::array<CollectiveRow, kNumCollectives> kCollectives = {{
    {"AllReduce", "allreduce"},
    {"Broadcast", "broadcast"},
    {"Reduce", "reduce"},
    {"AllGather", "allgather"},
    {"ReduceScatter", "reducescatter"},
    {"AllToAll", "alltoall"},
    {"Gather", "gather"},
    {"Scatter", "scatter"},
    {"Barrier", "barrier"},
}};

constexpr std::array<const char*, tuttiNumOps> kOps = {"sum",  "prod", "max",  "min",  "avg",
                                                       "band", "bor",  "bxor", "land", "lor"};

}  // namespace

const char* collectiveName(Collective c) { return kCollectives[static_cast<size_t>(c)].name; }
const char* collectiveKey(Collective c) { return kCollectives[static_cast<size_t>(c)].key; }

bool parseCollective(const std::string& key, Collective* out) {
  for (size_t i = 0; i < kCollectives.size(); ++i) {
    if (key == kCollectives[i].key || key == kCollectives[i].name) {
      *out = static_cast<Collective>(i);
      return true;
    }
  }
  return false;
}

bool validDataType(int dtype) { return dtype >= 0 && dtype < tuttiNumTypes; }
size_t dataTypeBytes(tuttiDataType_t dtype) { return kTypes[static_cast<size_t>(dtype)].bytes; }
const char* dataTypeName(tuttiDataType_t dtype) { return kTypes[static_cast<size_t>(dtype)].name; }
bool isFloating(tuttiDataType_t dtype) { return kTypes[static_cast<size_t>(dtype)].floating; }

const char* redOpName(tuttiRedOp_t op) { return op < tuttiNumOps ? kOps[static_cast<size_t>(op)] : "user"; }

bool validOpForType(tuttiRedOp_t op, tuttiDataType_t dtype) {
  const bool bitwise = op == tuttiBand || op == tuttiBor || op == tuttiBxor;
  return !(bitwise && isFloating(dtype));
}

}  // namespace tutti
