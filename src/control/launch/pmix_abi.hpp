// What Tutti uses of PMIx's client interface, declared here so that it builds on machines without PMIx's headers.
//
// libpmix.so.2 keeps these names, values and layouts stable for compiled programs from version 3 on.  Where pmix.h is
// installed, a test holds every one of them against it.  Source: PMIx standard 4.1, chapters 3 to 7.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti::pmix {

using PmixStatus = int;
inline constexpr PmixStatus kSuccess = 0;
inline constexpr PmixStatus kErrorTimeout = -24;
inline constexpr PmixStatus kErrorUnreachable = -25;
inline constexpr PmixStatus kErrorInvalidNamespace = -44;

/// Of a value.
inline constexpr uint16_t kBool = 1;
inline constexpr uint16_t kString = 3;
inline constexpr uint16_t kInt = 6;
inline constexpr uint16_t kUint32 = 14;

inline constexpr uint8_t kGlobalScope = 3;            // to ranks of all hosts
inline constexpr uint32_t kAnyRank = UINT32_MAX - 1;  // for what is known of the job

inline constexpr const char* kJobSize = "pmix.job.size";        // uint32_t
inline constexpr const char* kCollectData = "pmix.collect";     // bool: a fence also exchanges what was put
inline constexpr const char* kTimeoutSeconds = "pmix.timeout";  // int

struct Process {
  char nameSpace[256];
  uint32_t rank;
};

struct Value {
  uint16_t type;
  union {
    bool flag;
    int integer;
    uint32_t uint32;
    char* string;
    void* widest[3];
  } data;
};

struct Info {
  char key[512];
  uint32_t flags;
  Value value;
};

/// name, result, parameters of each function.
#define TUTTI_PMIX_FUNCTIONS(X)                                                        \
  X(PMIx_Init, PmixStatus, (Process*, Info*, size_t))                                  \
  X(PMIx_Finalize, PmixStatus, (const Info*, size_t))                                  \
  X(PMIx_Get, PmixStatus, (const Process*, const char*, const Info*, size_t, Value**)) \
  X(PMIx_Put, PmixStatus, (uint8_t, const char*, Value*))                              \
  X(PMIx_Commit, PmixStatus, ())                                                       \
  X(PMIx_Fence, PmixStatus, (const Process*, size_t, const Info*, size_t))             \
  X(PMIx_Error_string, const char*, (PmixStatus))

}  // namespace tutti::pmix
