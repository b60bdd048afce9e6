// Runs collectives of ranks that share one launch by a kernel that goes over all their buffers once
// (kernels/pass_body.hpp): no algorithm, no endpoints, nothing that waits on the device.
//
// Collectives of a group are one launch as far as they can be: as many as all ranks have made in one group, that one
// kernel serves, and that do not work on each other's results.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "src/comm/cuda/joint_launch.hpp"
#include "src/exec/collective_run.hpp"
#include "src/exec/worker.hpp"

namespace tutti {

class OnePassRun : public JointLaunch {
 public:
  struct Call {
    Collective collective = Collective::Barrier;
    uint64_t sequence = 0;  // of the communicator's collectives
    kernels::PassCall pass;
    CallBuffers buffers;
    PrePostOps prePost;
  };

  /// worker, place: borrowed.  mostBlocks: of a launch.
  OnePassRun(const LaunchPlace& place, Worker* worker, size_t nRanks, uint32_t mostBlocks)
      : JointLaunch(place), worker_(*worker), nRanks_(static_cast<uint32_t>(nRanks)), mostBlocks_(mostBlocks) {}

  /// At least one call.  enter: is told of each call when the rank has come to it.
  void begin(std::vector<Call> calls, std::function<void(const Call&)> enter);

 private:
  Status offer(cuda::LaunchSeat* seat) override;
  Status launch(std::span<cuda::ResidentMemory* const> members) override;
  Result<bool> finish() override;
  void beginRound();
  size_t offers() const;
  size_t agreed(std::span<cuda::ResidentMemory* const> members, CudaKernels::Pass* kernel) const;

  Worker& worker_;
  uint32_t nRanks_;
  uint32_t mostBlocks_;
  std::vector<Call> calls_;
  std::function<void(const Call&)> enter_;
  size_t next_ = 0;  // the first that has not been launched
};

}  // namespace tutti
