// The sockets of one endpoint, and what their errors mean.
#pragma once

#include <sys/uio.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/fd.hpp"
#include "src/base/status.hpp"
#include "transport/tcp/path_load.hpp"
#include "transport/tcp/resumable_socket.hpp"

namespace tutti::tcp {

/// What the user asks of connections between hosts.
struct Tuning {
  std::string congestion;  // TUTTI_TCP_CONGESTION; "": the system's
  int busyPollUs = 0;      // TUTTI_TCP_BUSY_POLL_US; 0: the system's
  int nPaths = 1;          // interfaces that the sockets go by, in turn, which may differ in speed

  /// Whether this system gives it.  Errors: InvalidUsage naming the variable.
  Status check() const;
};

/// What the bytes are under.
struct Sealing {
  Protection protection = Protection::Checksums;
  std::vector<DirectionKeys> keys;  // of each socket, under tags or encryption
};

/// Connected, non-blocking stream sockets to one peer.  One thread at a time.
class Sockets {
 public:
  /// reopener: makes them again when they break; null: their end is the peer's, and there is no sealing.
  Sockets(int peer, int lane, std::vector<Fd> fds, std::shared_ptr<Reopener> reopener = nullptr, Tuning tuning = {},
          const Sealing& sealing = {});

  int count() const { return count_; }
  /// How many sockets a large message is spread over: all, or one where both ends are on this host (no adapter has
  /// queues to fill there, and every further socket is another system call).
  uint32_t spread() const { return spread_; }
  int peer() const { return peer_; }
  /// A round trip takes so little that small messages may wait for one: the peer is on this host or near it.
  bool near() const { return near_; }
  /// Sockets may be made again: fd(i) changes, and what is in it are records.
  bool resumable() const { return !resumable_.empty(); }
  /// Of resumable ones.  onChange: as ResumableSocket's.  tick: true while one is away.
  void onChange(const std::function<void(int fd, bool open)>& change);
  void serve();
  bool tick(int64_t nowNs);
  /// Let the system hold back what is written to the first socket while something before it is unacknowledged, so that
  /// it leaves together; or (false) send what it has and hold nothing back.
  void gather(bool on) {
    if (on != gathers_) switchGathering(on);
  }
  /// Acknowledge at once what has come on the first socket, and from now on what comes when it is read, until we write.
  void acknowledge();
  /// Whether something was written, or has come, since acknowledge().
  bool answered() const { return answered_; }
  bool unacknowledged() const { return came_; }
  /// A message has come; and whether one has since the last question.
  void heard() { heard_ = true; }
  bool heardOf() { return std::exchange(heard_, false); }
  /// Whether the peer has closed this one, and all that it had sent by it has been read.
  bool closed(int i) const { return (closed_ >> i & 1) != 0; }
  /// Whether something written now would begin to leave.
  bool hasRoom(int i) const;
  /// Whether sockets go by several interfaces; then the one that would deliver so many bytes first.  -1: that one has
  /// no room, or is not of `among` (a bit for each), but will soon be, which is sooner than by another.
  bool severalPaths() const { return tuning_.nPaths > 1; }
  int soonest(uint32_t among, size_t bytes);
  /// A piece wrote so much to it.
  void wrotePiece(int i, size_t bytes) {
    if (severalPaths()) loads_[static_cast<size_t>(i)].wrote(bytes);
  }
  /// -1: it is away.
  int fd(int i) const {
    const auto at = static_cast<size_t>(i);
    return resumable_.empty() ? fds_[at].get() : resumable_[at]->fd();
  }

  /// Bytes that moved; 0 if the system would have to wait.  Errors: RemoteError (the peer is gone), SystemError.
  /// SIGPIPE is never raised.  What is read into may be written until a read of it has given bytes, or one into other
  /// memory.
  Result<size_t> write(int i, std::span<iovec> parts);
  Result<size_t> read(int i, std::span<iovec> parts);
  /// The same for one piece of memory, which costs the system less.
  Result<size_t> write(int i, std::span<const std::byte> bytes);
  Result<size_t> read(int i, std::span<std::byte> bytes);
  /// Nothing that was read into is written any more; for a reader that gives up.
  void abandon() noexcept {
    for (const auto& socket : resumable_) socket->abandon();
  }
  /// A read of small messages, into memory that they are copied out of.
  Result<size_t> readAhead(int i, std::span<std::byte> bytes);

 private:
  void prepare(int i, int fd);
  void tune(int fd) const;
  void switchGathering(bool on);
  void setOption(int fd, int name, int value) const;
  Result<size_t> written(ssize_t n);
  Result<size_t> readResumable(int i, std::span<const iovec> parts, bool straight);
  Result<size_t> got(int i, ssize_t n);
  Status broken(int errnum, const char* doing) const;

  int peer_;
  int lane_;
  int count_;
  std::vector<Fd> fds_;                                      // or
  std::vector<std::unique_ptr<ResumableSocket>> resumable_;  // these
  uint32_t spread_;
  bool onHost_;  // both ends are
  bool near_ = true;
  Tuning tuning_;
  std::vector<PathLoad> loads_;  // by socket, where there are several paths
  uint32_t closed_ = 0;          // a bit for each
  bool answered_ = true;
  bool came_ = false;
  bool heard_ = false;
  bool gathers_ = false;
};

}  // namespace tutti::tcp
