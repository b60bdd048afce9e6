// Answers tutti-top: what all ranks of a communicator are doing, asked of them over the control plane.
//
// The process of a communicator's rank 0 listens on a Unix socket, PID.sock in a folder of the user's own
// (monitorFolder), and tells who connects and is the same user, or root, all that its ranks say of themselves; then it
// closes the connection.  Nothing that goes wrong here is more than a line in the log: a job must not fail because
// somebody might want to look at it.
#pragma once

#include <memory>
#include <string>

namespace tutti {

class Comm;

/// "$XDG_RUNTIME_DIR/tutti", or "/tmp/tutti-UID" where that is unset.
std::string monitorFolder();

/// A communicator's place among those that this process answers for: it is asked about while this lives.
class MonitorSeat {
 public:
  MonitorSeat() = default;
  MonitorSeat(MonitorSeat&&) = default;
  MonitorSeat& operator=(MonitorSeat&&) = default;
  /// comm: borrowed, and up.  Waits for an answer that is under way, at most some tenths of a second.
  static MonitorSeat take(Comm* comm);

 private:
  class Server;
  struct Leave {
    std::shared_ptr<Server> server;
    void operator()(Comm* comm) const;
  };
  std::unique_ptr<Comm, Leave> comm_;  // not owned
};

/// What the socket says of this communicator: one JSON object.
std::string monitorText(Comm& comm);

}  // namespace tutti
