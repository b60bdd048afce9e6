#include "src/control/session/fork_guard.hpp"

#include <pthread.h>

#include <mutex>
#include <set>

namespace tutti {
namespace {

/// Process-wide because fork is; never destroyed because threads may outlive static destructors.
struct Registry {
  std::mutex mutex;
  std::set<int> fds;

  Registry() { pthread_atfork(beforeFork, afterForkInParent, afterForkInChild); }
  static Registry& instance() {
    static Registry* registry = new Registry;
    return *registry;
  }
  static void beforeFork() { instance().mutex.lock(); }
  static void afterForkInParent() { instance().mutex.unlock(); }
  static void afterForkInChild() {
    for (const int fd : instance().fds) ::close(fd);
    instance().fds.clear();
    instance().mutex.unlock();
  }
};

}  // namespace

OwnFd::OwnFd(Fd fd) : fd_(std::move(fd)) {
  if (!fd_.valid()) return;
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.fds.insert(fd_.get());
}

OwnFd& OwnFd::operator=(OwnFd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = std::move(other.fd_);
  }
  return *this;
}

OwnFd::~OwnFd() { reset(); }

void OwnFd::reset() {
  // Out of the registry before it is closed: the number may be another descriptor's a moment later.
  const Fd closing = release();
}

Fd OwnFd::release() {
  if (!fd_.valid()) return {};
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.fds.erase(fd_.get());
  return std::move(fd_);
}

}  // namespace tutti
