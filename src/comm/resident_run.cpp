#include "src/comm/resident_run.hpp"

#include <sched.h>

#include "src/exec/kernels/walk_program.hpp"

namespace tutti {

using cuda::LaunchSeat;

void ResidentRun::begin(const CallBuffers& buffers, const Trimmings& trimmings) {
  buffers_ = buffers;
  trimmings_ = trimmings;
  stage_ = Stage::Offer;
  heard_ = told_ = 0;
  circled_ = false;
  waitingOn_ = -1;
}

Result<Progress> ResidentRun::step() {
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
Result<bool> ResidentRun::advance() {
  bool go = true;
  switch (stage_) {
    case Stage::Offer:
      TUTTI_TRY(offer());
      stage_ = launches() ? Stage::Hear : Stage::Tell;
      return false;
    case Stage::Tell: {
      TUTTI_ASSIGN(go, tell(place_.toLauncher));
      if (go) stage_ = Stage::Follow;
      return false;
    }
    case Stage::Hear: {
      TUTTI_ASSIGN(go, hearMembers());
      if (go) stage_ = Stage::Circle;
      return false;
    }
    case Stage::Circle: {
      TUTTI_ASSIGN(go, circle());
      if (go) stage_ = Stage::Launch;
      return false;
    }
    case Stage::Launch:
      TUTTI_TRY(launch());
      stage_ = Stage::Announce;
      return false;
    case Stage::Announce: {
      TUTTI_ASSIGN(go, announce());
      if (!go) return false;
      break;
    }
    case Stage::Follow: {
      TUTTI_ASSIGN(go, hear(place_.toLauncher));
      if (!go) return false;
      TUTTI_TRY(follow());
      break;
    }
  }
  place_.own->seat.state.store(LaunchSeat::Empty, std::memory_order_release);
  if (trimmings_.divisor == 0) return true;
  TUTTI_TRY(plan_.worker->divide(buffers_.reduction.dtype, trimmings_.divided.to, trimmings_.divisor,
                                 trimmings_.divided.count));
  return true;
}

Result<bool> ResidentRun::tell(const ResidentPlace::Line& line) {
  waitingOn_ = line.rank;
  return line.channel->send(nullptr, 0, buffers_.call);
}

Result<bool> ResidentRun::hear(const ResidentPlace::Line& line) {
  waitingOn_ = line.rank;
  return line.channel->receive(nullptr, {0, buffers_.call});
}

Status ResidentRun::offer() {
  if (trimmings_.scalar != nullptr) {
    TUTTI_TRY(plan_.worker->scale(buffers_.reduction.dtype, trimmings_.scaled.to, trimmings_.scaled.from,
                                  trimmings_.scalar, trimmings_.scalarOnDevice, trimmings_.scaled.count));
  }
  int capture = cuda::kCaptureNone;
  TUTTI_CUDA(place_.ops->device()->driver(), cuStreamIsCapturing(place_.ops->stream(), &capture));
  program_->captured = program_->captured || capture != cuda::kCaptureNone;
  LaunchSeat& seat = place_.own->seat;
  seat.program = program_->memory.data();
  seat.input = buffers_.input;
  seat.output = buffers_.output;
  seat.lanes = static_cast<uint32_t>(plan_.lanes.size());
  if (!launches()) {
    TUTTI_CUDA(place_.ops->device()->driver(), cuEventRecord(place_.own->ready.get(), place_.ops->stream()));
  }
  seat.state.store(LaunchSeat::Offered, std::memory_order_release);
  return {};
}

Result<bool> ResidentRun::hearMembers() {
  while (heard_ < place_.toMembers.size()) {
    TUTTI_ASSIGN(const bool came, hear(place_.toMembers[heard_]));
    if (!came) return false;
    ++heard_;
  }
  return true;
}

// Ranks that make different calls would wait for each other on the device for ever, and nobody would know why.
Result<bool> ResidentRun::circle() {
  if (place_.next.channel == nullptr) return true;
  if (!circled_) {
    TUTTI_ASSIGN(circled_, tell(place_.next));
    if (!circled_) return false;
  }
  return hear(place_.previous);
}

Status ResidentRun::launch() {
  const cuda::Driver& driver = place_.ops->device()->driver();
  kernels::WalkArguments arguments{};
  uint32_t blocks = 0;
  std::vector<LaunchSeat*> taken;
  Status failed;
  const auto add = [&](cuda::ResidentMemory* memory) {
    LaunchSeat& seat = memory->seat;
    uint32_t offered = LaunchSeat::Offered;
    if (!seat.state.compare_exchange_strong(offered, LaunchSeat::Taken, std::memory_order_acq_rel)) {
      failed = remoteError("a rank has left the call before the launch that was to carry it");
      return;
    }
    taken.push_back(&seat);
    kernels::WalkMember& member = arguments.members[arguments.nMembers++];
    member.program = static_cast<const kernels::WalkProgram*>(seat.program);
    member.input = static_cast<const unsigned char*>(seat.input);
    member.output = static_cast<unsigned char*>(seat.output);
    member.abort = memory->abortWord();
    member.firstBlock = blocks;
    blocks += seat.lanes;
  };
  add(place_.own);
  for (cuda::ResidentMemory* member : place_.members) {
    if (failed.ok()) add(member);
    if (failed.ok()) {
      failed = cuda::check(driver, driver.cuStreamWaitEvent(place_.ops->stream(), member->ready.get(), 0),
                           "cuStreamWaitEvent");
    }
  }
  if (failed.ok() && blocks > 0) {
    failed =
        place_.kernels->walk(place_.ops->stream(), buffers_.reduction, plan_.schedule.collective, &arguments, blocks);
  }
  const Status recorded =
      cuda::check(driver, driver.cuEventRecord(place_.own->done.get(), place_.ops->stream()), "cuEventRecord");
  // Also after a failure: who has been taken waits for that.
  for (LaunchSeat* seat : taken) seat->state.store(LaunchSeat::Launched, std::memory_order_release);
  TUTTI_TRY(failed);
  return recorded;
}

Result<bool> ResidentRun::announce() {
  while (told_ < place_.toMembers.size()) {
    TUTTI_ASSIGN(const bool gone, tell(place_.toMembers[told_]));
    if (!gone) return false;
    ++told_;
  }
  return true;
}

Status ResidentRun::follow() const {
  TUTTI_CUDA(place_.ops->device()->driver(), cuStreamWaitEvent(place_.ops->stream(), place_.launcher->done.get(), 0));
  return {};
}

void ResidentRun::abandon() {
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
