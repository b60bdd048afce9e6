#include "tests/faults/fault_calls.hpp"

#include <unistd.h>

#include "tutti/parallel/dp.h"

namespace tutti::test {
namespace {

#define CALLS_TRY(call)                                                 \
  do {                                                                  \
    if (const tuttiResult_t r_ = (call); r_ != tuttiSuccess) return r_; \
  } while (0)

class HostBuffers : public FaultBuffers {
 public:
  float* in() override { return in_.data(); }
  float* out() override { return out_.data(); }

 private:
  std::vector<float> in_ = std::vector<float>(kInCount, 1.0F), out_ = std::vector<float>(kOutCount);
};

int differing(const float* data, size_t count, float value) {
  int n = 0;
  for (size_t i = 0; i < count; ++i) n += data[i] != value;
  return n;
}

/// Destroyed after what `result` says was done with it, aborted if that failed.
tuttiResult_t endOf(tuttiComm_t comm, tuttiResult_t result) {
  if (result == tuttiSuccess) return tuttiCommDestroy(comm);
  (void)tuttiCommAbort(comm);
  return result;
}

// ---- The usual ones, from init to the end

tuttiResult_t runBasic(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  for (const size_t count : {size_t{2}, size_t{2}, size_t{5000}, size_t{100'000}}) {
    CALLS_TRY(tuttiAllReduce(b.in(), b.out(), count, tuttiFloat32, tuttiSum, comm, nullptr));
    b.finish();
    *wrong += differing(b.out(), count, 2.0F);
  }
  CALLS_TRY(tuttiAllGather(b.in(), b.out(), 1000, tuttiFloat32, comm, nullptr));
  b.finish();
  *wrong += differing(b.out(), 2000, 1.0F);
  float* const word = b.out();
  word[0] = rank == 1 ? 5.0F : 0.0F;
  CALLS_TRY(tuttiBroadcast(word, word, 1, tuttiFloat32, 1, comm, nullptr));
  CALLS_TRY(tuttiGroupStart());
  (void)tuttiSend(word, 1, tuttiFloat32, 1 - rank, comm, nullptr);
  (void)tuttiRecv(word + 1, 1, tuttiFloat32, 1 - rank, comm, nullptr);
  CALLS_TRY(tuttiGroupEnd());
  b.finish();
  *wrong += differing(word, 2, 5.0F);
  tuttiComm_t half = nullptr;
  CALLS_TRY(tuttiCommSplit(comm, 0, -rank, &half, nullptr));
  return endOf(half, tuttiBarrier(half, nullptr));
}

// ---- The other collectives, v forms and operators

tuttiResult_t runRooted(tuttiComm_t comm, FaultBuffers& b) {
  for (const int root : {0, 1}) {
    CALLS_TRY(tuttiReduce(b.in(), b.out(), 700, tuttiFloat32, tuttiSum, root, comm, nullptr));
    CALLS_TRY(tuttiGather(b.in(), b.out(), 700, tuttiFloat32, root, comm, nullptr));
    CALLS_TRY(tuttiScatter(b.in(), b.out(), 700, tuttiFloat32, root, comm, nullptr));
  }
  return tuttiSuccess;
}

tuttiResult_t runVectors(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  const size_t counts[2] = {3000, 40}, displs[2] = {0, 3000}, mine = counts[rank];
  const size_t same[2] = {mine, mine}, apart[2] = {0, mine};
  CALLS_TRY(tuttiAllGatherv(b.in(), mine, b.out(), counts, displs, tuttiFloat32, comm, nullptr));
  *wrong += differing(b.out(), 3040, 1.0F);
  CALLS_TRY(tuttiReduceScatterv(b.in(), b.out(), counts, displs, tuttiFloat32, tuttiSum, comm, nullptr));
  *wrong += differing(b.out(), mine, 2.0F);
  CALLS_TRY(tuttiAllToAllv(b.in(), counts, displs, b.out(), same, apart, tuttiFloat32, comm, nullptr));
  *wrong += differing(b.out(), 2 * mine, 1.0F);
  CALLS_TRY(tuttiGatherv(b.in(), mine, b.out(), counts, displs, tuttiFloat32, 1, comm, nullptr));
  CALLS_TRY(tuttiScatterv(b.in(), counts, displs, b.out(), mine, tuttiFloat32, 1, comm, nullptr));
  *wrong += differing(b.out(), mine, 1.0F);
  return tuttiSuccess;
}

void maxOf(const void* in, void* inout, size_t count, tuttiDataType_t, void*) {
  for (size_t i = 0; i < count; ++i) {
    const float other = static_cast<const float*>(in)[i];
    if (float& value = static_cast<float*>(inout)[i]; value < other) value = other;
  }
}

tuttiResult_t runOperators(tuttiComm_t comm, FaultBuffers& b, int* wrong) {
  float three = 3.0F;
  tuttiRedOp_t scaled = tuttiSum, own = tuttiSum;
  CALLS_TRY(tuttiRedOpCreatePreMulSum(&scaled, &three, tuttiFloat32, tuttiScalarHostImmediate, comm));
  CALLS_TRY(tuttiAllReduce(b.in(), b.out(), 900, tuttiFloat32, scaled, comm, nullptr));
  *wrong += differing(b.out(), 900, 6.0F);
  CALLS_TRY(tuttiRedOpDestroy(scaled, comm));
  CALLS_TRY(tuttiRedOpCreate(&own, maxOf, 1, nullptr, comm));
  CALLS_TRY(tuttiAllReduce(b.in(), b.out(), 900, tuttiFloat32, own, comm, nullptr));
  *wrong += differing(b.out(), 900, 1.0F);
  CALLS_TRY(tuttiRedOpDestroy(own, comm));
  CALLS_TRY(tuttiAllReduce(b.in(), b.out(), 900, tuttiFloat32, tuttiAvg, comm, nullptr));
  *wrong += differing(b.out(), 900, 1.0F);
  return tuttiSuccess;
}

tuttiResult_t runCollectives(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  CALLS_TRY(tuttiReduceScatter(b.in(), b.out(), 2000, tuttiFloat32, tuttiSum, comm, nullptr));
  *wrong += differing(b.out(), 2000, 2.0F);
  CALLS_TRY(tuttiAllToAll(b.in(), b.out(), 2000, tuttiFloat32, comm, nullptr));
  *wrong += differing(b.out(), 4000, 1.0F);
  CALLS_TRY(runRooted(comm, b));
  CALLS_TRY(runVectors(comm, rank, b, wrong));
  CALLS_TRY(runOperators(comm, b, wrong));
  if (rank == 0) {
    CALLS_TRY(tuttiSend(b.in(), 50'000, tuttiFloat32, 1, comm, nullptr));
  } else {
    CALLS_TRY(tuttiRecv(b.out(), 50'000, tuttiFloat32, 0, comm, nullptr));
    *wrong += differing(b.out(), 50'000, 1.0F);
  }
  return tuttiBarrier(comm, nullptr);
}

// ---- Children

tuttiResult_t useChild(tuttiComm_t child, int nRanks, FaultBuffers& b, int* wrong) {
  const tuttiResult_t result = tuttiAllReduce(b.in(), b.out(), 300, tuttiFloat32, tuttiSum, child, nullptr);
  if (result == tuttiSuccess) *wrong += differing(b.out(), 300, static_cast<float>(nRanks));
  return endOf(child, result);
}

/// Rank 0 goes on alone and is grown by rank 1.
tuttiResult_t shrinkAndGrow(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  tuttiUniqueId id{};
  if (rank == 0) CALLS_TRY(tuttiGetUniqueId(&id));
  CALLS_TRY(tuttiBroadcast(id.internal, id.internal, sizeof id.internal, tuttiUint8, 0, comm, nullptr));
  tuttiComm_t alone = nullptr, both = nullptr;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = kFaultTimeoutMs;
  if (rank == 1) {
    CALLS_TRY(tuttiCommGrow(nullptr, 2, &id, 1, &both, &config));
    return useChild(both, 2, b, wrong);
  }
  const int one = 1;
  CALLS_TRY(tuttiCommShrink(comm, &one, 1, &alone, nullptr, TUTTI_SHRINK_DEFAULT));
  tuttiResult_t result = tuttiCommGrow(alone, 2, &id, -1, &both, nullptr);
  if (result == tuttiSuccess) result = useChild(both, 2, b, wrong);
  return endOf(alone, result);
}

tuttiResult_t runChildren(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.splitShare = 0;  // a Session of its own
  tuttiComm_t child = nullptr;
  CALLS_TRY(tuttiCommSplit(comm, 0, rank, &child, &config));
  CALLS_TRY(useChild(child, 2, b, wrong));
  CALLS_TRY(tuttiCommSplit(comm, rank, 0, &child, nullptr));
  CALLS_TRY(useChild(child, 1, b, wrong));
  CALLS_TRY(shrinkAndGrow(comm, rank, b, wrong));
  return tuttiBarrier(comm, nullptr);
}

// ---- Memory that is registered, and streams

tuttiResult_t useRegistered(tuttiComm_t comm, float* memory, size_t count, int* wrong) {
  void* handle = nullptr;
  CALLS_TRY(tuttiCommRegister(comm, memory, count * sizeof(float), &handle));
  for (size_t i = 0; i < count; ++i) memory[i] = 1.0F;
  CALLS_TRY(tuttiAllReduce(memory, memory, count, tuttiFloat32, tuttiSum, comm, nullptr));
  *wrong += differing(memory, count, 2.0F);
  CALLS_TRY(tuttiBroadcast(memory, memory, count, tuttiFloat32, 1, comm, nullptr));
  return tuttiCommDeregister(comm, handle);
}

tuttiResult_t runOnStream(tuttiComm_t comm, tuttiStream_t stream, FaultBuffers& b, int* wrong) {
  tuttiEvent_t event = nullptr;
  CALLS_TRY(tuttiAllReduce(b.in(), b.out(), 4000, tuttiFloat32, tuttiSum, comm, stream));
  CALLS_TRY(tuttiEventCreate(&event));
  tuttiResult_t result = tuttiEventRecord(event, stream);
  if (result == tuttiSuccess) result = tuttiGroupStart();
  if (result == tuttiSuccess) {
    (void)tuttiAllGather(b.in(), b.out() + 5000, 3000, tuttiFloat32, comm, stream);
    (void)tuttiReduceScatter(b.in(), b.out() + 20'000, 3000, tuttiFloat32, tuttiSum, comm, stream);
    result = tuttiGroupEnd();
  }
  const tuttiResult_t finished = tuttiStreamSynchronize(stream);
  (void)tuttiEventDestroy(event);
  if (result == tuttiSuccess) result = finished;
  if (result == tuttiSuccess) *wrong += differing(b.out(), 4000, 2.0F) + differing(b.out() + 5000, 6000, 1.0F);
  return result;
}

tuttiResult_t runMemory(tuttiComm_t comm, int, FaultBuffers& b, int* wrong) {
  void* memory = nullptr;
  constexpr size_t kCount = 30'000;
  CALLS_TRY(tuttiMemAlloc(&memory, kCount * sizeof(float)));
  tuttiResult_t result = useRegistered(comm, static_cast<float*>(memory), kCount, wrong);
  (void)tuttiMemFree(memory);
  if (result == tuttiSuccess) result = useRegistered(comm, b.out(), kCount, wrong);
  tuttiStream_t stream = nullptr;
  if (result == tuttiSuccess) result = tuttiStreamCreate(&stream);
  if (result != tuttiSuccess) return result;
  result = runOnStream(comm, stream, b, wrong);
  const tuttiResult_t destroyed = tuttiStreamDestroy(stream);
  return result == tuttiSuccess ? destroyed : result;
}

// ---- The layers: a step of data parallelism

tuttiResult_t trainStep(tuttiDdp_t ddp, int* wrong) {
  CALLS_TRY(tuttiDdpBegin(ddp));
  for (size_t p = 0; p < 2; ++p) {
    tuttiTensor_t gradient;
    CALLS_TRY(tuttiDdpGradient(ddp, p, &gradient));
    for (int64_t i = 0; i < gradient.shape[0]; ++i) static_cast<float*>(gradient.data)[i] += 4.0F;
    CALLS_TRY(tuttiDdpGradReady(ddp, p));
  }
  CALLS_TRY(tuttiDdpFinish(ddp));
  tuttiTensor_t gradient;
  CALLS_TRY(tuttiDdpGradient(ddp, 0, &gradient));
  *wrong += differing(static_cast<const float*>(gradient.data), static_cast<size_t>(gradient.shape[0]), 4.0F);
  return tuttiSuccess;
}

tuttiResult_t runParallel(tuttiComm_t comm, int, FaultBuffers& b, int* wrong) {
  const tuttiParameter_t parameters[2] = {{"weights", tuttiVectorOf(b.out(), tuttiFloat32, 6000), 0},
                                          {"bias", tuttiVectorOf(b.out() + 6000, tuttiFloat32, 60), 0}};
  tuttiDdpConfig_t config = TUTTI_DDP_CONFIG_INITIALIZER;
  tuttiDdp_t ddp = nullptr;
  CALLS_TRY(tuttiDdpCreate(&ddp, comm, parameters, 2, &config));
  tuttiResult_t result = trainStep(ddp, wrong);
  if (result == tuttiSuccess) result = trainStep(ddp, wrong);
  const tuttiResult_t destroyed = tuttiDdpDestroy(ddp);
  return result == tuttiSuccess ? destroyed : result;
}

// ---- What has threads: streams, communicators that do not block, groups that make some, layers that compute meanwhile

/// The state of a communicator that does not block, when it has one.
tuttiResult_t settled(tuttiComm_t comm) {
  tuttiResult_t state = tuttiInProgress;
  while (state == tuttiInProgress) {
    CALLS_TRY(tuttiCommGetAsyncError(comm, &state));
    ::usleep(200);
  }
  return state;
}

tuttiResult_t runUnblocked(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  tuttiComm_t child = nullptr;
  if (const tuttiResult_t r = tuttiCommSplit(comm, 0, rank, &child, &config); r != tuttiInProgress) return r;
  tuttiResult_t result = settled(child);
  if (result == tuttiSuccess) result = tuttiAllReduce(b.in(), b.out(), 300, tuttiFloat32, tuttiSum, child, nullptr);
  if (result == tuttiInProgress) result = settled(child);
  if (result == tuttiSuccess) *wrong += differing(b.out(), 300, 2.0F);
  return endOf(child, result);
}

/// Two communicators in one group, each from a parent of its own.
tuttiResult_t runGroup(tuttiComm_t comm, tuttiComm_t second, int rank, FaultBuffers& b, int* wrong) {
  tuttiComm_t made[2] = {};
  CALLS_TRY(tuttiGroupStart());
  (void)tuttiCommSplit(comm, 0, rank, &made[0], nullptr);
  (void)tuttiCommSplit(second, 0, rank, &made[1], nullptr);
  tuttiResult_t result = tuttiGroupEnd();
  for (tuttiComm_t one : made) {
    if (one == nullptr) continue;
    if (result == tuttiSuccess) {
      result = useChild(one, 2, b, wrong);
    } else {
      (void)tuttiCommAbort(one);
    }
  }
  return result;
}

tuttiResult_t runThreads(tuttiComm_t comm, int rank, FaultBuffers& b, int* wrong) {
  tuttiStream_t stream = nullptr;
  CALLS_TRY(tuttiStreamCreate(&stream));
  tuttiResult_t result = runOnStream(comm, stream, b, wrong);
  (void)tuttiStreamDestroy(stream);
  if (result == tuttiSuccess) result = runUnblocked(comm, rank, b, wrong);
  tuttiComm_t second = nullptr;
  if (result == tuttiSuccess) result = tuttiCommSplit(comm, 0, rank, &second, nullptr);
  if (result == tuttiSuccess) result = endOf(second, runGroup(comm, second, rank, b, wrong));
  return result == tuttiSuccess ? runParallel(comm, rank, b, wrong) : result;
}

}  // namespace

std::unique_ptr<FaultBuffers> makeHostBuffers() { return std::make_unique<HostBuffers>(); }

const std::array<FaultCalls, 7>& faultCalls() {
  static constexpr std::array<FaultCalls, 7> all = {{{"basic", runBasic, true, false},
                                                     {"collectives", runCollectives, false, false},
                                                     {"children", runChildren, false, false},
                                                     {"memory", runMemory, false, false},
                                                     {"parallel", runParallel, false, false},
                                                     {"threads", runThreads, false, false},
                                                     {"cuda", runBasic, true, true}}};
  return all;
}

}  // namespace tutti::test
