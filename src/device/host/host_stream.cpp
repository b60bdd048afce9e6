#include "src/device/host/host_stream.hpp"

#include <utility>

#include "src/base/caught.hpp"
#include "src/base/threads.hpp"

namespace tutti {

void StreamPoint::pass(Status error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    passed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
}

Status StreamPoint::await() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return passed_.load(std::memory_order_relaxed); });
  return error_;
}

Result<std::unique_ptr<HostStream>> HostStream::create() {
  std::unique_ptr<HostStream> stream(new HostStream);
  TUTTI_ASSIGN(stream->thread_, startThread("a host stream", [s = stream.get()] { s->work(); }));
  return stream;
}

HostStream::~HostStream() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void HostStream::enqueue(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_all();
}

std::shared_ptr<const StreamPoint> HostStream::mark() {
  auto point = std::make_shared<StreamPoint>();
  const std::lock_guard lock(mutex_);
  if (!busy_ && jobs_.empty()) {
    point->pass(error_);
    return point;
  }
  jobs_.emplace_back([this, point] {  // its thread is awake, and looks at the queue again
    const std::lock_guard inJob(mutex_);
    point->pass(error_);
    return Status();
  });
  return point;
}

void HostStream::follow(std::shared_ptr<const StreamPoint> point) {
  if (point->passed() && point->await().ok()) return;
  enqueue([waited = std::move(point)] { return waited->await(); });
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    busy_ = true;
    lock.unlock();
    Status status = caught(job);
    job = nullptr;  // frees what it holds before anyone is told that it is done
    lock.lock();
    busy_ = false;
    if (error_.ok()) error_ = std::move(status);
    changed_.notify_all();
  }
}

Status HostStream::takeError() { return std::exchange(error_, Status()); }

Status HostStream::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !busy_; });
  return takeError();
}

Status HostStream::query() {
  const std::lock_guard lock(mutex_);
  if (busy_ || !jobs_.empty()) return {tuttiInProgress, "the stream has work left"};
  return takeError();
}

}  // namespace tutti
