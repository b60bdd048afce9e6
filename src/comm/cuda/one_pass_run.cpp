#include "src/comm/cuda/one_pass_run.hpp"

#include <algorithm>

#include "src/exec/cuda/one_pass.hpp"

namespace tutti {

using cuda::LaunchSeat;
using cuda::ResidentMemory;

void OnePassRun::begin(std::vector<Call> calls, std::function<void(const Call&)> enter) {
  calls_ = std::move(calls);
  enter_ = std::move(enter);
  next_ = 0;
  beginRound();
}

void OnePassRun::beginRound() {
  enter_(calls_[next_]);
  meet(calls_[next_].buffers.call);
}

/// How many calls this rank could have launched together.  PreMulSums have one place for scaled input.
size_t OnePassRun::offers() const {
  const size_t most = std::min<size_t>(kernels::kMostPassCalls, kernels::kMostPassSides / nRanks_);
  size_t n = 1;
  while (n < most && next_ + n < calls_.size() && calls_[next_ + n].prePost.scalar == nullptr) ++n;
  return n;
}

Status OnePassRun::offer(LaunchSeat* seat) {
  const Call& first = calls_[next_];
  TUTTI_TRY(prepareInput(&worker_, first.buffers.reduction.dtype, first.prePost));
  seat->program = nullptr;
  seat->calls.clear();
  for (size_t i = next_; i < next_ + offers(); ++i) {
    const CallBuffers& buffers = calls_[i].buffers;
    seat->calls.push_back({buffers.call, buffers.input, buffers.output});
  }
  return {};
}

/// How many calls all ranks have come to and one kernel serves, and which.  Calls that differ are found when one of
/// them is the first of a round.
size_t OnePassRun::agreed(std::span<ResidentMemory* const> members, CudaKernels::Pass* kernel) const {
  size_t n = offers();
  for (const ResidentMemory* member : members) n = std::min(n, member->seat.calls.size());
  *kernel = {};
  for (size_t i = 0; i < n; ++i) {
    const Call& call = calls_[next_ + i];
    const auto same = [&](const ResidentMemory* member) { return member->seat.calls[i].call == call.buffers.call; };
    const bool all = std::all_of(members.begin(), members.end(), same);
    if (!all || !kernel->join(place().kernels->passFor(call.buffers.reduction, call.collective))) return i;
  }
  return n;
}

Status OnePassRun::launch(std::span<ResidentMemory* const> members) {
  kernels::PassArguments arguments{};
  CudaKernels::Pass kernel;
  arguments.nCalls = static_cast<uint32_t>(agreed(members, &kernel));
  arguments.nRanks = nRanks_;
  for (uint32_t c = 0; c < arguments.nCalls; ++c) {
    arguments.calls[c] = calls_[next_ + c].pass;
    for (uint32_t r = 0; r < nRanks_; ++r) {
      const LaunchSeat::Call& call = members[r]->seat.calls[c];
      arguments.sides[c * nRanks_ + r] = {static_cast<const unsigned char*>(call.input),
                                          static_cast<unsigned char*>(call.output)};
    }
  }
  arguments.nCalls = static_cast<uint32_t>(independentCalls(arguments));
  place().own->seat.launched = arguments.nCalls;
  return place().kernels->pass(place().ops->stream(), kernel, &arguments, mostBlocks_);
}

Result<bool> OnePassRun::finish() {
  // The launcher writes it again only when all have told it of the next round.
  const size_t end = next_ + place().launcher->seat.launched;
  for (size_t i = next_; i < end; ++i) {
    const Call& call = calls_[i];
    if (i > next_) enter_(call);
    TUTTI_TRY(divideResult(&worker_, call.buffers.reduction.dtype, call.prePost));
  }
  next_ = end;
  if (next_ == calls_.size()) return true;
  beginRound();
  return false;
}

}  // namespace tutti
