#include "src/comm/retry.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "src/base/config.hpp"
#include "src/base/log.hpp"

namespace tutti {

Result<std::unique_ptr<Retry>> Retry::fromConfig(Control& control, const std::atomic<uint32_t>* stop, bool anyCuda) {
  TUTTI_ASSIGN(const int64_t wanted, configInteger("TUTTI_RETRY"));
  if (wanted == 0) return std::unique_ptr<Retry>();
  if (anyCuda)
    return invalidUsage(ErrorCode::NotHonoured,
                        "TUTTI_RETRY=1 is for ranks on the host alone, not on CUDA devices; set 0");
  TUTTI_DEBUG("comm", "rank ", control.rank(), ": collectives finish on all ranks that go on, or on none");
  return std::make_unique<Retry>(control, stop);
}

void Retry::keep(const Call& call, bool alone) {
  const Extents extents = extentsOf(call, control_.rank(), control_.nRanks());
  if (extents.recvBytes == 0) return;
  const bool apart = !extents.both() || placed(extents, call.sendbuff, call.recvbuff) == Placement::Apart;
  if (alone && apart) return;
  keep(static_cast<std::byte*>(call.recvbuff), extents.recvBytes);
}

void Retry::keep(std::byte* at, size_t bytes) {
  const size_t offset = kept_.empty() ? 0 : kept_.back().offset + kept_.back().bytes;
  if (copies_.size() < offset + bytes) copies_.resize(offset + bytes);
  std::memcpy(copies_.data() + offset, at, bytes);
  kept_.push_back({at, bytes, offset});
}

void Retry::vote(bool finished) {
  call_ = {.kind = MembershipCall::Kind::Finish, .nRanks = finished ? 1 : 0, .text = std::to_string(++groups_)};
  control_.vote({.call = call_});
}

// A rank that has not finished knows the outcome: nobody counts it in without its word.
Status Retry::settle(Status result, Deadline deadline) {
  if (result.ok()) result = decide(deadline);
  if (!result.ok()) putBack();
  kept_.clear();
  return result;
}

Status Retry::decide(Deadline deadline) {
  Decision decision;
  do {  // one of a vote that was cast before counts for that
    TUTTI_ASSIGN(decision, control_.agree({.call = call_}, Control::Among::Survivors, deadline, stop_));
  } while (!(decision.calls[static_cast<size_t>(control_.rank())] == call_));
  for (const int rank : membersAfter(decision, control_.nRanks())) {
    const MembershipCall& call = decision.calls[static_cast<size_t>(rank)];
    if (call == call_) continue;
    if (call.kind == MembershipCall::Kind::Finish && call.nRanks == 1)
      return invalidUsage(ErrorCode::CallsDiffer, "rank ", rank, " has finished ", call.text,
                          " groups of collectives and rank ", control_.rank(), " ", call_.text,
                          "; with TUTTI_RETRY all ranks must group calls alike");
    if (const Status failure = control_.failure(); !failure.ok()) return failure;
    return remoteError(ErrorCode::CallNotFinished, "rank ", rank,
                       " has not finished this call: the inputs are as they were, so that it can be made again");
  }
  return {};
}

/// The last first: a later call may have overwritten what an earlier one had written.
void Retry::putBack() {
  for (auto kept = kept_.rbegin(); kept != kept_.rend(); ++kept)
    std::memcpy(kept->at, copies_.data() + kept->offset, kept->bytes);
}

}  // namespace tutti
