// What transports need from the bootstrap layer, as interfaces, so that neither includes the other.
#pragma once

#include <memory>
#include <string>

#include "src/base/fd.hpp"
#include "src/base/memory.hpp"
#include "src/base/pending.hpp"
#include "src/base/secret.hpp"
#include "src/base/stream_index.hpp"

namespace tutti {

/// A descriptor on its way.  Errors of poll(): RemoteError, SystemError.
using PendingFd = std::unique_ptr<Pending<Fd>>;

/// Hands file descriptors (shared memory) between ranks of one host.  Any thread.
class FdExchange {
 public:
  virtual ~FdExchange() = default;
  /// Peers of this communicator may fetch `fd` (duplicated) under `key` until unserve().
  virtual Status serve(const std::string& key, int fd) = 0;
  virtual void unserve(const std::string& key) = 0;
  /// What `peer` serves under `key`, when it does.  Borrows the exchange.
  virtual PendingFd fetch(int peer, const std::string& key) = 0;
};

/// How adapters are given memory of the rank's device (GPUDirect RDMA).  Any thread.
class AdapterAccess {
 public:
  virtual ~AdapterAccess() = default;
  /// "0000:1b:00.0", where the device is on PCI.
  virtual std::string busId() const = 0;
  /// What whoever drives the adapter asks of the system; a network plugin may have ways of its own.
  struct Needs {
    bool registering = true;  // of the device's memory by the kernel
    bool flush = true;        // of what adapters have written, by the driver, where the device does not order it
  };
  /// Whether adapters may have the device's memory at all.  Errors: InvalidUsage, a clause that says why not.
  virtual Status check(Needs needs) const = 0;
  /// Whether what adapters have written is there for the device in their order, without any flush.
  virtual bool ordersWrites() const = 0;
  /// The kernel knows the device's memory by its addresses, so that it is registered like the host's (nvidia-peermem).
  virtual bool byAddress() const = 0;
  /// The memory begins `offset` bytes behind the begin of what `fd` stands for, whole pages.
  struct DmaBuf {
    Fd fd;
    uint64_t offset = 0;
  };
  /// Errors: InvalidUsage, a clause: the device has none; UnhandledCudaError.
  virtual Result<DmaBuf> dmaBuf(const Memory& memory) const = 0;
};

/// Opens authenticated byte streams between ranks.  Any thread.
class StreamExchange {
 public:
  virtual ~StreamExchange() = default;
  /// The connected, non-blocking TCP socket number `index` to `peer`, both of whose ends have proven the communicator's
  /// secret.  Both ranks call it with the same index, in any order; each index once.  It began without a pace of its
  /// own (src/base/congestion.hpp); whether it stays so is the caller's choice.  Borrows the exchange.
  /// index: also says the address to begin with (src/base/stream_index.hpp).
  virtual PendingFd open(int peer, StreamIndex index) = 0;
  /// The same if `peer` has opened it and nobody here has; not valid: it has not.  Dials nobody.
  virtual Result<Fd> opened(int /*peer*/, StreamIndex /*index*/) { return Fd(); }
  /// The keys of a stream's two directions, once, when open() or opened() has given it: nobody but its ends has them.
  /// Empty ones: a stream without a secret.
  virtual DirectionKeys keysOf(int /*peer*/, StreamIndex /*index*/) { return {}; }
  /// How many of this rank's addresses, each of an interface, streams are to be spread over: more than one where the
  /// user has named several interfaces.
  virtual int nPaths() const { return 1; }
};

}  // namespace tutti
