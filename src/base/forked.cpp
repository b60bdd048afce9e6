#include "src/base/forked.hpp"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <vector>

namespace tutti {
namespace {

/// Never destroyed because threads may outlive static destructors.
struct Registry {
  std::mutex mutex;
  std::vector<ProcessMutex*> locks;
  std::vector<void (*)()> hooks;        // in the child
  std::vector<void (*)()> hooksBefore;  // in the parent
  std::atomic<uint32_t> generation{0};

  Registry() { pthread_atfork(beforeFork, afterForkInParent, afterForkInChild); }
  static Registry& instance() {
    static Registry* registry = new Registry;
    return *registry;
  }

  // By trying: there is no order in which other threads take them.
  bool takeAll() {
    for (size_t taken = 0; taken < locks.size(); ++taken) {
      if (locks[taken]->try_lock()) continue;
      while (taken > 0) locks[--taken]->unlock();
      return false;
    }
    return true;
  }
  void giveBack() {
    for (ProcessMutex* lock : locks) lock->unlock();
    mutex.unlock();
  }

  static void beforeFork() {
    Registry& registry = instance();
    registry.mutex.lock();
    while (!registry.takeAll()) {
      registry.mutex.unlock();  // a thread that makes one may hold another
      sched_yield();
      registry.mutex.lock();
    }
    for (void (*hook)() : registry.hooksBefore) hook();
  }
  static void afterForkInParent() { instance().giveBack(); }
  static void afterForkInChild() {
    Registry& registry = instance();
    registry.generation.fetch_add(1, std::memory_order_relaxed);
    registry.giveBack();
    for (void (*hook)() : registry.hooks) hook();
  }
};

}  // namespace

ProcessMutex::ProcessMutex() {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.locks.push_back(this);
}

ProcessMutex::~ProcessMutex() {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.locks, this);
}

uint32_t forkGeneration() { return Registry::instance().generation.load(std::memory_order_relaxed); }

void beforeFork(void (*hook)()) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.hooksBefore.push_back(hook);
}

void inForkedChild(void (*hook)()) {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  registry.hooks.push_back(hook);
}

}  // namespace tutti
