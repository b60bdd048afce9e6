// Work that advances in small steps without ever blocking, so that one thread can drive many lanes, groups and
// communicators at once, and a simulation can drive many ranks.
#pragma once

#include "src/base/status.hpp"
#include "src/collective/fingerprint.hpp"

namespace tutti {

enum class Progress {
  Blocked,  // nothing could be done
  Moved,    // something was done, more is left
  Done,
};

/// A message between two ranks, outside collectives.
struct WaitingMessage {
  int peer = -1;
  bool isSend = false;
  Fingerprint call;
  Fingerprint seen;  // of a receive that was refused: what came instead; 0: nothing
};

/// One thread at a time.
class Task {
 public:
  virtual ~Task() = default;
  /// Do what can be done now.  After Done or an error it is not called again.
  virtual Result<Progress> step() = 0;
  /// The rank that a blocked task waits for, -1 if none.
  virtual int waitingOn() const = 0;
  /// The send or receive that a blocked task waits for, or that has failed; null: it waits for something else.
  virtual const WaitingMessage* waitingMessage() const { return nullptr; }
  /// Whether it waits for a device: nobody rings when that gets somewhere.
  virtual bool awaitsDevice() const { return false; }
  /// Whether it still makes what it needs, and has sent nothing.
  virtual bool preparing() const { return false; }
  /// Take back memory lent to peers; called once after an error, before the buffers are the user's again.
  virtual void abandon() = 0;
  /// Whether that is over, too; asked until it is.  Where a device has to leave the memory, it may take a while.
  virtual bool abandoned() { return true; }
};

}  // namespace tutti
