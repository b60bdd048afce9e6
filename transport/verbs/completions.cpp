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

Result<std::shared_ptr<Completions>> Completions::create(const Rails& rails) {
  TUTTI_ASSIGN(std::shared_ptr<FdSleeper> sleeper, FdSleeper::create());
  std::shared_ptr<Completions> made(new Completions(std::move(sleeper)));
  for (const auto& device : rails) {
    made->queues_.push_back({.device = device});
    TUTTI_TRY(made->open(&made->queues_.back()));
  }
  return made;
}

Status Completions::open(Queue* rail) {
  const Device& device = *rail->device;
  const Library& api = device.api();
  rail->channel = api.createCompChannel(device.context());
  if (rail->channel == nullptr)
    return errnoError(ErrorCode::AdapterRefused, errno, cat(device.name(), " gives no completion channel"));
  const int entries = std::min(kFirstEntries, device.attributes().max_cqe);
  rail->queue = api.createCq(device.context(), entries, nullptr, rail->channel, 0);
  if (rail->queue == nullptr) {
    return errnoError(ErrorCode::AdapterRefused, errno,
                      cat(device.name(), " gives no completion queue (ulimit -l bounds its memory)"));
  }
  for (const int fd : {rail->channel->fd, device.context()->async_fd}) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    TUTTI_TRY(sleeper_->add(fd));
  }
  return {};
}

Completions::~Completions() {
  for (const Queue& rail : queues_) {
    if (rail.queue != nullptr) rail.device->api().destroyCq(rail.queue);
    if (rail.channel != nullptr) rail.device->api().destroyCompChannel(rail.channel);
  }
}

Result<uint32_t> Completions::add(Listener* listener, size_t rail, int operations) {
  const std::lock_guard lock(mutex_);
  Queue& on = queues_[rail];
  const Device& device = *on.device;
  const int wanted = on.operations + operations;
  if (wanted > on.queue->cqe) {
    const int entries = std::min(std::max(wanted, 2 * on.queue->cqe), device.attributes().max_cqe);
    if (entries < wanted) {
      return systemError(ErrorCode::AdapterRefused, device.name(), " has room for ", entries, " completions; ", wanted,
                         " may be under way");
    }
    if (const int error = device.api().resizeCq(on.queue, entries); error != 0) {
      return errnoError(ErrorCode::AdapterRefused, error,
                        cat(device.name(), " cannot have a completion queue of ", entries));
    }
  }
  on.operations = wanted;
  told_.push_back({listener, rail, operations});
  return static_cast<uint32_t>(told_.size() - 1);
}

void Completions::remove(uint32_t number) {
  const std::lock_guard lock(mutex_);
  queues_[told_[number].rail].operations -= told_[number].operations;
  told_[number] = {};
}

bool Completions::poll() {
  const std::lock_guard lock(mutex_);
  int count = 0;
  for (size_t rail = 0; rail < queues_.size(); ++rail) count += pollOne(rail);
  if (count == 0) ++emptyLooks_;
  if (count == 0 && ++emptyPolls_ % kLooksPerEvent == 0) {
    for (size_t rail = 0; rail < queues_.size(); ++rail) lookAtEvents(rail);
  }
  completed_ += static_cast<uint64_t>(count);
  return count > 0;
}

int Completions::pollOne(size_t rail) {
  ibv_wc all[16];
  const int count = ibv_poll_cq(queues_[rail].queue, 16, all);
  if (count < 0) failAll(rail, "its completion queue has failed");
  for (int i = 0; i < count; ++i) tell(rail, all[i]);
  return std::max(count, 0);
}

bool Completions::progress() {
  const bool some = poll();
  for (Served* endpoint : served_) endpoint->goOn(some);
  return some;
}

void Completions::tell(size_t rail, const ibv_wc& completion) {
  Listener* const listener = told_[completion.wr_id >> 32].listener;
  if (listener == nullptr) return;  // of a connection that has ended
  const auto what = static_cast<uint32_t>(completion.wr_id);
  if (completion.status != IBV_WC_SUCCESS) {
    listener->failed(cat(queues_[rail].device->api().statusText(completion.status), " (status ", int{completion.status},
                         ", vendor's code ", completion.vendor_err, ")"));
  } else if (what == kReceiveWork) {
    listener->came(ntohl(completion.imm_data));
  } else {
    listener->finished(what);
  }
}

void Completions::lookAtEvents(size_t rail) {
  const Device& device = *queues_[rail].device;
  ibv_async_event event{};
  while (device.api().getAsyncEvent(device.context(), &event) == 0) {
    const char* const name = device.api().eventText(event.event_type);
    device.api().ackAsyncEvent(&event);  // at once: queues can end only when theirs are acknowledged
    TUTTI_INFO("verbs", device.name(), ": ", name);
    const bool ofPort = event.event_type == IBV_EVENT_PORT_ERR || event.event_type == IBV_EVENT_PORT_ACTIVE;
    if (ofPort && event.element.port_num == device.port()) {
      queues_[rail].down = event.event_type == IBV_EVENT_PORT_ERR;
    }
    if (isEnd(event, device.port())) failAll(rail, name);
  }
}

void Completions::failAll(size_t rail, const std::string& what) {
  for (const Told& told : told_) {
    if (told.listener != nullptr && told.rail == rail) told.listener->failed(what);
  }
}

// What completes after the queue is armed ends the sleep; what completed before is found by the last look at the
// endpoints, which follows.  One queue serves all of them: what a look at one endpoint finds for another that was
// looked at before ends the sleep, too.
void Completions::prepare() {
  sleeper_->prepare();
  emptyLooksBefore_ = emptyLooks_;
  for (Served* endpoint : served_) endpoint->beforeSleep();
  const std::lock_guard lock(mutex_);
  completedBefore_ = completed_;
  for (size_t rail = 0; rail < queues_.size(); ++rail) {
    const Queue& on = queues_[rail];
    ibv_cq* queue = nullptr;
    void* unused = nullptr;
    while (on.device->api().getCqEvent(on.channel, &queue, &unused) == 0) on.device->api().ackCqEvents(queue, 1);
    if (const int error = ibv_req_notify_cq(on.queue, 0); error != 0)
      failAll(rail, "its completion queue cannot be armed");
    lookAtEvents(rail);
  }
}

void Completions::sleep(int us) {
  {
    const std::lock_guard lock(mutex_);
    if (completed_ != completedBefore_) return;
  }
  sleeper_->sleep(us);
}

}  // namespace tutti::verbs
