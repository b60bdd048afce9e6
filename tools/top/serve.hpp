// Snapshots over TCP: to Prometheus by HTTP, to ncclras by its text protocol; both on one port.
#pragma once

#include <functional>
#include <string>

#include "src/base/status.hpp"
#include "tools/top/views.hpp"

namespace tutti::top {

/// One connection's side of the conversation, without sockets.
class Conversation {
 public:
  explicit Conversation(std::function<Result<Snapshot>()> snapshot) : snapshot_(std::move(snapshot)) {}

  /// What to answer to a line that came (without its end); done() afterwards: close.
  std::string onLine(const std::string& line);
  bool done() const { return done_; }

 private:
  std::string status(bool verbose);
  std::string page(const std::string& head);

  std::function<Result<Snapshot>()> snapshot_;
  bool json_ = false, http_ = false, done_ = false;
  std::string request_;  // HTTP's first line
};

/// Listens at "ADDRESS:PORT" and answers, one connection after the other, until the process ends.  onReady is told the
/// port.  Errors: InvalidUsage: the address; SystemError.
Status serve(const std::string& at, const std::function<Result<Snapshot>()>& snapshot,
             const std::function<void(int port)>& onReady);

}  // namespace tutti::top
