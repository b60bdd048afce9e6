// The batches of one communicator that are parked (parked_batch.hpp).  Lies in its AbortState, which drops them.
#pragma once

#include <mutex>
#include <vector>

namespace tutti {

class AbortState;
class ParkedBatch;

/// Any thread.
class Parking {
 public:
  /// Dropped at once if `abortState` has ended the communicator.
  void add(ParkedBatch* batch, const AbortState& abortState);
  /// False: it was dropped.
  bool remove(ParkedBatch* batch);
  /// By who ends the communicator, after having said so.
  void dropAll();

 private:
  std::mutex mutex_;  // guards what follows, and the batches that are in there
  std::vector<ParkedBatch*> parked_;
};

}  // namespace tutti
