// One interface to plugins of all versions.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "transport/ncclnet/abi.hpp"

namespace tutti::ncclnet {

/// What is asked of a device before it is used.
struct DeviceProperties {
  std::string name;
  int memory = 0;
  int deviceType = 0;
  size_t mostBytes = 0;  // of one message
  std::string pciPath;   // its folder in /sys, or nothing
  bool alwaysFlush = false;
};

/// A plugin's calls, as its newest version has them.  Where a comm or a request is null after success, the call is to
/// be made again.  init() and finalize() come once in the life of an object.  The comms of one plugin may be used by
/// several threads, each by one at a time.
class Net {
 public:
  virtual ~Net() = default;
  virtual const char* name() const = 0;
  virtual int version() const = 0;
  virtual Code init(Logger logger) = 0;
  /// Does nothing where the version has no such call.
  virtual Code finalize() = 0;
  virtual Code devices(int* n) = 0;
  virtual Code getProperties(int device, DeviceProperties* into) = 0;
  virtual Code listen(int device, void* handle, void** comm) = 0;
  virtual Code connect(int device, void* handle, void** comm) = 0;
  virtual Code accept(void* listenComm, void** comm) = 0;
  /// kind: kHostMemory or kCudaMemory.
  virtual Code regMr(void* comm, void* data, size_t bytes, int kind, void** memory) = 0;
  /// Memory of a CUDA device, which begins `offset` bytes behind the begin of what `fd` stands for.
  virtual Code regMrDmaBuf(void* comm, void* data, size_t bytes, uint64_t offset, int fd, void** memory) = 0;
  virtual Code deregMr(void* comm, void* memory) = 0;
  virtual Code isend(void* comm, void* data, size_t bytes, void* memory, void** request) = 0;
  virtual Code irecv(void* comm, void* data, size_t bytes, void* memory, void** request) = 0;
  virtual bool hasFlush() const = 0;
  /// What has been received there becomes visible to the device, when test() says so; at once where no request is
  /// given.
  virtual Code iflush(void* comm, void* data, size_t bytes, void* memory, void** request) = 0;
  virtual Code test(void* request, int* done, int* bytes) = 0;
  virtual Code closeSend(void* comm) = 0;
  virtual Code closeRecv(void* comm) = 0;
  virtual Code closeListen(void* comm) = 0;
};

/// A version: the symbol that a plugin exports, and how its table becomes a Net.  The table is of the plugin's.
struct Version {
  const char* symbol;
  std::unique_ptr<Net> (*adapt)(const void* table);
};

/// The newest first.
std::span<const Version> versions();

/// "ncclSystemError".
std::string nameOf(Code code);

}  // namespace tutti::ncclnet
