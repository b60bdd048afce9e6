// The rendezvous points that this process keeps open.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "src/base/clock.hpp"
#include "src/base/status.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/session/session.hpp"

namespace tutti {

/// Process-wide, because the unique id that names a place travels outside of Tutti.  Each place has a thread that keeps
/// its Session until everybody has met.  A forked child begins with none.
class OpenPlaces {
 public:
  static OpenPlaces& instance();

  /// Keep the Session until all have met at commId, or the deadline, or close().  Errors: SystemError: no thread.
  Status keep(std::shared_ptr<Session> session, const CommId& commId, Deadline deadline);
  /// Where this place is open: Session::rankEnded.
  void rankEnded(const CommId& commId, int rank, const std::string& how);
  /// Let go a place that nobody will come to; nothing if there is none.
  void close(const CommId& commId);
  /// Wait until there is no place of this name, or the deadline.
  void await(const CommId& commId, Deadline deadline);

 private:
  struct Place {
    CommId commId;
    std::thread keeper;  // holds the Session for as long as the place is in the list
  };

  struct Registry;

  OpenPlaces() = default;
  void wait(Session* session, const CommId& commId, Deadline deadline);
  void joinEnded();
  void closeAll();

  std::mutex mutex_;
  std::condition_variable closed_;
  std::map<Session*, Place> places_;
  std::map<Session*, Place> ended_;
};

}  // namespace tutti
