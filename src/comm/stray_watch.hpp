// Finds messages that nobody will ask for: they belong to a call that this rank has left.
//
// Ranks that disagree on a root may all succeed at first, because each only sends.  What they have sent then lies at
// ranks that never look, until their next call.  This looks for them, on the I/O thread, when a communicator pauses.
#pragma once

#include <atomic>
#include <functional>

#include "src/comm/links.hpp"
#include "src/control/session/session.hpp"
#include "src/recorder/flight_recorder.hpp"

namespace tutti {

class StrayWatch {
 public:
  /// All borrowed; control must have no other ticker.  also: looks at something else on the way, after every call until
  /// it says that it need not look again; must not block.  May be empty.
  StrayWatch(Control& control, FlightRecorder& recorder, const Links& links, std::function<bool()> also);
  ~StrayWatch();

  /// Looks now and then, and at the clock for the recorder; else nothing has happened for a while.
  bool active() const { return active_.load(std::memory_order_relaxed); }
  /// After the record of a call that came when it was not.
  void start();

 private:
  Look look();
  std::optional<Suspicion> findStray(uint64_t left) const;

  Control& control_;
  FlightRecorder& recorder_;
  const Links& links_;
  std::function<bool()> also_;
  std::atomic<bool> active_{false};
  // The I/O thread's:
  uint64_t entered_ = 0;  // at the last look
  int idleLooks_ = 0;
};

}  // namespace tutti
