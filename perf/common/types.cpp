#include "perf/common/types.hpp"

namespace tutti::perf {
namespace {

constexpr TypeInfo kTypes[] = {
    {tuttiInt8, "int8", 1, Kind::Signed, 0, 0},           {tuttiUint8, "uint8", 1, Kind::Unsigned, 0, 0},
    {tuttiInt32, "int32", 4, Kind::Signed, 0, 0},         {tuttiUint32, "uint32", 4, Kind::Unsigned, 0, 0},
    {tuttiInt64, "int64", 8, Kind::Signed, 0, 0},         {tuttiUint64, "uint64", 8, Kind::Unsigned, 0, 0},
    {tuttiFloat16, "half", 2, Kind::Floating, 11, 5},     {tuttiFloat32, "float", 4, Kind::Floating, 24, 8},
    {tuttiFloat64, "double", 8, Kind::Floating, 53, 11},  {tuttiBfloat16, "bfloat16", 2, Kind::Floating, 8, 8},
    {tuttiFloat8e4m3, "f8e4m3", 1, Kind::Floating, 4, 4}, {tuttiFloat8e5m2, "f8e5m2", 1, Kind::Floating, 3, 5},
    {tuttiInt16, "int16", 2, Kind::Signed, 0, 0},         {tuttiUint16, "uint16", 2, Kind::Unsigned, 0, 0},
    {tuttiBool, "bool", 1, Kind::Boolean, 0, 0},
};

constexpr OpInfo kOps[] = {
    {OpKind::Sum, "sum", tuttiSum},    {OpKind::Prod, "prod", tuttiProd}, {OpKind::Min, "min", tuttiMin},
    {OpKind::Max, "max", tuttiMax},    {OpKind::Avg, "avg", tuttiAvg},    {OpKind::MulSum, "mulsum", tuttiSum},
    {OpKind::Band, "band", tuttiBand}, {OpKind::Bor, "bor", tuttiBor},    {OpKind::Bxor, "bxor", tuttiBxor},
    {OpKind::Land, "land", tuttiLand}, {OpKind::Lor, "lor", tuttiLor},
};

}  // namespace

std::span<const TypeInfo> allTypes() { return kTypes; }
std::span<const OpInfo> allOps() { return kOps; }

const TypeInfo* findType(std::string_view name) {
  for (const TypeInfo& t : kTypes) {
    if (name == t.name) return &t;
  }
  if (name == "float16") return findType("half");
  if (name == "float32") return findType("float");
  if (name == "float64") return findType("double");
  return nullptr;
}

const OpInfo* findOp(std::string_view name) {
  for (const OpInfo& o : kOps) {
    if (name == o.name) return &o;
  }
  return nullptr;
}

bool opTakesType(const OpInfo& op, const TypeInfo& type) {
  switch (op.kind) {
    case OpKind::Band:
    case OpKind::Bor:
    case OpKind::Bxor: return type.kind != Kind::Floating;
    case OpKind::Sum:
    case OpKind::Prod:
    case OpKind::Avg:
    case OpKind::MulSum: return type.kind != Kind::Boolean;
    default: return true;
  }
}

}  // namespace tutti::perf
