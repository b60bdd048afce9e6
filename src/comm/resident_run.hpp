// Runs one collective by blocks that walk its plan on the device (kernels/walk_body.hpp).
//
// Ranks of one process on one device share a launch: each says over a host channel that it has come to the call, and
// what for; the launcher, the lowest of them, has its stream follow theirs, launches, and tells them, so that theirs
// follow the launch.  Everything that a stream waits for has been enqueued before, so this cannot deadlock however few
// queues a device has.  Between devices launchers tell each other which call they have come to, around a ring.
#pragma once

#include <memory>
#include <vector>

#include "src/exec/collective_run.hpp"
#include "src/exec/cuda_kernels.hpp"
#include "transport/cuda/resident_memory.hpp"

namespace tutti {

/// A rank's place among those that walk together.  Borrowed by runs; what it points to outlives them.
struct ResidentPlace {
  const cuda::StreamOps* ops = nullptr;
  const CudaKernels* kernels = nullptr;
  cuda::ResidentMemory* own = nullptr;
  cuda::ResidentMemory* launcher = nullptr;    // own, if this rank launches
  std::vector<cuda::ResidentMemory*> members;  // of a launcher: the others on its device
  /// A host channel and who is at its other end.
  struct Line {
    Channel* channel = nullptr;
    int rank = -1;
  };
  Line toLauncher;
  std::vector<Line> toMembers;  // as members
  Line next, previous;          // of a launcher: around the ring of launchers; null if it is the only one
};

/// A plan's program in device memory.  Kept by the communicator, because a device may still read it.
struct ResidentProgram {
  cuda::DeviceMemory memory;
  bool captured = false;  // graphs may have it
};

/// One thread at a time; reusable as CollectiveRun.
class ResidentRun : public Task {
 public:
  /// program: of this plan.  place, plan: borrowed.
  ResidentRun(const ResidentPlace& place, const Plan& plan, std::shared_ptr<ResidentProgram> program)
      : place_(place), plan_(plan), program_(std::move(program)) {}

  void begin(const CallBuffers& buffers, const Trimmings& trimmings);
  Result<Progress> step() override;
  int waitingOn() const override { return waitingOn_; }
  /// Takes back what was offered to the launcher, or has the stream follow the launch.
  void abandon() override;

 private:
  enum class Stage : uint8_t { Offer, Tell, Hear, Circle, Launch, Announce, Follow };
  bool launches() const { return place_.launcher == place_.own; }
  Result<bool> advance();
  Status offer();
  Result<bool> hearMembers();
  Result<bool> circle();
  Status launch();
  Result<bool> announce();
  Status follow() const;
  Result<bool> tell(const ResidentPlace::Line& line);
  Result<bool> hear(const ResidentPlace::Line& line);

  const ResidentPlace& place_;
  const Plan& plan_;
  std::shared_ptr<ResidentProgram> program_;
  CallBuffers buffers_;
  Trimmings trimmings_;
  Stage stage_ = Stage::Offer;
  size_t heard_ = 0;
  size_t told_ = 0;
  bool circled_ = false;  // this rank has told the next launcher
  int waitingOn_ = -1;
};

}  // namespace tutti
