// NCCL's interface to profiler plugins, versions 4 to 6, as far as it is called here: what a plugin exports under
// ncclProfiler_vN is a table of functions.  Layout, order and numbers are the interface; names are ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/plugin_logger.hpp"

namespace tutti::profiler {

/// ncclResult_t; 0 is success.
using Code = int;
inline constexpr Code kSuccess = 0;

/// Kinds of events, bits of an activation mask.
enum class EventKind : uint32_t {
  Group = 1 << 0,
  Collective = 1 << 1,
  PointToPoint = 1 << 2,
  ProxyOp = 1 << 3,
  ProxyStep = 1 << 4,
  ProxyControl = 1 << 5,
  KernelChannel = 1 << 6,
  NetPlugin = 1 << 7,
  GroupApi = 1 << 8,  // this one and those below are not there in version 4
  CollectiveApi = 1 << 9,
  PointToPointApi = 1 << 10,
  KernelLaunch = 1 << 11,
};

/// What recordEventState() tells.
enum class EventState : int {
  ProxyOpInProgress = 19,
  KernelChannelStop = 22,
  GroupStartApiStop = 23,
  GroupEndApiStart = 24,
};

struct GroupApiEvent {
  bool graphCaptured;
  int groupDepth;  // 1: the call made the group itself
};
struct CollectiveApiEvent {
  const char* function;
  size_t count;
  const char* dataType;
  int root;
  void* stream;
  bool graphCaptured;
};
struct PointToPointApiEvent {
  const char* function;
  size_t count;
  const char* dataType;
  void* stream;
  bool graphCaptured;
};
struct CollectiveEvent {
  uint64_t sequence;
  const char* function;
  const void* sendbuff;
  void* recvbuff;
  size_t count;
  int root;
  const char* dataType;
  uint8_t nChannels;
  uint8_t nWarps;
  const char* algorithm;
  const char* protocol;
};
/// With the parent that it has in version 4.
struct CollectiveEvent5 {
  CollectiveEvent call;
  void* group;
};
struct PointToPointEvent {
  const char* function;
  void* buffer;
  const char* dataType;
  size_t count;
  int peer;
  uint8_t nChannels;
};
struct PointToPointEvent5 {
  PointToPointEvent call;
  void* group;
};
struct ProxyOpEvent {
  int pid;
  uint8_t channel;
  int peer;
  int nSteps;
  int chunkBytes;
  int isSend;
};
struct KernelChannelEvent {
  uint8_t channel;
  uint64_t timer;
};

/// Version 4.
struct Descriptor4 {
  uint8_t kind;
  void* parent;
  int rank;
  union {
    CollectiveEvent collective;
    PointToPointEvent pointToPoint;
    ProxyOpEvent proxyOp;
    KernelChannelEvent kernelChannel;
  };
};

/// Versions 5 and 6, which has more kinds.
struct Descriptor5And6 {
  uint64_t kind;
  void* parent;
  int rank;
  union {
    GroupApiEvent groupApi;
    CollectiveApiEvent collectiveApi;
    PointToPointApiEvent pointToPointApi;
    CollectiveEvent5 collective;
    PointToPointEvent5 pointToPoint;
    ProxyOpEvent proxyOp;
    KernelChannelEvent kernelChannel;
  };
};

/// A word in all versions.
union StateArguments {
  uint64_t timer;  // of a kernel's channel
  size_t bytes;
};

static_assert(offsetof(Descriptor4, collective) == 24 && sizeof(Descriptor4) == 104);
static_assert(offsetof(Descriptor5And6, collective) == 24 && sizeof(Descriptor5And6) == 112);
static_assert(offsetof(CollectiveEvent, nChannels) == 56 && offsetof(CollectiveEvent, protocol) == 72);
static_assert(offsetof(PointToPointEvent, nChannels) == 36 && sizeof(PointToPointEvent5) == 48);

/// What a plugin exports.
template <class Init, class Descriptor>
struct TableOf {
  const char* name;
  Init* init;
  Code (*startEvent)(void* context, void** event, Descriptor* descriptor);
  Code (*stopEvent)(void* event);
  Code (*recordEventState)(void* event, int state, StateArguments* arguments);
  Code (*finalize)(void* context);
};

using Init4 = Code(void** context, int* mask, const char* name, uint64_t communicator, int nNodes, int nRanks, int rank,
                   PluginLogger logger);
using Init5And6 = Code(void** context, uint64_t communicator, int* mask, const char* name, int nNodes, int nRanks,
                       int rank, PluginLogger logger);
using Table4 = TableOf<Init4, Descriptor4>;
using Table5And6 = TableOf<Init5And6, Descriptor5And6>;

}  // namespace tutti::profiler
