// Host functions that NCCL has had since 2.29: what Tutti does the same, and what it refuses with a sentence.
#include <cstring>

#include "src/nccl/calls.hpp"
#include "src/nccl/errors.hpp"

using namespace tutti::nccl;

namespace {

constexpr const char* kOneSided = "Tutti has no one-sided operations; use ncclSend and ncclRecv";
constexpr const char* kSuspend = "communicators keep their memory";

/// A function of communicators that Tutti lacks; comm is looked at first, as NCCL does.
ncclResult_t lacking(const char* function, ncclComm_t comm, const char* why) {
  const ncclResult_t bad = checkComm(function, comm);
  return bad != ncclSuccess ? bad : unsupported(function, why);
}

}  // namespace

NCCL_EXPORT(ncclResult_t, CommSuspend, (ncclComm_t comm, int)) { return lacking("CommSuspend", comm, kSuspend); }
NCCL_EXPORT(ncclResult_t, CommResume, (ncclComm_t comm)) { return lacking("CommResume", comm, kSuspend); }

// Bytes of GPU memory that NCCL would tell of: a communicator on host memory has none, and none is suspended.
NCCL_EXPORT(ncclResult_t, CommMemStats, (ncclComm_t comm, int stat, uint64_t* value)) {
  if (value == nullptr) return fail(ncclInvalidArgument, "CommMemStats", "value is NULL");
  if (stat < 0 || stat > 3) return fail(ncclInvalidArgument, "CommMemStats", "stat is not one of NCCL's (0..3)");
  if (const ncclResult_t bad = checkComm("CommMemStats", comm); bad != ncclSuccess) return bad;
  *value = 0;
  return ncclSuccess;
}

NCCL_EXPORT(ncclResult_t, PutSignal,
            (const void*, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned, ncclComm_t comm,
             cudaStream_t)) {
  return lacking("PutSignal", comm, kOneSided);
}
NCCL_EXPORT(ncclResult_t, Signal, (int, int, int, unsigned, ncclComm_t comm, cudaStream_t)) {
  return lacking("Signal", comm, kOneSided);
}
NCCL_EXPORT(ncclResult_t, WaitSignal, (int, void*, ncclComm_t comm, cudaStream_t)) {
  return lacking("WaitSignal", comm, kOneSided);
}

// 2.32.  The key is the secret of ranks whose launcher hands none out; ids have their own.
NCCL_EXPORT(ncclResult_t, SetEncryption, (const EncryptionConfig* config)) {
  if (config == nullptr) return ncclSuccess;
  if (config->magic != kMagic || config->size < sizeof *config) {
    return fail(ncclInvalidArgument, "SetEncryption",
                "config is not initialised: start it with NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  }
  constexpr size_t kLeastKeyBytes = 32;  // as NCCL has it
  const bool keyed = config->mode == 1;
  if (config->mode != 0 && !keyed) return fail(ncclInvalidArgument, "SetEncryption", "mode is neither NONE nor PSK");
  if (keyed && (config->psk == nullptr || std::strlen(config->psk) < kLeastKeyBytes))
    return fail(ncclInvalidArgument, "SetEncryption", "psk has fewer than 32 bytes");
  tuttiResult_t result = tuttiSetDefault("TUTTI_SECRET", keyed ? config->psk : nullptr);
  if (result == tuttiSuccess) result = tuttiSetDefault("TUTTI_ENCRYPT", keyed ? "1" : nullptr);
  return finish("SetEncryption", result);
}
