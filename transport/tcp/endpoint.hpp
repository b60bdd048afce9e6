// An endpoint over tcp: an Outgoing and an Incoming half over the sockets of one (peer, lane), which nothing else uses.
#pragma once

#include <memory>
#include <vector>

#include "transport/fd_sleeper.hpp"
#include "transport/tcp/incoming.hpp"
#include "transport/tcp/outgoing.hpp"
#include "transport/transport.hpp"

namespace tutti::tcp {

/// See Endpoint.  No direct protocol and no inline one: a socket has neither.  Requests are its own: a posted send is
/// done when the system has taken it, and what comes for a posted receive is read to its place.
class TcpEndpoint final : public Endpoint, private FdSleeper::Owner, private Reopener::Owner {
 public:
  /// fds: connected, non-blocking, in the same order on both ends.  sleeper may be null; else it wakes for them, and
  /// calls progress().
  /// looks: of all endpoints of this rank, which count in it.
  /// reopener: null, or what makes sockets again when they break.
  /// tuning: of sockets that leave the host.
  /// sealing: as Sockets'.
  TcpEndpoint(int peer, int lane, std::vector<Fd> fds, size_t slotBytes, std::shared_ptr<FdSleeper> sleeper,
              std::shared_ptr<EmptyLooks> looks = std::make_shared<EmptyLooks>(),
              std::shared_ptr<Reopener> reopener = nullptr, Tuning tuning = {}, const Sealing& sealing = {});
  ~TcpEndpoint() override;

  size_t slotBytes() const override { return slotBytes_; }
  Result<bool> send(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<std::span<std::byte>> reserve() override;
  Result<bool> commit(size_t bytes, const Fingerprint& call) override;
  Result<const std::byte*> peek(const Expect& expect) override;
  void release() override { incoming_.release(); }
  Result<bool> receive(std::byte* dst, const Expect& expect) override;
  Result<Request> postSend(const std::byte* data, size_t bytes, const Fingerprint& call) override;
  Result<Request> postReceive(std::byte* dst, const Expect& expect) override;
  Result<bool> test(Request request) override;
  void cancel() override;
  std::optional<Fingerprint> pending() const override { return incoming_.pending(); }

  /// Moves what waits in buffers of the system; true if something moved.
  Result<bool> progress() override;
  bool due() const override { return due_; }

 private:
  void touch() override;
  void becomeDue();
  bool tick(int64_t nowNs) override;
  void watch(int fd, bool open);
  bool isDone(Request request) const;
  Status goOn();
  template <class T>
  Result<T> remember(Result<T> result);

  size_t slotBytes_;
  std::shared_ptr<EmptyLooks> looks_;
  std::shared_ptr<Reopener> reopener_;
  std::shared_ptr<FdSleeper> sleeper_;
  Sockets sockets_;
  Outgoing outgoing_;
  Incoming incoming_;
  bool due_ = false;  // in the sleeper's list
  Status failure_;    // the first one
};

}  // namespace tutti::tcp
