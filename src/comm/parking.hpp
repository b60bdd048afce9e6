// The batches of one communicator that are parked (parked_batch.hpp).  Lies in its Fate, which drops them.
#pragma once

#include <mutex>
#include <vector>

namespace tutti {

class Fate;
class ParkedBatch;

/// Any thread.
class Parking {
 public:
  /// Dropped at once if `fate` has ended the communicator.
  void add(ParkedBatch* batch, const Fate& fate);
  /// False: it was dropped.
  bool remove(ParkedBatch* batch);
  /// By who ends the communicator, after having said so.
  void dropAll();

 private:
  std::mutex mutex_;  // guards what follows, and the batches that are in there
  std::vector<ParkedBatch*> parked_;
};

}  // namespace tutti
