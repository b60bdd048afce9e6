#include "src/comm/cuda/joint_launch.hpp"

#include <sched.h>

#include <algorithm>

namespace tutti {

using cuda::LaunchSeat;

void JointLaunch::meet(const Fingerprint& call) {
  call_ = call;
  stage_ = Stage::Offer;
  heard_ = told_ = 0;
  circled_ = false;
  waitingOn_ = -1;
}

Result<Progress> JointLaunch::step() {
  bool moved = false;
  while (true) {
    const Stage before = stage_;
    TUTTI_ASSIGN(const bool done, advance());
    if (done) return Progress::Done;
    if (stage_ == before) return moved ? Progress::Moved : Progress::Blocked;
    moved = true;
  }
}

/// One stage further if that can be; true at the end.
Result<bool> JointLaunch::advance() {
  bool go = true;
  switch (stage_) {
    case Stage::Offer:
      TUTTI_TRY(offerSeat());
      stage_ = launches() ? Stage::Hear : Stage::Tell;
      break;
    case Stage::Tell: {
      TUTTI_ASSIGN(go, tell(place_.toLauncher));
      if (go) stage_ = Stage::Follow;
      break;
    }
    case Stage::Hear: {
      TUTTI_ASSIGN(go, hearMembers());
      if (go) stage_ = Stage::Circle;
      break;
    }
    case Stage::Circle: {
      TUTTI_ASSIGN(go, circle());
      if (go) stage_ = Stage::Launch;
      break;
    }
    case Stage::Launch:
      TUTTI_TRY(launchAll());
      stage_ = Stage::Announce;
      break;
    case Stage::Announce: {
      TUTTI_ASSIGN(go, announce());
      if (go) stage_ = Stage::Finish;
      break;
    }
    case Stage::Follow: {
      TUTTI_ASSIGN(go, hear(place_.toLauncher));
      if (!go) break;
      TUTTI_TRY(follow());
      stage_ = Stage::Finish;
      break;
    }
    case Stage::Finish: place_.own->seat.state.store(LaunchSeat::Empty, std::memory_order_release); return finish();
  }
  return false;
}

Result<bool> JointLaunch::tell(const LaunchPlace::Line& line) {
  waitingOn_ = line.rank;
  return line.endpoint->send(nullptr, 0, call_);
}

Result<bool> JointLaunch::hear(const LaunchPlace::Line& line) {
  waitingOn_ = line.rank;
  return line.endpoint->receive(nullptr, {0, call_});
}

Status JointLaunch::offerSeat() {
  TUTTI_TRY(offer(&place_.own->seat));
  // A stream that has nothing to do need not say by an event that it has done it.
  const cuda::Driver& driver = place_.ops->device()->driver();
  const bool busy = !launches() && driver.cuStreamQuery(place_.ops->stream()) != cuda::kSuccess;
  if (busy) TUTTI_CUDA(driver, cuEventRecord(place_.own->ready.get(), place_.ops->stream()));
  place_.own->seat.busy = busy;
  place_.own->seat.state.store(LaunchSeat::Offered, std::memory_order_release);
  return {};
}

Result<bool> JointLaunch::hearMembers() {
  while (heard_ < place_.toMembers.size()) {
    TUTTI_ASSIGN(const bool came, hear(place_.toMembers[heard_]));
    if (!came) return false;
    ++heard_;
  }
  return true;
}

// Ranks that make different calls would wait for each other on the device for ever, and nobody would know why.
Result<bool> JointLaunch::circle() {
  if (place_.next.endpoint == nullptr) return true;
  if (!circled_) {
    TUTTI_ASSIGN(circled_, tell(place_.next));
    if (!circled_) return false;
  }
  return hear(place_.previous);
}

/// As far as it goes.  Has this rank's stream follow those of the others.
Status JointLaunch::takeSeats(std::vector<cuda::ResidentMemory*>* taken) const {
  const cuda::Driver& driver = place_.ops->device()->driver();
  const auto take = [&](cuda::ResidentMemory* memory) -> Status {
    uint32_t offered = LaunchSeat::Offered;
    if (!memory->seat.state.compare_exchange_strong(offered, LaunchSeat::Taken, std::memory_order_acq_rel)) {
      return remoteError(ErrorCode::LeftEarly, "a rank has left the call before the launch that was to carry it");
    }
    taken->push_back(memory);
    return {};
  };
  TUTTI_TRY(take(place_.own));
  for (cuda::ResidentMemory* member : place_.members) {
    TUTTI_TRY(take(member));
    if (member->seat.busy) TUTTI_CUDA(driver, cuStreamWaitEvent(place_.ops->stream(), member->ready.get(), 0));
  }
  return {};
}

Status JointLaunch::launchAll() {
  std::vector<cuda::ResidentMemory*> taken;
  Status failed = takeSeats(&taken);
  if (failed.ok()) {
    fallBack(taken);
    failed = launch(taken);
  }
  const cuda::Driver& driver = place_.ops->device()->driver();
  const Status recorded =
      cuda::check(driver, driver.cuEventRecord(place_.own->done.get(), place_.ops->stream()), "cuEventRecord");
  // Also after a failure: who has been taken waits for that.
  for (cuda::ResidentMemory* memory : taken) memory->seat.state.store(LaunchSeat::Launched, std::memory_order_release);
  TUTTI_TRY(failed);
  return recorded;
}

// From the first call on that no rank has settled yet: ranks group their calls as they like, and all have to take the
// same way.
void JointLaunch::fallBack(std::span<cuda::ResidentMemory* const> members) const {
  LaunchSeat& own = place_.own->seat;
  const bool told = own.byStreamsFrom != LaunchSeat().byStreamsFrom;
  if (!place_.fallsBack || told || !place_.own->heldUp.load(std::memory_order_acquire)) return;
  uint64_t settled = 0;
  for (const cuda::ResidentMemory* member : members) settled = std::max(settled, member->seat.settled);
  own.byStreamsFrom = settled + 1;
}

Result<bool> JointLaunch::announce() {
  while (told_ < place_.toMembers.size()) {
    TUTTI_ASSIGN(const bool gone, tell(place_.toMembers[told_]));
    if (!gone) return false;
    ++told_;
  }
  return true;
}

Status JointLaunch::follow() const {
  // The launcher writes it again only when all have told it of the next round.
  place_.own->seat.byStreamsFrom = place_.launcher->seat.byStreamsFrom;
  TUTTI_CUDA(place_.ops->device()->driver(), cuStreamWaitEvent(place_.ops->stream(), place_.launcher->done.get(), 0));
  return {};
}

void JointLaunch::abandon() {
  std::atomic<uint32_t>& state = place_.own->seat.state;
  uint32_t offered = LaunchSeat::Offered;
  if (state.compare_exchange_strong(offered, LaunchSeat::Empty, std::memory_order_acq_rel)) return;
  if (launches() || offered == LaunchSeat::Empty) return;
  // The launcher is at it: a few calls of the driver.
  while (state.load(std::memory_order_acquire) == LaunchSeat::Taken) sched_yield();
  (void)follow();
  state.store(LaunchSeat::Empty, std::memory_order_release);
}

}  // namespace tutti
