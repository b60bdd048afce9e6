// One launch for the ranks of a process that share a device: each says over a host endpoint that it has come to the
// call, and what for; the launcher, the lowest of them, has its stream follow theirs, launches, and tells them, so that
// theirs follow the launch.  Everything that a stream waits for has been enqueued before, so this cannot deadlock
// however few queues a device has.  Between devices launchers tell each other which call they have come to, around a
// ring.
#pragma once

#include <span>
#include <vector>

#include "src/exec/cuda/cuda_kernels.hpp"
#include "src/exec/task.hpp"
#include "transport/cuda/resident_memory.hpp"
#include "transport/transport.hpp"

namespace tutti {

/// A rank's place among those that launch together.  Borrowed by runs; what it points to outlives them.
struct LaunchPlace {
  cuda::StreamOps* ops = nullptr;
  const CudaKernels* kernels = nullptr;
  cuda::ResidentMemory* own = nullptr;
  cuda::ResidentMemory* launcher = nullptr;    // own, if this rank launches
  std::vector<cuda::ResidentMemory*> members;  // of a launcher: the others on its device
  /// A host endpoint and who is at its other end.
  struct Line {
    Endpoint* endpoint = nullptr;
    int rank = -1;
  };
  /// Whether calls go by streams once a launch was held up: where all ranks share one launch, so that its launcher can
  /// tell all of them, and nobody has asked for launches.
  bool fallsBack = false;
  Line toLauncher;
  std::vector<Line> toMembers;  // as members
  Line next, previous;          // of a launcher: around the ring of launchers; null if it is the only one
};

/// One thread at a time; reusable: a subclass's begin(), then step() until Done.  A run is one round or several, each
/// with a launch.
class JointLaunch : public Task {
 public:
  Result<Progress> step() override;
  int waitingOn() const override { return waitingOn_; }
  /// Takes back what was offered to the launcher, or has the stream follow the launch.
  void abandon() override;

 protected:
  explicit JointLaunch(const LaunchPlace& place) : place_(place) {}
  /// A round begins.  call: what ranks must agree on.
  void meet(const Fingerprint& call);
  const LaunchPlace& place() const { return place_; }
  bool launches() const { return place_.launcher == place_.own; }

 private:
  /// Enqueues what comes before the launch, and says in the seat what this rank has for it.
  virtual Status offer(cuda::LaunchSeat* seat) = 0;
  /// By the launcher: enqueues the launch.  members: of all ranks on this device, in their order.
  virtual Status launch(std::span<cuda::ResidentMemory* const> members) = 0;
  /// Enqueues what comes after.  True: that was the last round; else another has begun.
  virtual Result<bool> finish() = 0;

  enum class Stage : uint8_t { Offer, Tell, Hear, Circle, Launch, Announce, Follow, Finish };
  Result<bool> advance();
  Status offerSeat();
  Result<bool> hearMembers();
  Result<bool> circle();
  Status launchAll();
  Status takeSeats(std::vector<cuda::ResidentMemory*>* taken) const;
  void fallBack(std::span<cuda::ResidentMemory* const> members) const;
  Result<bool> announce();
  Status follow() const;
  Result<bool> tell(const LaunchPlace::Line& line);
  Result<bool> hear(const LaunchPlace::Line& line);

  const LaunchPlace& place_;
  Fingerprint call_;
  Stage stage_ = Stage::Offer;
  size_t heard_ = 0;
  size_t told_ = 0;
  bool circled_ = false;  // this rank has told the next launcher
  int waitingOn_ = -1;
};

}  // namespace tutti
