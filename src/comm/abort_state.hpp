// How a communicator ends, and which ones end with it.
//
// Lies in the handle and so outlives the communicator: a child can end before it is up, and after its parent is freed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "src/base/status.hpp"
#include "src/comm/parking.hpp"

struct tuttiComm;

namespace tutti {

/// Any thread; nothing is called with a lock held but atEnd.
class AbortState {
 public:
  /// Ends joins and calls in flight; the reason may follow.
  void stop();
  /// Set by stop() alone.
  const std::atomic<uint32_t>* stopWord() const { return &stopped_; }
  /// A join that failed is tried again: forget its end.  False: somebody has stopped it.
  bool renew();
  /// Likewise, with the reason; the first one stays.
  void end(const Status& why);
  bool ended() const { return word_.load(std::memory_order_acquire) != 0; }
  /// Why it ended, or ok.
  Status failure() const;
  /// The reason that was given first; ok: none was.
  Status reason() const;
  /// What waits look at.
  const std::atomic<uint32_t>* word() const { return &word_; }
  /// Called when it ends, or at once; must not call back.  Empty: not any more.
  void onEnd(std::function<void()> atEnd);
  /// Calls that have yet to begin: they end with it, too.
  Parking& parking() { return parking_; }

  /// The communicator has failed, and nobody ended it on purpose: so do the children that are being joined now.
  void endJoins(const Status& why);
  /// With what; ok: it has not.
  Status joinsEnd() const;
  /// `join` is that of a child which is being joined, until leaveJoin().
  void enterJoin(AbortState* join);
  void leaveJoin(AbortState* join);
  /// `child`, whose handle this is, was split from this one: it ends with it, at once if that has happened.
  void adopt(tuttiComm* child);
  /// Somebody ended the communicator on purpose: those that were split from it end first, theirs before them, on this
  /// rank.  Who hears of an end finds all ended that end with it.
  void endFamily(const Status& why);
  /// Tell the other ranks of those that are up here.  Not from a Session's thread.
  void tellChildren(const Status& why);
  /// All ranks have finished with it: from now on its children do without it.
  void release() { released_.store(true, std::memory_order_relaxed); }
  /// The communicator is gone.
  void close() { closed_.store(true, std::memory_order_relaxed); }

 private:
  void endChildren(const Status& why);
  std::vector<std::shared_ptr<tuttiComm>> children() const;
  bool barren();

  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> stopped_{0};
  Parking parking_;
  std::atomic<bool> released_{false}, closed_{false};
  mutable std::mutex mutex_;  // guards what follows
  Status failure_, childrensEnd_, joinsEnd_;
  std::function<void()> atEnd_;
  std::vector<std::shared_ptr<tuttiComm>> children_;
  std::vector<AbortState*> joins_;
};

/// What the ranks of children hear where `why` has ended a communicator on purpose.
Status endWithParent(const Status& why);

}  // namespace tutti
