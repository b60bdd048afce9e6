// The sockets of one endpoint, and what their errors mean.
#pragma once

#include <sys/uio.h>

#include <span>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"

namespace tutti::tcp {

/// Connected, non-blocking stream sockets to one peer.  One thread at a time.
class Sockets {
 public:
  Sockets(int peer, int lane, std::vector<Fd> fds);

  int count() const { return static_cast<int>(fds_.size()); }
  /// How many sockets a large message is spread over: all, or one where both ends are on this host (no adapter has
  /// queues to fill there, and every further socket is another system call).
  uint32_t spread() const { return spread_; }
  int peer() const { return peer_; }
  /// Both ends are on this host: only the first socket is in use.
  bool local() const { return local_; }
  /// Let the system hold back what is written to the first socket while something before it is unacknowledged, so that
  /// it leaves together; or (false) send what it has and hold nothing back.
  void gather(bool on);
  /// Acknowledge at once what has come on the first socket, and from now on what comes when it is read, until we write.
  void acknowledge();
  /// Whether something was written, or has come, since acknowledge().
  bool answered() const { return answered_; }
  bool unacknowledged() const { return came_; }
  /// A message has come; and whether one has since the last question.
  void heard() { heard_ = true; }
  bool heardOf() { return std::exchange(heard_, false); }
  int fd(int i) const { return fds_[static_cast<size_t>(i)].get(); }

  /// Bytes that moved; 0 if the system would have to wait.  Errors: RemoteError (the peer is gone), SystemError.
  /// SIGPIPE is never raised.
  Result<size_t> write(int i, std::span<iovec> parts);
  Result<size_t> read(int i, std::span<iovec> parts);
  /// The same for one piece of memory, which costs the system less.
  Result<size_t> write(int i, std::span<const std::byte> bytes);
  Result<size_t> read(int i, std::span<std::byte> bytes);

 private:
  void setOption(int fd, int name, int value) const;
  Result<size_t> written(ssize_t n);
  Result<size_t> got(ssize_t n);
  Status broken(int errnum, const char* doing) const;

  int peer_;
  int lane_;
  std::vector<Fd> fds_;
  uint32_t spread_;
  bool local_;
  bool answered_ = true;
  bool came_ = false;
  bool heard_ = false;
};

}  // namespace tutti::tcp
