// Memory, registration, operators.
#include <cstring>

#include "src/api/entry.hpp"
#include "src/comm/settings.hpp"
#include "src/device/cuda/alloc.hpp"
#include "src/device/host/host_memory.hpp"

using namespace tutti;

namespace {

Result<void*> allocate(size_t bytes) {
  TUTTI_ASSIGN(const int device, defaultDevice());
  return device < 0 ? hostAlloc(bytes) : cuda::deviceAlloc(device, bytes);
}

}  // namespace

extern "C" {

tuttiResult_t tuttiMemAlloc(void** ptr, size_t bytes) {
  return guarded("MemAlloc", nullptr, [&]() -> Status {
    TUTTI_TRY(checkNotNull(ptr, "ptr"));
    *ptr = nullptr;
    TUTTI_ASSIGN(*ptr, allocate(bytes));
    return {};
  });
}

tuttiResult_t tuttiMemFree(void* ptr) {
  return guarded("MemFree", nullptr,
                 [&] { return cuda::isDeviceAllocation(ptr) ? cuda::deviceFree(ptr) : hostFree(ptr); });
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buff, size_t bytes, void** handle) {
  return guarded("CommRegister", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    TUTTI_TRY(checkNotNull(handle, "handle"));
    if (bytes > 0) TUTTI_TRY(checkNotNull(buff, "buff"));
    *handle = nullptr;
    TUTTI_ASSIGN(*handle, live->registerMemory(buff, bytes));
    return {};
  });
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle) {
  return guarded("CommDeregister", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    return live->deregisterMemory(handle);
  });
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t dtype,
                                        tuttiScalarResidence_t residence, tuttiComm_t comm) {
  return guarded("RedOpCreatePreMulSum", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    TUTTI_TRY(checkNotNull(op, "op"));
    TUTTI_TRY(checkNotNull(scalar, "scalar"));
    if (!validDataType(static_cast<int>(dtype)) || dtype == tuttiBool) {
      return invalidArgument(ErrorCode::DataType, "dtype ", static_cast<int>(dtype),
                             " is not a number type; pass any of tuttiDataType_t but tuttiBool");
    }
    if (residence != tuttiScalarDevice && residence != tuttiScalarHostImmediate) {
      return invalidArgument(ErrorCode::ArgumentValue, "residence ", static_cast<int>(residence),
                             " is unknown; pass tuttiScalarDevice or tuttiScalarHostImmediate");
    }
    if (residence == tuttiScalarDevice) TUTTI_TRY(live->executor().checkMemory(scalar, "scalar"));
    auto custom = std::make_shared<CustomOperator>();
    custom->dtype = dtype;
    if (residence == tuttiScalarDevice) {
      custom->deviceScalar = scalar;
    } else {
      std::memcpy(custom->scalar.data(), scalar, dataTypeBytes(dtype));
    }
    *op = live->operators().add(std::move(custom));
    return {};
  });
}

tuttiResult_t tuttiRedOpCreate(tuttiRedOp_t* op, tuttiRedFunction_t function, int commutative, void* context,
                               tuttiComm_t comm) {
  return guarded("RedOpCreate", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    TUTTI_TRY(checkNotNull(op, "op"));
    if (live->executor().memory() == MemoryKind::Device) {
      return invalidUsage(ErrorCode::NotOnDevice,
                          "a function of the host cannot combine device memory; use a built-in operator");
    }
    if (function == nullptr)
      return invalidArgument(ErrorCode::NullPointer, "function is NULL; pass the function that combines two values");
    auto custom = std::make_shared<CustomOperator>();
    custom->function = function;
    custom->commutative = commutative != 0;
    custom->context = context;
    *op = live->operators().add(std::move(custom));
    return {};
  });
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) {
  return guarded("RedOpDestroy", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    return live->operators().remove(op);
  });
}

}  // extern "C"
