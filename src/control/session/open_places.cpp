#include "src/control/session/open_places.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "src/base/log.hpp"
#include "src/base/threads.hpp"

namespace tutti {

/// The places of this process.  A forked child has none of the threads, so it begins with a list of its own; the list
/// of its parent is left alone, since threads that are not there cannot be joined.  Never destroyed, because a
/// communicator may be made while static objects are.
struct OpenPlaces::Registry {
  std::mutex mutex;
  OpenPlaces* current = nullptr;
  OpenPlaces* parents = nullptr;

  // The threads of the Sessions have to be gone before static objects are that they use.
  Registry() {
    if (std::atexit([] { OpenPlaces::instance().closeAll(); }) != 0) TUTTI_WARN("bootstrap", "atexit: no memory");
    pthread_atfork(lock, unlock, forget);
  }
  static Registry& instance() {
    static Registry* registry = new Registry;
    return *registry;
  }
  // Threads that are over are joined first: a child could not.
  static void lock() {
    Registry& registry = instance();
    registry.mutex.lock();
    if (registry.current != nullptr) registry.current->joinEnded();
  }
  static void unlock() { instance().mutex.unlock(); }
  static void forget() {
    Registry& registry = instance();
    if (registry.current != nullptr) registry.parents = std::exchange(registry.current, nullptr);
    unlock();
  }
};

OpenPlaces& OpenPlaces::instance() {
  Registry& registry = Registry::instance();
  const std::lock_guard lock(registry.mutex);
  if (registry.current == nullptr) registry.current = new OpenPlaces;
  return *registry.current;
}

Status OpenPlaces::keep(std::shared_ptr<Session> session, const CommId& commId, Deadline deadline) {
  joinEnded();
  const std::lock_guard lock(mutex_);
  Session* const key = session.get();
  Place& place = places_[key];
  place.commId = commId;
  Result<std::thread> keeper = startThread("a rendezvous", [this, session = std::move(session), commId, deadline] {
    wait(session.get(), commId, deadline);
  });
  if (!keeper.ok()) places_.erase(key);
  TUTTI_ASSIGN(place.keeper, std::move(keeper));
  return {};
}

void OpenPlaces::wait(Session* session, const CommId& commId, Deadline deadline) {
  if (!session->waitForRendezvous(commId, deadline)) {
    TUTTI_INFO("bootstrap", "the rendezvous at ", session->controlAddress(), " closes: not everybody came");
  }
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(session);
  if (place == places_.end()) return;  // closeAll joins this thread
  ended_.insert(places_.extract(place));
  closed_.notify_all();
}

void OpenPlaces::rankEnded(const CommId& commId, int rank, const std::string& how) {
  const std::lock_guard lock(mutex_);
  for (auto& [session, place] : places_) {
    if (place.commId == commId) session->rankEnded(commId, rank, how);
  }
}

void OpenPlaces::close(const CommId& commId) {
  const std::lock_guard lock(mutex_);
  for (auto& [session, place] : places_) {
    if (place.commId == commId) session->endRendezvous();
  }
}

void OpenPlaces::await(const CommId& commId, Deadline deadline) {
  const auto gone = [&] {
    return std::none_of(places_.begin(), places_.end(),
                        [&](const auto& entry) { return entry.second.commId == commId; });
  };
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline.ns()));
  closed_.wait_until(lock, until, gone);
}

void OpenPlaces::joinEnded() {
  std::map<Session*, Place> ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
  }
  for (auto& [session, place] : ended) place.keeper.join();
}

void OpenPlaces::closeAll() {
  std::map<Session*, Place> places;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [session, place] : places_) session->endRendezvous();
    places.swap(places_);
  }
  for (auto& [session, place] : places) place.keeper.join();
  joinEnded();
}

}  // namespace tutti
