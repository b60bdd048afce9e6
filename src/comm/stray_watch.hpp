// Finds messages that nobody will ask for: they belong to a call that this rank has left.
//
// Ranks that disagree on a root may all succeed at first, because each only sends.  What they have sent then lies at
// ranks that never look, until their next call.  This looks for them, on the I/O thread, when a communicator pauses.
#pragma once

#include <atomic>
#include <functional>

#include "src/comm/call_log.hpp"
#include "src/comm/links.hpp"
#include "src/control/session/session.hpp"

namespace tutti {

class StrayWatch {
 public:
  /// All borrowed; control must have no other ticker.  also: looks at something else on the way, after every call until
  /// it says that it need not look again; must not block.  May be empty.
  StrayWatch(Control& control, const CallLog& log, const Links& links, std::function<bool()> also);
  ~StrayWatch();

  /// After CallLog::enter.
  void onCall() {
    if (!active_.load(std::memory_order_relaxed)) start();
  }

 private:
  void start();
  Look look();
  std::optional<Suspicion> findStray(uint64_t left) const;

  Control& control_;
  const CallLog& log_;
  const Links& links_;
  std::function<bool()> also_;
  std::atomic<bool> active_{false};
  // The I/O thread's:
  uint64_t entered_ = 0;  // at the last look
  int idleLooks_ = 0;
};

}  // namespace tutti
