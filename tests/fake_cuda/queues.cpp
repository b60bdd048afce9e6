// Queues: threads that work through what streams are given, in order, some of it late.
#include <optional>
#include <random>

#include "tests/fake_cuda/fake.hpp"
#include "tests/support/thread_sanitizer.hpp"

#ifdef TUTTI_TEST_THREAD_SANITIZER
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#define TUTTI_FAKE_IGNORE(what) Annotate##what(__FILE__, __LINE__)
#else
#define TUTTI_FAKE_IGNORE(what)
#endif

namespace tutti::fake {
namespace {

/// While it lives, the thread sanitizer does not look at what this thread reads and writes, if a test allows torn data.
class Torn {
 public:
  Torn() {
    const std::lock_guard lock(machine().mutex);
    on_ = machine().settings.torn;
    if (!on_) return;
    TUTTI_FAKE_IGNORE(IgnoreReadsBegin);
    TUTTI_FAKE_IGNORE(IgnoreWritesBegin);
  }
  ~Torn() {
    if (!on_) return;
    TUTTI_FAKE_IGNORE(IgnoreReadsEnd);
    TUTTI_FAKE_IGNORE(IgnoreWritesEnd);
  }
  Torn(const Torn&) = delete;
  Torn& operator=(const Torn&) = delete;

 private:
  bool on_ = false;
};

int randomDelayUs() {
  int most = 0;
  {
    const std::lock_guard lock(machine().mutex);
    most = machine().settings.delayUs;
  }
  static thread_local std::minstd_rand random(12345);
  return most == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(most));
}

}  // namespace

Queue::Queue() : thread_([state = state_] { run(state); }) {}
Queue::~Queue() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (thread_.get_id() == std::this_thread::get_id()) {
    thread_.detach();
  } else {
    thread_.join();
  }
}
void Queue::push(Work work) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->work.push_back(std::move(work));
  }
  state_->changed.notify_all();
}
void Queue::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  std::optional<Slice> slice;
  while (true) {
    if (state->work.empty()) slice.reset();
    state->changed.wait(lock, [&] { return state->ending || !state->work.empty(); });
    if (state->work.empty()) return;
    Work work = std::move(state->work.front());
    state->work.pop_front();
    lock.unlock();
    if (const int us = randomDelayUs(); us > 0) {
      slice.reset();
      std::this_thread::sleep_for(std::chrono::microseconds(us));
    }
    if (slice) {
      slice->renew();
    } else {
      slice.emplace();
    }
    {
      const Torn torn;
      work();
    }
    work = nullptr;
    lock.lock();
  }
}

}  // namespace tutti::fake
