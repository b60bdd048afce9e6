// A connection: an endpoint of a transport that is its alone.  One thread.
#pragma once

#include <memory>
#include <string>

#include "src/net_plugin/meeting.hpp"
#include "src/net_plugin/network.hpp"

namespace tutti::net_plugin {

class Link {
 public:
  /// handle: of the listener, on both ends.  Errors: as makeTransport().
  static Result<std::unique_ptr<Link>> begin(const Handle& handle, Sockets sockets);
  /// Whether the endpoint is there.  Errors: RemoteError, InvalidUsage, SystemError.
  Result<bool> up();

  const std::string& peer() const { return peer_; }
  size_t pieceBytes() const { return endpoint_->slotBytes(); }
  void progress() { (void)transport_->progress(); }
  Result<std::unique_ptr<MemoryRegistration>> registerMemory(void* data, size_t bytes);

  /// A part of a message on its way.
  struct Passing {
    bool begun = false;
    Request request = 0;  // 0: it is done
  };
  /// Begin to send; memory is borrowed until done().  begun is false where there is no room: call again with the same.
  Result<Passing> send(const void* data, size_t bytes);
  /// Begin to receive exactly so many bytes; as above.
  Result<Passing> receive(void* into, size_t bytes);
  Result<bool> done(const Passing& passing);
  /// True once a small message of exactly so many bytes is there; memory is borrowed from the first call until then.
  Result<bool> take(void* into, size_t bytes);

 private:
  /// The sockets that have been made, as a transport asks for them.
  class Streams final : public StreamExchange {
   public:
    explicit Streams(std::vector<Fd> fds) : fds_(std::move(fds)) {}
    PendingFd open(int, StreamIndex index) override;

   private:
    std::vector<Fd> fds_;
  };
  Link(std::string peer, std::vector<Fd> fds) : peer_(std::move(peer)), streams_(std::move(fds)) {}

  const std::string peer_;
  Streams streams_;
  std::unique_ptr<Transport> transport_;
  PendingEndpoint opening_;
  std::unique_ptr<Endpoint> endpoint_;
};

}  // namespace tutti::net_plugin
