#include "src/comm/cuda/resident_run.hpp"

#include "src/exec/kernels/walk_program.hpp"

namespace tutti {

void ResidentRun::begin(const CallBuffers& buffers, const PrePostOps& prePost) {
  buffers_ = buffers;
  prePost_ = prePost;
  meet(buffers.call);
}

Status ResidentRun::offer(cuda::LaunchSeat* seat) {
  TUTTI_TRY(prepareInput(plan_.worker, buffers_.reduction.dtype, prePost_));
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
  TUTTI_TRY(tellStart(&arguments));
  TUTTI_TRY(
      place().kernels->walk(place().ops->stream(), buffers_.reduction, plan_.schedule.collective, &arguments, blocks));
  if (arguments.started == nullptr) return {};
  cuda::ResidentMemory& own = *place().own;
  own.blocks.store(blocks, std::memory_order_relaxed);
  own.launches.store(arguments.launch, std::memory_order_release);
  return {};
}

/// Has the stream tell that it has come to the launch, and the launch that it has started.  Graphs would repeat it.
Status ResidentRun::tellStart(kernels::WalkArguments* arguments) {
  if (place().ops->captured()) return {};
  const cuda::ResidentMemory& own = *place().own;
  arguments->started = own.startedWord();
  arguments->launch = own.launches.load(std::memory_order_relaxed) + 1;
  TUTTI_TRY(place().ops->write(cuda::addressOf(own.reachedWord()), arguments->launch));
  return place().ops->flush();
}

Result<bool> ResidentRun::finish() {
  TUTTI_TRY(divideResult(plan_.worker, buffers_.reduction.dtype, prePost_));
  return true;
}

}  // namespace tutti
