// NCCL's interface to network plugins, versions 8 to 12, as far as it is called here: what a plugin exports under
// ncclNetPlugin_vN is a table of functions.  Layout and order are the interface; names are ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/plugin_logger.hpp"

namespace tutti::ncclnet {

/// ncclResult_t; 0 is success.
using Code = int;
inline constexpr Code kSuccess = 0, kInvalidUsage = 5;
// Kinds of memory that a device can reach; the first two also of what is registered.
inline constexpr int kHostMemory = 1;
inline constexpr int kCudaMemory = 2;
inline constexpr int kByDmaBuf = 4;
inline constexpr int kHostDevice = 0;  // a device whose messages need no code on GPUs
inline constexpr size_t kHandleBytes = 128;
/// Requests that may be under way on one comm.
inline constexpr size_t kMostRequests = 32;

using Logger = PluginLogger;
using Profiler = Code (*)(void** event, int type, void* parent, int64_t plugin, void* more);

/// Of a device, version 8.
struct Properties8 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int memory;
  int registersForAll;
  int mbitPerSecond;
  int port;
  float latencyUs;
  int mostComms;
  int mostGrouped;
  int deviceType;
  int deviceVersion;
};

/// Versions 9 to 12: each is the beginning of the next, but for the number of parts that a device may have.
template <int kMostParts>
struct Properties9To12 {
  char* name;
  char* pciPath;
  uint64_t guid;
  int memory;
  int registersForAll;
  int alwaysFlush;
  int mbitPerSecond;
  int port;
  float latencyUs;
  int mostComms;
  int mostGrouped;
  int deviceType;
  int deviceVersion;
  int parts;
  int part[kMostParts];
  size_t mostBytes;  // of one message
  size_t mostCollectiveBytes;
  int mostInMultiRequest;  // 11
  int16_t rail;            // 12
  int16_t plane;
};

struct CommConfig {
  int trafficClass = -1;  // left to the plugin
};

/// The types that differ between versions.
struct Types8 {
  using Properties = Properties8;
  using Size = int;
  using Init = Code(Logger);
  using Listen = Code(int device, void* handle, void** comm);
  using Connect = Code(int device, void* handle, void** comm, void** deviceHandle);
  using Send = Code(void* comm, void* data, int bytes, int tag, void* memory, void** request);
  using Receive = Code(void* comm, int n, void** data, int* bytes, int* tags, void** memory, void** request);
};
struct Types9 : Types8 {
  using Properties = Properties9To12<4>;
  using Size = size_t;
  using Send = Code(void* comm, void* data, size_t bytes, int tag, void* memory, void** request);
  using Receive = Code(void* comm, int n, void** data, size_t* bytes, int* tags, void** memory, void** request);
};
struct Types10 : Types9 {
  using Init = Code(Logger, Profiler);
  using Connect = Code(int device, CommConfig*, void* handle, void** comm, void** deviceHandle);
  using Send = Code(void* comm, void* data, size_t bytes, int tag, void* memory, void* event, void** request);
  using Receive = Code(void* comm, int n, void** data, size_t* bytes, int* tags, void** memory, void** events,
                       void** request);
};
struct Types11 : Types10 {
  using Init = Code(void** context, uint64_t communicator, CommConfig*, Logger, Profiler);
  using Listen = Code(void* context, int device, void* handle, void** comm);
  using Connect = Code(void* context, int device, void* handle, void** comm, void** deviceHandle);
};
struct Types12 : Types11 {
  using Properties = Properties9To12<8>;
};

/// What a plugin exports.  Version 8 ends before makeVirtualDevice, versions before 11 end before finalize.
template <class Types>
struct Table {
  const char* name;
  typename Types::Init* init;
  Code (*devices)(int* n);
  Code (*getProperties)(int device, typename Types::Properties*);
  typename Types::Listen* listen;
  typename Types::Connect* connect;
  Code (*accept)(void* listenComm, void** comm, void** deviceHandle);
  Code (*regMr)(void* comm, void* data, size_t bytes, int kind, void** memory);
  Code (*regMrDmaBuf)(void* comm, void* data, size_t bytes, int kind, uint64_t offset, int fd, void** memory);
  Code (*deregMr)(void* comm, void* memory);
  typename Types::Send* isend;
  typename Types::Receive* irecv;
  Code (*iflush)(void* comm, int n, void** data, int* bytes, void** memory, void** request);
  Code (*test)(void* request, int* done, int* bytes);
  Code (*closeSend)(void* comm);
  Code (*closeRecv)(void* comm);
  Code (*closeListen)(void* comm);
  Code (*getDeviceMr)(void* comm, void* memory, void** deviceMemory);
  Code (*irecvConsumed)(void* comm, int n, void* request);
  Code (*makeVirtualDevice)(int* device, void* parts);
  Code (*finalize)(void* context);
  Code (*setNetAttr)(void* context, void* attributes);
};

}  // namespace tutti::ncclnet
