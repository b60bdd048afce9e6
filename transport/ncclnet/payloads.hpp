// Payloads that travel apart from their headers, between ranks that are both on devices: from and to registered memory.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "src/base/fifo.hpp"
#include "transport/ncclnet/comms.hpp"
#include "transport/ncclnet/region.hpp"

namespace tutti::ncclnet {

/// Two more comms of a connection.  A payload is one isend, which the receiver posts an irecv for when it has the
/// header and knows where it is to be.  Both ends count payloads, from 1 on, and they are done in their order.  One
/// thread, but for forget(): comms and what is registered with them are guarded.
class Payloads final : public Region::User, public std::enable_shared_from_this<Payloads> {
 public:
  /// flushes: what has come into memory of a device is flushed by the plugin before it counts.
  Payloads(int peer, std::shared_ptr<Plugin> plugin, bool flushes)
      : comms_(peer, std::move(plugin)), flushes_(flushes) {}
  ~Payloads() override { close(); }

  /// As Comms'.
  Result<Handle> listen() { return comms_.listen(); }
  Result<bool> connect(Handle* theirs) { return comms_.connect(theirs); }
  /// Of the host, for payloads without a region; `from` is sent from, and `to` received into.  Errors: SystemError.
  Status registerSlots(std::byte* from, std::byte* to, size_t bytes);
  /// Whether requests may use the region: it is registered now, or has been.  Why not is logged once.
  bool takes(const std::shared_ptr<Region>& region);

  /// region: that data lies in, which has been taken; null: the slots registered.  The number of this payload.
  uint64_t send(const std::byte* data, size_t bytes, const Region* region);
  uint64_t receive(std::byte* into, size_t bytes, const Region* region);
  /// Payloads that the plugin is done with.
  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }
  bool allReceived() const { return receives_.empty(); }

  /// Calls the plugin for all that is under way.  True if something has moved.
  bool drive();
  /// ok while nothing has failed; each stays.
  const Status& sendingTrouble() const { return sendingTrouble_; }
  const Status& receivingTrouble() const { return receivingTrouble_; }
  /// Gives up all: the plugin uses no memory any more.
  void close();
  void forget(const Region& region) override;

 private:
  /// As the two comms know a piece of memory.
  struct Registered {
    void* toSend = nullptr;
    void* toReceive = nullptr;
  };
  struct Transfer {
    std::byte* data;
    size_t bytes;
    void* memory;
    bool onDevice;
    void* request = nullptr;
    bool flushing = false;
  };
  Code registerWith(void* comm, const Region& region, void** memory) const;
  void deregister(const Registered& both);
  Registered find(const Region* region) const;
  bool driveSends();
  bool driveReceives();
  bool start(Fifo<Transfer>* all, size_t* started, bool sends, Status* trouble);
  bool testFront(Fifo<Transfer>* all, const char* call, Status* trouble, bool* whole);
  Code beginFlush(Transfer* next);

  std::mutex mutex_;  // guards what follows, but for the counters and troubles
  Comms comms_;
  const bool flushes_;
  bool closed_ = false;
  Registered slots_;
  std::map<const Region*, Registered> regions_;
  bool refused_ = false;                           // that a region could not be registered has been logged
  Fifo<Transfer> sends_, receives_;                // that are not done
  size_t startedSends_ = 0, startedReceives_ = 0;  // of those
  uint64_t sent_ = 0, received_ = 0;
  Status sendingTrouble_, receivingTrouble_;
};

}  // namespace tutti::ncclnet
