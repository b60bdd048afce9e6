#include "src/comm/comm.hpp"

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/comm/launch.hpp"

namespace tutti {

Comm::Comm(const CommSettings& settings, AbortState* abortState)
    : settings_(settings), watchdog_(*abortState, settings.timeoutMs) {}

Comm::~Comm() {
  attached_.monitorSeat = MonitorSeat();  // first: whoever asks finds all the rest
  calls_.batch.reset();
  attached_.resultChecks.reset();  // an exchange of control_'s may be under way
  planner_.clear();
  watchdog_.stop();
  if (executor_) {  // its endpoints use links_
    Executor& executor = *executor_;
    executor.retire(std::move(executor_));
  }
  userObjects_.registrations.clear();  // of links_' transports
  if (control_) control_->setOnArrival(nullptr);
  if (links_) links_->close();
  links_.reset();    // transports use control_
  control_.reset();  // ends callbacks into this object
  abortState().onEnd(nullptr);
}

Result<void*> Comm::registerMemory(void* buffer, size_t bytes) {
  Registrations& registrations = userObjects_.registrations;
  TUTTI_ASSIGN(const int64_t allowed, configInteger("TUTTI_ADOPT"));
  const bool maps = executor_->memory() == MemoryKind::Host && planner_.pulls();
  if (maps && allowed == 0) TUTTI_INFO("comm", "registered memory is not mapped by peers: TUTTI_ADOPT is 0");
  const bool adopts = maps && allowed != 0;
  const Memory memory{executor_->memory(), settings_.cudaDevice, static_cast<std::byte*>(buffer), bytes};
  TUTTI_ASSIGN(void* const handle, registrations.add(memory, adopts));
  const Status lent = executor_->lend(handle, buffer, bytes);
  if (lent.ok()) return handle;
  (void)registrations.remove(handle);
  return lent;
}

Status Comm::deregisterMemory(void* handle) {
  Registrations& registrations = userObjects_.registrations;
  if (registrations.has(handle)) TUTTI_TRY(executor_->endLending(handle));
  return registrations.remove(handle);
}

void Comm::onFailure(const Failure& failure) {
  watchdog_.failureDump().begin(failure.status);
  if (failure.onPurpose) {
    abortState().endFamily(failure.status);
  } else {
    abortState().endJoins(failure.status);
    abortState().end(failure.status);
  }
  watchdog_.tellThread();
}

// The news of this communicator ends its children on every rank, those without this rank too.  Where a rank has freed
// it, the children's own ranks hear of it.
void Comm::endOnPurpose(std::string_view verb, std::string_view remedy) {
  const Status why = remoteError(ErrorCode::Aborted, "rank ", rank(), " has ", verb, " the communicator; ", remedy);
  abortState().endFamily(why);
  // The reason may be a parent's end, of which the others have yet to hear; a failure they have heard of.
  control_->reportFailure({rank(), control_->failure().ok() ? abortState().reason() : why, true});
  abortState().tellChildren(endWithParent(why));
}

Status Comm::finalize() {
  const uint64_t ticket = callOrder().take();  // other threads should not call now, but who knows
  callOrder().await(ticket);
  std::string own;
  uint64_t last = 0;
  {
    const TurnOf giveBack(callOrder(), ticket);
    own = watchdog_.recorder().digest();
    last = watchdog_.recorder().place().entered;
  }
  TUTTI_TRY(failure());
  TUTTI_TRY(executor_->finalize());  // who has heard everyone's farewell frees what others had open
  // Everyone says what it has called; ranks that disagree find out here at the latest.
  // A connection that broke is made again and carries its unacknowledged bytes a second time.
  const auto resend = [this] { links_->progress(); };
  const bool sends = links_ != nullptr && executor_->memory() == MemoryKind::Host;
  watchdog_.waits().attend(Attendance::End);
  Result<std::vector<std::string>> told = control_->farewell(own, deadline(), sends ? resend : std::function<void()>());
  watchdog_.waits().attend(Attendance::None);
  TUTTI_ASSIGN(const std::vector<std::string> calls, std::move(told));
  for (size_t r = 0; r < calls.size(); ++r) {
    if (calls[r] == own) continue;
    const auto verdict = control_->beginInquiry(InquiryReason::Mismatch, last, static_cast<int>(r), kVerdictMs);
    TUTTI_TRY(asStatus(awaitValue(*verdict, Deadline::never(), "the verdict")));
    return invalidUsage(ErrorCode::CallsBeforeEnd, "rank ", r, " has made other calls than rank ", rank(),
                        " before it finalized");
  }
  abortState().release();
  planner_.keepLearned();
  return {};
}

}  // namespace tutti
