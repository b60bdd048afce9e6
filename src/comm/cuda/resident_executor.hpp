// Calls of a rank that go by kernels alone: blocks that walk plans on the device, or one pass over all ranks' buffers.
// Owns the memory that blocks of all ranks meet in, the plans' programs, and the rank's place among those that launch.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/comm/cuda/launch_watch.hpp"
#include "src/comm/cuda/memory_lending.hpp"
#include "src/comm/cuda/one_pass_run.hpp"
#include "src/comm/cuda/resident_run.hpp"
#include "src/comm/layout.hpp"
#include "src/comm/links.hpp"
#include "src/exec/cuda/resident_program.hpp"

namespace tutti {

/// One thread at a time, with the device's context current.
class ResidentExecutor {
 public:
  /// All borrowed.
  ResidentExecutor(cuda::StreamOps& ops, const CudaKernels& kernels, Worker& worker, MemoryLending& lending)
      : ops_(ops), kernels_(kernels), worker_(worker), lending_(lending) {}

  /// Takes the memory of this rank's ends, and says in `descriptor` where it is.  slots: of an end.  Errors: memory.
  Status makeEnds(int nRanks, const RankLayout& layout, uint32_t slots, PeerDescriptor* descriptor);
  /// Then: opens the peers' ends, and the host endpoints by which ranks agree on launches.  mostBlocks: of a rank, in a
  /// launch that needs no plan; 0: any number.
  Status openEnds(int rank, Links& links, int mostBlocks, Deadline deadline);
  /// What the failure of a communicator is told to, by any thread, also after this.
  std::shared_ptr<cuda::ResidentMemory> memory() const { return memory_; }
  /// Sees launches of this rank's that do not start, whenever it is called; null where it launches none.
  std::function<bool()> launchWatch() const;

  /// The run of a plan.  idle: whether the device has done what was enqueued.  stream: for the copy of its program.
  /// Errors: as residentProgram(); memory.
  Result<std::unique_ptr<PlanRun>> runOf(const Plan& plan, bool idle, cuda::Stream stream);
  /// Where all ranks share a launch: what runs calls in one pass over their buffers; else null.
  OnePassRun* onePass() { return onePass_.get(); }
  /// Whether a launch is for several ranks, and so joins their streams.
  bool sharesLaunch() const;
  /// The next collective is settled: whether blocks may walk its plan, by what its number is (LaunchSeat::settled).
  bool settleWalk();

  /// After a failure: has blocks leave their waits.
  void leave() { memory_->leave(); }
  /// Lets go of the peers' memory.  No call comes any more.
  void closePeers();

 private:
  const std::shared_ptr<const cuda::CudaDevice>& device() const { return ops_.device(); }
  Status openLaunchLines(int rank, Links& links, Deadline deadline);
  Result<std::shared_ptr<ResidentProgram>> programRoom(size_t bytes, bool idle);

  cuda::StreamOps& ops_;
  const CudaKernels& kernels_;
  Worker& worker_;
  MemoryLending& lending_;
  ResidentEnds ends_;
  LaunchPlace place_;
  std::unique_ptr<OnePassRun> onePass_;
  std::shared_ptr<cuda::ResidentMemory> memory_;
  std::vector<std::unique_ptr<cuda::PeerResident>> peers_;
  std::vector<std::shared_ptr<ResidentProgram>> programs_;
};

}  // namespace tutti
