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

tuttiResult_t tuttiMemAlloc(void** ptr, size_t bytes) try {
  Status status = checkNotNull(ptr, "ptr");
  if (status.ok()) {
    const Result<void*> memory = allocate(bytes);
    status = memory.status();
    *ptr = status.ok() ? *memory : nullptr;
  }
  return report("MemAlloc", status, nullptr);
} catch (const std::exception&) {
  return thrown("MemAlloc", nullptr);
}

tuttiResult_t tuttiMemFree(void* ptr) try {
  return report("MemFree", cuda::isDeviceAllocation(ptr) ? cuda::deviceFree(ptr) : hostFree(ptr), nullptr);
} catch (const std::exception&) {
  return thrown("MemFree", nullptr);
}

tuttiResult_t tuttiCommRegister(tuttiComm_t comm, void* buff, size_t bytes, void** handle) try {
  const Result<CommUse> live = use(comm);
  Status status = live.status();
  if (status.ok()) status = checkNotNull(handle, "handle");
  if (status.ok() && bytes > 0) status = checkNotNull(buff, "buff");
  if (status.ok()) {
    const Result<void*> made = (*live)->registerMemory(buff, bytes);
    status = made.status();
    *handle = status.ok() ? *made : nullptr;
  }
  return report("CommRegister", status, comm);
} catch (const std::exception&) {
  return thrown("CommRegister", comm);
}

tuttiResult_t tuttiCommDeregister(tuttiComm_t comm, void* handle) try {
  const Result<CommUse> live = use(comm);
  Status status = live.status();
  if (status.ok()) status = (*live)->deregisterMemory(handle);
  return report("CommDeregister", status, comm);
} catch (const std::exception&) {
  return thrown("CommDeregister", comm);
}

tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t* op, void* scalar, tuttiDataType_t dtype,
                                        tuttiScalarResidence_t residence, tuttiComm_t comm) try {
  const Result<CommUse> live = use(comm);
  Status status = live.status();
  if (status.ok()) status = checkNotNull(op, "op");
  if (status.ok()) status = checkNotNull(scalar, "scalar");
  if (status.ok() && (!validDataType(static_cast<int>(dtype)) || dtype == tuttiBool)) {
    status = invalidArgument("dtype ", static_cast<int>(dtype), " is not a number type");
  }
  if (status.ok() && residence != tuttiScalarDevice && residence != tuttiScalarHostImmediate) {
    status = invalidArgument("residence ", static_cast<int>(residence), " is neither device nor host immediate");
  }
  if (status.ok() && residence == tuttiScalarDevice) status = (*live)->executor().checkMemory(scalar, "scalar");
  if (status.ok()) {
    auto custom = std::make_shared<CustomOperator>();
    custom->dtype = dtype;
    if (residence == tuttiScalarDevice) {
      custom->deviceScalar = scalar;
    } else {
      std::memcpy(custom->scalar.data(), scalar, dataTypeBytes(dtype));
    }
    *op = (*live)->operators().add(std::move(custom));
  }
  return report("RedOpCreatePreMulSum", status, comm);
} catch (const std::exception&) {
  return thrown("RedOpCreatePreMulSum", comm);
}

tuttiResult_t tuttiRedOpCreate(tuttiRedOp_t* op, tuttiRedFunction_t function, int commutative, void* context,
                               tuttiComm_t comm) try {
  const Result<CommUse> live = use(comm);
  Status status = live.status();
  if (status.ok()) status = checkNotNull(op, "op");
  if (status.ok() && (*live)->executor().memory() == MemoryKind::Device) {
    status = invalidUsage("a function of the host cannot combine device memory; use a built-in operator");
  }
  if (status.ok() && function == nullptr) status = invalidArgument("function is NULL");
  if (status.ok()) {
    auto custom = std::make_shared<CustomOperator>();
    custom->function = function;
    custom->commutative = commutative != 0;
    custom->context = context;
    *op = (*live)->operators().add(std::move(custom));
  }
  return report("RedOpCreate", status, comm);
} catch (const std::exception&) {
  return thrown("RedOpCreate", comm);
}

tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm) try {
  const Result<CommUse> live = use(comm);
  Status status = live.status();
  if (status.ok()) status = (*live)->operators().remove(op);
  return report("RedOpDestroy", status, comm);
} catch (const std::exception&) {
  return thrown("RedOpDestroy", comm);
}

}  // extern "C"
