// Collectives that all ranks which go on have finished, or none has (TUTTI_RETRY): after a failure they can be made
// again, as their inputs are as they were.
//
// What a call writes over memory that it or a call before it in its group reads is kept beforehand.  At its end ranks
// agree by the protocol of survivors (src/membership/agreement.hpp), which deaths do not divide, whether all that are
// left have finished.  If one has not, all put back what was kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/collective/call.hpp"
#include "src/control/session/session.hpp"

namespace tutti {

/// The retries of one communicator on the host.  Only the thread that has the turn uses it.
class Retry {
 public:
  /// As TUTTI_RETRY says; null: it is off.  anyCuda: of the ranks, some are on devices.  Errors: InvalidUsage.
  static Result<std::unique_ptr<Retry>> fromConfig(Control& control, const std::atomic<uint32_t>* stop, bool anyCuda);
  /// stop: of the communicator; ends waits.
  Retry(Control& control, const std::atomic<uint32_t>* stop) : control_(control), stop_(stop) {}

  /// Before a collective writes anything.  alone: it is the only one of its group.
  void keep(const Call& call, bool alone);
  /// The collectives of a group are over on this rank, which nobody waits for here.
  void vote(bool finished);
  /// After vote(): whether all have finished; what was kept is put back if not.  result: this rank's own.  Errors:
  /// that; else RemoteError, Timeout, InvalidUsage: ranks do not group alike.
  Status settle(Status result, Deadline deadline);

 private:
  struct Kept {
    std::byte* at;
    size_t bytes;
    size_t offset;  // in copies_
  };
  void keep(std::byte* at, size_t bytes);
  void putBack();
  Status decide(Deadline deadline);

  Control& control_;
  const std::atomic<uint32_t>* const stop_;
  MembershipCall call_;
  uint64_t groups_ = 0;  // that were voted on
  std::vector<Kept> kept_;
  std::vector<std::byte> copies_;
};

}  // namespace tutti
