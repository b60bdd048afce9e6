// Groups and operators.
#include "src/nccl/calls.hpp"
#include "src/nccl/cliques.hpp"
#include "src/nccl/errors.hpp"

using namespace tutti::nccl;

NCCL_EXPORT(ncclResult_t, GroupStart, (TUTTI_NCCL_NOTHING)) {
  groupStarted();
  return finish("GroupStart", tuttiGroupStart());
}

NCCL_EXPORT(ncclResult_t, GroupEnd, (TUTTI_NCCL_NOTHING)) {
  double unused = 0;
  const ncclResult_t error = spoiled();
  if (error != ncclSuccess) (void)tuttiGroupSimulateEnd(&unused);  // drops what was collected
  const ncclResult_t result = error != ncclSuccess ? error : finish("GroupEnd", tuttiGroupEnd());
  groupEnded();
  return result;
}

NCCL_EXPORT(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo)) {
  double timeUs = 0;
  const ncclResult_t result = finish("GroupSimulateEnd", tuttiGroupSimulateEnd(&timeUs));
  groupEnded();
  if (result != ncclSuccess || simInfo == nullptr) return result;
  if (simInfo->magic != NCCL_SIM_INFO_MAGIC || simInfo->size < sizeof *simInfo) {
    return fail(ncclInvalidArgument, "GroupSimulateEnd",
                "simInfo is not initialised: start it with NCCL_SIM_INFO_INITIALIZER");
  }
  if (timeUs > 0) simInfo->estimatedTime = static_cast<float>(timeUs);  // of an empty group NCCL says nothing
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, RedOpCreatePreMulSum,
            (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype, ncclScalarResidence_t residence,
             ncclComm_t comm)) {
  static_assert(static_cast<int>(tuttiNumOps) >= static_cast<int>(ncclNumOps));  // made ones are no built-in one here
  if (op == nullptr) return fail(ncclInvalidArgument, "RedOpCreatePreMulSum", "op is NULL");
  if (static_cast<unsigned>(datatype) >= ncclNumTypes) {
    return fail(ncclInvalidArgument, "RedOpCreatePreMulSum", "datatype is not one of NCCL's");
  }
  tuttiRedOp_t made = tuttiSum;
  const tuttiResult_t result = tuttiRedOpCreatePreMulSum(&made, scalar, typeOf(datatype),
                                                         static_cast<tuttiScalarResidence_t>(residence), handle(comm));
  if (result == tuttiSuccess) *op = static_cast<ncclRedOp_t>(made);
  return finish("RedOpCreatePreMulSum", result);
}

NCCL_EXPORT(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  if (opOf(op) < tuttiNumOps) {
    return fail(ncclInvalidArgument, "RedOpDestroy", "op was not made by ncclRedOpCreatePreMulSum");
  }
  return finish("RedOpDestroy", tuttiRedOpDestroy(opOf(op), handle(comm)));
}
