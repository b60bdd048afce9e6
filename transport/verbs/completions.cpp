#include "transport/verbs/completions.hpp"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "src/base/log.hpp"

namespace tutti::verbs {
namespace {

constexpr int kFirstEntries = 4096;
constexpr uint32_t kLooksPerEvent = 1024;  // a look at the port's events is a system call

bool isEnd(const ibv_async_event& event, int port) {
  switch (event.event_type) {
    case IBV_EVENT_PORT_ERR: return event.element.port_num == port;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_DEVICE_FATAL: return true;
    default: return false;
  }
}

}  // namespace

Result<std::shared_ptr<Completions>> Completions::create(std::shared_ptr<Device> device) {
  TUTTI_ASSIGN(std::shared_ptr<FdSleeper> sleeper, FdSleeper::create());
  std::shared_ptr<Completions> made(new Completions(std::move(device), std::move(sleeper)));
  TUTTI_TRY(made->open());
  return made;
}

Status Completions::open() {
  const Library& api = device_->api();
  channel_ = api.createCompChannel(device_->context());
  if (channel_ == nullptr) return errnoError(errno, cat(device_->name(), " gives no completion channel"));
  queue_ =
      api.createCq(device_->context(), std::min(kFirstEntries, device_->attributes().max_cqe), nullptr, channel_, 0);
  if (queue_ == nullptr) {
    return errnoError(errno, cat(device_->name(), " gives no completion queue (ulimit -l bounds its memory)"));
  }
  for (const int fd : {channel_->fd, device_->context()->async_fd}) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    TUTTI_TRY(sleeper_->add(fd));
  }
  return {};
}

Completions::~Completions() {
  if (queue_ != nullptr) device_->api().destroyCq(queue_);
  if (channel_ != nullptr) device_->api().destroyCompChannel(channel_);
}

Result<uint32_t> Completions::add(Listener* listener, int operations) {
  const std::lock_guard lock(mutex_);
  const int wanted = operations_ + operations;
  if (wanted > queue_->cqe) {
    const int entries = std::min(std::max(wanted, 2 * queue_->cqe), device_->attributes().max_cqe);
    if (entries < wanted) {
      return systemError(device_->name(), " has room for ", entries, " completions; ", wanted, " may be under way");
    }
    if (const int error = device_->api().resizeCq(queue_, entries); error != 0) {
      return errnoError(error, cat(device_->name(), " cannot have a completion queue of ", entries));
    }
  }
  operations_ = wanted;
  told_.push_back({listener, operations});
  return static_cast<uint32_t>(told_.size() - 1);
}

void Completions::remove(uint32_t number) {
  const std::lock_guard lock(mutex_);
  operations_ -= told_[number].operations;
  told_[number] = {};
}

bool Completions::poll() {
  const std::lock_guard lock(mutex_);
  ibv_wc all[16];
  const int count = ibv_poll_cq(queue_, 16, all);
  if (count < 0) failAll("its completion queue has failed");
  for (int i = 0; i < count; ++i) tell(all[i]);
  if (count <= 0 && ++emptyLooks_ % kLooksPerEvent == 0) lookAtEvents();
  completed_ += static_cast<uint64_t>(std::max(count, 0));
  return count > 0;
}

bool Completions::progress() {
  const bool some = poll();
  for (Served* endpoint : served_) endpoint->goOn(some);
  return some;
}

void Completions::tell(const ibv_wc& completion) {
  Listener* const listener = told_[completion.wr_id >> 32].listener;
  if (listener == nullptr) return;  // of a connection that has ended
  const auto what = static_cast<uint32_t>(completion.wr_id);
  if (completion.status != IBV_WC_SUCCESS) {
    listener->failed(cat(device_->api().statusText(completion.status), " (status ", int{completion.status},
                         ", vendor's code ", completion.vendor_err, ")"));
  } else if (what == kReceiveWork) {
    listener->came(ntohl(completion.imm_data));
  } else {
    listener->finished(what);
  }
}

void Completions::lookAtEvents() {
  ibv_async_event event{};
  while (device_->api().getAsyncEvent(device_->context(), &event) == 0) {
    const char* const name = device_->api().eventText(event.event_type);
    device_->api().ackAsyncEvent(&event);  // at once: queues can end only when theirs are acknowledged
    TUTTI_INFO("verbs", device_->name(), ": ", name);
    if (isEnd(event, device_->port())) failAll(name);
  }
}

void Completions::failAll(const std::string& what) {
  for (const Told& told : told_) {
    if (told.listener != nullptr) told.listener->failed(what);
  }
}

// What completes after the queue is armed ends the sleep; what completed before is found by the last look at the
// endpoints, which follows.  One queue serves all of them: what a look at one endpoint finds for another that was
// looked at before ends the sleep, too.
void Completions::prepare() {
  sleeper_->prepare();
  ibv_cq* queue = nullptr;
  void* unused = nullptr;
  while (device_->api().getCqEvent(channel_, &queue, &unused) == 0) device_->api().ackCqEvents(queue, 1);
  const std::lock_guard lock(mutex_);
  completedBefore_ = completed_;
  if (const int error = ibv_req_notify_cq(queue_, 0); error != 0) failAll("its completion queue cannot be armed");
  lookAtEvents();
}

void Completions::sleep(int us) {
  {
    const std::lock_guard lock(mutex_);
    if (completed_ != completedBefore_) return;
  }
  sleeper_->sleep(us);
}

}  // namespace tutti::verbs
