// Runs one collective by blocks that walk its plan on the device (kernels/walk_body.hpp).
#pragma once

#include <memory>
#include <span>

#include "src/comm/cuda/joint_launch.hpp"
#include "src/comm/plans.hpp"
#include "src/exec/collective_run.hpp"

namespace tutti {

/// A plan's program in device memory.  Kept by the communicator, because a device may still read it.
struct ResidentProgram {
  cuda::DeviceMemory memory;
  bool captured = false;  // graphs may have it
};

class ResidentRun : public JointLaunch, public PlanRun {
 public:
  /// program: of this plan.  place, plan: borrowed.
  ResidentRun(const LaunchPlace& place, const Plan& plan, std::shared_ptr<ResidentProgram> program)
      : JointLaunch(place), plan_(plan), program_(std::move(program)) {}

  void begin(const CallBuffers& buffers, const PrePostOps& prePost) override;
  Task* task() override { return this; }

 private:
  Status offer(cuda::LaunchSeat* seat) override;
  Status launch(std::span<cuda::ResidentMemory* const> members) override;
  Result<bool> finish() override;
  Status tellStart(kernels::WalkArguments* arguments);

  const Plan& plan_;
  std::shared_ptr<ResidentProgram> program_;
  CallBuffers buffers_;
  PrePostOps prePost_;
};

}  // namespace tutti
