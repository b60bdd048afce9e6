// Data types and operators as the command line and the table name them (nccl-tests' names, then Tutti's further ones).
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::perf {

enum class Kind { Signed, Unsigned, Floating, Boolean };

struct TypeInfo {
  tuttiDataType_t type;
  const char* name;
  size_t bytes;
  Kind kind;
  int significandBits;  // of a floating type, with the hidden bit; integers up to 2^this are exact
  int exponentBits;     // of a floating type
};

/// What -o chooses.  MulSum is made with tuttiRedOpCreatePreMulSum; the others are the built-in operators.
enum class OpKind { Sum, Prod, Min, Max, Avg, MulSum, Band, Bor, Bxor, Land, Lor };

struct OpInfo {
  OpKind kind;
  const char* name;
  tuttiRedOp_t op;  // not used for MulSum
};

/// In the order in which `-d all` and `-o all` run them.
std::span<const TypeInfo> allTypes();
std::span<const OpInfo> allOps();
/// nullptr if there is no such name.
const TypeInfo* findType(std::string_view name);
const OpInfo* findOp(std::string_view name);
/// Bitwise operators take no floats; arithmetic ones take no bool.
bool opTakesType(const OpInfo& op, const TypeInfo& type);

}  // namespace tutti::perf
