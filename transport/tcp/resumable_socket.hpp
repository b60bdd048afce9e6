// One socket of an endpoint that is made again when its connection breaks or stalls.
//
// Whoever notices first opens the stream's next generation through the bootstrap, with the proof of the secret that the
// first took; the other end finds it there.  Both then go on where ResumableStream says.  An end that the peer has said
// bye before is the peer's own; the death of a rank is the control plane's to tell, which ends our waiting for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/fd.hpp"
#include "transport/tcp/reopener.hpp"
#include "transport/tcp/resumable_stream.hpp"

namespace tutti::tcp {

/// One thread.
class ResumableSocket {
 public:
  /// index: of the stream that fd is.  prepare: sets a new socket's options.  seal: of the stream, or null.
  ResumableSocket(int peer, StreamIndex index, Fd fd, std::shared_ptr<Reopener> reopener,
                  std::function<void(int fd)> prepare, std::unique_ptr<RecordSeal> seal = nullptr);
  ~ResumableSocket();  // says bye

  /// As Sockets::write and read.  What write() has not said to have moved is given to it again, as Outgoing does.
  Result<size_t> write(std::span<const iovec> parts);
  /// straight: bytes go to `parts` without a stop here where records allow it; they are then borrowed until they are
  /// counted as read, or others are given.
  Result<size_t> read(std::span<const iovec> parts, bool straight);
  /// The caller reads no more: memory that read() borrowed is its own again, and bytes that have come there are lost.
  void abandon() noexcept { stream_.abandon(); }
  /// What has moved on the connection since the last question.
  struct Traffic {
    bool came = false, left = false;
  };
  Traffic traffic() { return std::exchange(traffic_, {}); }
  /// Move what waits here, and look for what the peer says of it.
  void serve();
  /// Time has passed.  True while it is away.
  bool tick(int64_t nowNs);
  int fd() const { return fd_.get(); }
  /// All that was written has left.
  bool idle() const { return stream_.sent() == stream_.written(); }
  bool peerSaidBye() const { return stream_.peerSaidBye(); }
  /// Called with a descriptor that is new (true) or about to be closed (false).
  void onChange(std::function<void(int fd, bool open)> change) { change_ = std::move(change); }

 private:
  void flush();
  void writeFailed(const std::string& why);
  bool pull(std::span<const iovec> parts = {});
  void drain();
  void broke(const std::string& why);
  void begin(const std::string& why, int64_t nowNs);
  void adopt(Fd fd, int generation);
  void cameBack();
  void lookForNewer();
  void goOnOpening(int64_t nowNs);
  void probe(int64_t nowNs);
  void dropFd();
  bool away() const { return !why_.empty(); }
  Status ending() const;
  void fail(const std::string& why);

  const int peer_;
  const StreamIndex index_;
  std::shared_ptr<Reopener> reopener_;
  std::function<void(int)> prepare_;
  std::function<void(int, bool)> change_;
  Fd fd_;
  ResumableStream stream_;
  uint64_t reported_ = 0;  // by write()
  uint64_t resentBefore_ = 0;

  int generation_ = 0;  // of fd_, or of the last one
  std::string why_;     // the connection is being replaced; empty: it is not
  bool stalled_ = false;
  int64_t beganNs_ = 0;     // since when
  int64_t nextOpenNs_ = 0;  // not before
  int attempts_ = 0;        // since the peer was last heard
  PendingFd pending_;
  int pendingGeneration_ = 0;
  int64_t nextLookNs_ = 0;

  Traffic traffic_;
  bool heard_ = true;
  int64_t heardNs_ = 0, probedNs_ = 0, probeGapNs_ = 0;
  std::optional<Status> ended_;
};

}  // namespace tutti::tcp
