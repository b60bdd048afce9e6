#include "src/comm/comm.hpp"

#include <algorithm>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/comm/cuda/executor.hpp"
#include "src/comm/launch.hpp"

namespace tutti {
namespace {

// How long the end of a communicator waits for streams to leave their waits; what takes longer is waited for aside.
constexpr int kLeaveMs = 200;
// How long peers may take to close registered memory after a failure.
constexpr int kReadersAfterFailureMs = 5000;

}  // namespace

Comm::Comm(const CommSettings& settings, AbortState* abortState)
    : settings_(settings), abortState_(*abortState), watchdog_(*abortState, settings.timeoutMs) {}

Comm::~Comm() {
  ownBatch_.reset();
  planner_.clear();
  watchdog_.stop();
  if (cuda_ && !cuda_->letGo(kLeaveMs)) CudaExecutor::letGoLater(std::move(cuda_));
  cuda_.reset();           // endpoints use links_
  registrations_.clear();  // of links_' transports
  if (control_) control_->setOnArrival(nullptr);
  if (links_) links_->close();
  links_.reset();    // transports use control_
  control_.reset();  // ends callbacks into this object
  abortState_.onEnd(nullptr);
}

Result<void*> Comm::registerMemory(void* buffer, size_t bytes) {
  const Memory memory{cuda_ ? MemoryKind::Device : MemoryKind::Host, settings_.cudaDevice,
                      static_cast<std::byte*>(buffer), bytes};
  TUTTI_ASSIGN(void* const handle, registrations_.add(memory));
  const Status lent = cuda_ ? cuda_->lend(reinterpret_cast<uintptr_t>(handle), buffer, bytes) : Status();
  if (lent.ok()) return handle;
  (void)registrations_.remove(handle);
  return lent;
}

Status Comm::deregisterMemory(void* handle) {
  // With a proxy nothing is lent, and a turn may come only after any amount of a stream's work.
  if (cuda_ && cuda_->proxy() == nullptr && registrations_.has(handle)) {
    const uint64_t ticket = callOrder_->take();
    callOrder_->await(ticket);
    const Status ended = cuda_->endLending(reinterpret_cast<uintptr_t>(handle), abortState_.ended());
    callOrder_->finish(ticket);
    TUTTI_TRY(ended);
    TUTTI_TRY(awaitReaders(handle));
  }
  return registrations_.remove(handle);
}

// Their processes have been called, and close it whatever their callers do.
Status Comm::awaitReaders(void* handle) {
  const Deadline all = deadline();
  const Deadline afterFailure = Deadline::inMs(kReadersAfterFailureMs);
  while (const std::optional<int> reader = cuda_->reader(reinterpret_cast<uintptr_t>(handle))) {
    if (all.passed() || (abortState_.ended() && afterFailure.passed())) {
      return timeoutError("rank ", *reader,
                          " still has the registered memory open, so it must not be freed yet; call "
                          "again to wait for that rank, or free the memory when it has ended");
    }
    cuda::pauseBetweenLooks();
  }
  return {};
}

/// By the thread that closes memory which peers call back after a failure, whose news may be under way still.
bool Comm::settle(CudaExecutor& executor) {
  for (const Deadline news = Deadline::inMs(kReadersAfterFailureMs); !abortState_.ended() && !news.passed();) {
    cuda::pauseBetweenLooks();
  }
  const uint64_t ticket = callOrder_->take();
  callOrder_->await(ticket);
  const bool quiet = abortState_.ended() ? executor.letGo() : executor.idle();
  callOrder_->finish(ticket);
  return quiet;
}

void Comm::onFailure(const Failure& failure) {
  if (!failure.onPurpose) abortState_.endJoins(failure.status);
  abortState_.end(failure.status);
  if (failure.onPurpose) abortState_.endChildren(endWithParent(failure.status));
}

// The news of this communicator ends its children on every rank, those without this rank too.  Where a rank has freed
// it, the children's own ranks hear of it.
void Comm::endOnPurpose(std::string_view verb) {
  const Status why = remoteError("rank ", rank(), " has ", verb, " the communicator");
  abortState_.end(why);
  abortState_.endChildren(endWithParent(why));
  // The reason may be a parent's end, of which the others have yet to hear; a failure they have heard of.
  control_->reportFailure({rank(), control_->failure().ok() ? abortState_.reason() : why, true});
  abortState_.tellChildren(endWithParent(why));
}

std::vector<Posting> Comm::postings() const {
  std::vector<Posting> all;
  for (int r = 0; r < nRanks(); ++r) all.push_back(posting(r));
  const bool none = std::ranges::count(all, Posting::Nothing) == nRanks();
  return none ? std::vector<Posting>() : all;
}

Result<std::byte*> Comm::workspace(size_t bytes) {
  if (cuda_) return cuda_->workspace(bytes);
  if (workspace_.size() < bytes) workspace_.resize(bytes);
  return workspace_.data();
}

Result<Endpoint*> Comm::endpoint(int peer, int lane) {
  lastAsked_ = peer;
  return cuda_ ? cuda_->endpoint(*links_, peer, lane, layout_.sliceBytes) : links_->endpoint(peer, lane);
}

// What this rank has enqueued may wait for others, and what others have enqueued may write here.
Status Comm::awaitDevice() {
  if (cuda_->proxy() != nullptr) TUTTI_TRY(cuda_->proxy()->thread()->synchronize());
  while (!cuda_->idle()) {
    TUTTI_TRY(failure());
    cuda::pauseBetweenLooks();
  }
  return {};
}

Status Comm::finalize() {
  const uint64_t ticket = callOrder_->take();  // other threads should not call now, but who knows
  callOrder_->await(ticket);
  const std::string own = watchdog_.log().digest();
  const uint64_t last = watchdog_.log().place().entered;
  callOrder_->finish(ticket);
  TUTTI_TRY(failure());
  if (cuda_) {
    TUTTI_TRY(awaitDevice());
    cuda_->closePeers();  // who has heard everyone's farewell frees what others had open
  }
  // Everyone says what it has called; ranks that disagree find out here at the latest.
  TUTTI_ASSIGN(const std::vector<std::string> calls, control_->farewell(own, deadline()));
  for (size_t r = 0; r < calls.size(); ++r) {
    if (calls[r] == own) continue;
    const auto verdict = control_->beginInquiry(InquiryReason::Mismatch, last, static_cast<int>(r), kVerdictMs);
    return asStatus(awaitValue(*verdict, Deadline::never(), "the verdict"));
  }
  abortState_.release();
  return {};
}

}  // namespace tutti
