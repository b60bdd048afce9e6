#include "src/comm/cuda/resident_run.hpp"

#include "src/exec/kernels/walk_program.hpp"

namespace tutti {

void ResidentRun::begin(const CallBuffers& buffers, const Trimmings& trimmings) {
  buffers_ = buffers;
  trimmings_ = trimmings;
  meet(buffers.call);
}

Status ResidentRun::offer(cuda::LaunchSeat* seat) {
  TUTTI_TRY(scaleInput(plan_.worker, buffers_.reduction.dtype, trimmings_));
  int capture = cuda::kCaptureNone;
  TUTTI_CUDA(place().ops->device()->driver(), cuStreamIsCapturing(place().ops->stream(), &capture));
  program_->captured = program_->captured || capture != cuda::kCaptureNone;
  seat->program = program_->memory.data();
  seat->calls.assign(1, {buffers_.call, buffers_.input, buffers_.output});
  seat->lanes = static_cast<uint32_t>(plan_.lanes.size());
  return {};
}

Status ResidentRun::launch(std::span<cuda::ResidentMemory* const> members) {
  kernels::WalkArguments arguments{};
  uint32_t blocks = 0;
  for (cuda::ResidentMemory* memory : members) {
    const cuda::LaunchSeat& seat = memory->seat;
    kernels::WalkMember& member = arguments.members[arguments.nMembers++];
    member.program = static_cast<const kernels::WalkProgram*>(seat.program);
    member.input = static_cast<const unsigned char*>(seat.calls.front().input);
    member.output = static_cast<unsigned char*>(seat.calls.front().output);
    member.abort = memory->abortWord();
    member.firstBlock = blocks;
    blocks += seat.lanes;
  }
  if (blocks == 0) return {};
  return place().kernels->walk(place().ops->stream(), buffers_.reduction, plan_.schedule.collective, &arguments,
                               blocks);
}

Result<bool> ResidentRun::finish() {
  TUTTI_TRY(divideResult(plan_.worker, buffers_.reduction.dtype, trimmings_));
  return true;
}

}  // namespace tutti
