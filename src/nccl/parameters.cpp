// ncclParam* (2.30.4): NCCL's variables as the program sees them.  A key is a variable's name, its value the text that
// the environment or a configuration file gives; what is not set has no value.
#include <charconv>
#include <cstdio>
#include <cstring>

#include "src/nccl/abi.hpp"
#include "src/nccl/environment.hpp"
#include "src/nccl/errors.hpp"

using namespace tutti::nccl;

namespace {

const NcclVariable* find(const char* key) {
  for (const NcclVariable& variable : ncclVariables()) {
    if (key != nullptr && std::strcmp(variable.name, key) == 0) return &variable;
  }
  return nullptr;
}

/// A handle is a row of the table.
const NcclVariable* rowOf(void* handle) {
  for (const NcclVariable& variable : ncclVariables()) {
    if (&variable == handle) return &variable;
  }
  return nullptr;
}

/// The value in storage of the calling thread's; nullptr, and an error, if there is none.
const std::string* valueOf(const char* function, const NcclVariable* variable) {
  static thread_local std::string value;
  if (variable == nullptr) {
    fail(ncclInvalidArgument, function, "there is no such parameter; ncclParamGetAllParameterKeys lists them");
    return nullptr;
  }
  value = ncclValue(variable->name);
  if (!value.empty()) return &value;
  fail(ncclInvalidArgument, function, std::string(variable->name) + " is not set");
  return nullptr;
}

template <class Number>
ncclResult_t getNumber(const char* function, void* handle, Number* out) {
  if (out == nullptr) return fail(ncclInvalidArgument, function, "out is NULL");
  const std::string* value = valueOf(function, rowOf(handle));
  if (value == nullptr) return ncclInvalidArgument;
  Number number = 0;
  const char* end = value->data() + value->size();
  const auto [next, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || next != end) {
    return fail(ncclInvalidArgument, function, "'" + *value + "' is not a number of this type");
  }
  *out = number;
  return ncclSuccess;
}

}  // namespace

NCCL_EXPORT(ncclResult_t, ParamBind, (void** out, const char* key)) {
  if (out == nullptr) return fail(ncclInvalidArgument, "ParamBind", "out is NULL");
  const NcclVariable* variable = find(key);
  *out = const_cast<NcclVariable*>(variable);
  return variable != nullptr ? ncclSuccess : fail(ncclInvalidArgument, "ParamBind", "there is no such parameter");
}

NCCL_EXPORT(ncclResult_t, ParamGetI8, (void* h, int8_t* out)) { return getNumber("ParamGetI8", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetI16, (void* h, int16_t* out)) { return getNumber("ParamGetI16", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetI32, (void* h, int32_t* out)) { return getNumber("ParamGetI32", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetI64, (void* h, int64_t* out)) { return getNumber("ParamGetI64", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetU8, (void* h, uint8_t* out)) { return getNumber("ParamGetU8", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetU16, (void* h, uint16_t* out)) { return getNumber("ParamGetU16", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetU32, (void* h, uint32_t* out)) { return getNumber("ParamGetU32", h, out); }
NCCL_EXPORT(ncclResult_t, ParamGetU64, (void* h, uint64_t* out)) { return getNumber("ParamGetU64", h, out); }

// Valid until the calling thread asks for another one.
NCCL_EXPORT(ncclResult_t, ParamGetStr, (void* h, const char** out)) {
  if (out == nullptr) return fail(ncclInvalidArgument, "ParamGetStr", "out is NULL");
  const std::string* value = valueOf("ParamGetStr", rowOf(h));
  if (value == nullptr) return ncclInvalidArgument;
  *out = value->c_str();
  return ncclSuccess;
}

// The text with its closing zero; *len is its length with that.
NCCL_EXPORT(ncclResult_t, ParamGet, (void* h, void* out, int maxLen, int* len)) {
  const std::string* value = valueOf("ParamGet", rowOf(h));
  if (value == nullptr) return ncclInvalidArgument;
  const int bytes = static_cast<int>(value->size()) + 1;
  if (out == nullptr || maxLen < bytes) {
    return fail(ncclInvalidArgument, "ParamGet", "the value needs " + std::to_string(bytes) + " bytes");
  }
  std::memcpy(out, value->c_str(), static_cast<size_t>(bytes));
  if (len != nullptr) *len = bytes;
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ParamGetParameter, (const char* key, const char** value, int* valueLen)) {
  if (value == nullptr) return fail(ncclInvalidArgument, "ParamGetParameter", "value is NULL");
  const std::string* found = valueOf("ParamGetParameter", find(key));
  if (found == nullptr) return ncclInvalidArgument;
  *value = found->c_str();
  if (valueLen != nullptr) *valueLen = static_cast<int>(found->size());
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, ParamGetAllParameterKeys, (const char*** table, int* tableLen)) {
  static const auto* const keys = [] {
    auto* names = new std::vector<const char*>;
    for (const NcclVariable& variable : ncclVariables()) names->push_back(variable.name);
    return names;
  }();
  if (table == nullptr || tableLen == nullptr) {
    return fail(ncclInvalidArgument, "ParamGetAllParameterKeys", "table or tableLen is NULL");
  }
  *table = const_cast<const char**>(keys->data());
  *tableLen = static_cast<int>(keys->size());
  return ncclSuccess;
}

/// NAME=VALUE and what the variable does here, a line each.
NCCL_EXPORT(void, ParamDumpAll, (void)) {
  for (const NcclVariable& variable : ncclVariables()) {
    std::printf("%s=%s  # %s\n", variable.name, ncclValue(variable.name).c_str(), variable.becomes);
  }
  std::fflush(stdout);
}
