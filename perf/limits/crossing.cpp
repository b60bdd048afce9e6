// How long bytes take from the memory of one process to that of another which has mapped none of it.
//
// Two ways are known: the sender copies into shared memory while the receiver copies out, by steps; or the system
// copies once (process_vm_readv).  Nobody maps the buffers, as nobody maps what malloc gives.
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "perf/limits/measure.hpp"

namespace tutti::limits {
namespace {

constexpr size_t kSizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr size_t kSteps[] = {4 << 10, 16 << 10, 64 << 10};
constexpr size_t kMostBytes = 4 << 20, kMostStep = 64 << 10, kStepsInRing = 4;
constexpr int kTrials = 30;

using Copy = void (*)(std::byte* to, const std::byte* from, size_t bytes);

void copyBySystem(std::byte* to, const std::byte* from, size_t bytes) { std::memcpy(to, from, bytes); }

/// Long copies of memory that another core wrote are faster when lines of both sides are asked for ahead.
WIDEST void copyFetchingAhead(std::byte* to, const std::byte* from, size_t bytes) {
  typedef float Line __attribute__((vector_size(64), aligned(4), may_alias));
  constexpr size_t kAhead = 512;
  for (size_t at = 0; at < bytes; at += sizeof(Line)) {
    __builtin_prefetch(from + at + kAhead, 0);
    __builtin_prefetch(to + at + kAhead, 1);
    *reinterpret_cast<Line*>(to + at) = *reinterpret_cast<const Line*>(from + at);
  }
}

/// What one process says to the other.
struct End {
  alignas(128) std::atomic<uint64_t> meetings{0};
  alignas(128) std::atomic<uint64_t> filled{0};  // steps, since the beginning
  alignas(128) std::atomic<uint64_t> taken{0};   // of the other's steps
  std::atomic<double> beganUs{0}, endedUs{0};
  std::atomic<uintptr_t> out{0};
  std::atomic<pid_t> pid{0};
};
struct Shared {
  End ends[2];
  alignas(4096) std::byte rings[2][kStepsInRing * kMostStep];
};

std::byte* pages(size_t bytes, int flags) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

enum class Form : uint8_t {
  OneWay,
  Exchange,     // both send and receive
  ExchangeOwn,  // and each copies what it sends to a place of its own as well
};
constexpr const char* kNames[] = {"one_way", "exchange", "exchange_own"};

struct Case {
  size_t bytes;
  Form form;
  bool fresh;   // what is sent was written just before
  size_t step;  // 0: by process_vm_readv
  Copy copy;
};

/// One of the two processes.
class Side {
 public:
  Side(Shared* shared, int which)
      : which_(which),
        me_(shared->ends[which]),
        other_(shared->ends[1 - which]),
        mine_(shared->rings[which]),
        theirs_(shared->rings[1 - which]),
        out_(pages(kMostBytes, MAP_PRIVATE)),
        in_(pages(kMostBytes, MAP_PRIVATE)),
        own_(pages(kMostBytes, MAP_PRIVATE)) {
    if (out_ == nullptr || in_ == nullptr || own_ == nullptr) _exit(1);
    for (std::byte* buffer : {out_, in_, own_}) std::memset(buffer, 1, kMostBytes);
    me_.out = reinterpret_cast<uintptr_t>(out_);
    me_.pid = getpid();
    meet();
  }

  /// Microseconds from when both were there to when the last byte was; to both sides.
  double trial(const Case& c) {
    if (c.fresh) std::memset(out_, ++value_, c.bytes);
    meet();
    me_.beganUs = nowUs();
    bool good = true;
    if (c.step == 0) {
      if (c.form == Form::ExchangeOwn) std::memcpy(own_, out_, c.bytes);
      good = !receives(c) || read(c.bytes);
    } else {
      copyBoth(c);
    }
    me_.endedUs = nowUs();
    meet();
    const double us =
        std::max(me_.endedUs.load(), other_.endedUs.load()) - std::max(me_.beganUs.load(), other_.beganUs.load());
    meet();
    return good ? us : 1e30;
  }

 private:
  bool sends(const Case& c) const { return c.form != Form::OneWay || which_ == 0; }
  bool receives(const Case& c) const { return c.form != Form::OneWay || which_ == 1; }

  void meet() {
    const uint64_t number = me_.meetings.load() + 1;
    me_.meetings = number;
    while (other_.meetings.load() < number) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
  }
  bool read(size_t bytes) const {
    const iovec local{in_, bytes}, remote{reinterpret_cast<void*>(other_.out.load()), bytes};
    return process_vm_readv(other_.pid, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
  }
  void copyBoth(const Case& c) {
    const size_t steps = c.bytes / c.step;
    size_t sent = sends(c) ? 0 : steps, received = receives(c) ? 0 : steps;
    while (sent < steps || received < steps) {
      const uint64_t filled = me_.filled.load(std::memory_order_relaxed);
      if (sent < steps && filled - other_.taken.load(std::memory_order_acquire) < kStepsInRing) {
        c.copy(mine_ + filled % kStepsInRing * c.step, out_ + sent * c.step, c.step);
        me_.filled.store(filled + 1, std::memory_order_release);
        if (c.form == Form::ExchangeOwn) c.copy(own_ + sent * c.step, out_ + sent * c.step, c.step);
        ++sent;
      }
      const uint64_t taken = me_.taken.load(std::memory_order_relaxed);
      if (received < steps && other_.filled.load(std::memory_order_acquire) > taken) {
        c.copy(in_ + received++ * c.step, theirs_ + taken % kStepsInRing * c.step, c.step);
        me_.taken.store(taken + 1, std::memory_order_release);
      }
    }
  }

  const int which_;
  End& me_;
  End& other_;
  std::byte* const mine_;
  std::byte* const theirs_;
  std::byte* const out_;
  std::byte* const in_;
  std::byte* const own_;
  int value_ = 0;
};

double best(Side& side, const Case& c) {
  double us = 1e30;
  for (int i = 0; i < kTrials; ++i) us = std::min(us, side.trial(c));
  return us;
}

void measureAll(Side& side, bool prints) {
  const auto report = [&](const Case& c, const char* way, double us) {
    if (prints && us < 1e30)
      std::printf("crossing form=%s data=%s way=%s bytes=%zu us=%.3f\n", kNames[static_cast<size_t>(c.form)],
                  c.fresh ? "fresh" : "reused", way, c.bytes, us);
  };
  for (const size_t bytes : kSizes) {
    for (const Form form : {Form::OneWay, Form::Exchange, Form::ExchangeOwn}) {
      for (const bool fresh : {false, true}) {
        Case c{bytes, form, fresh, 0, nullptr};
        report(c, "read", best(side, c));
        double us = 1e30;
        for (const Copy copy : {copyBySystem, copyFetchingAhead}) {
          for (const size_t step : kSteps) {
            c.step = step, c.copy = copy;
            if (step <= bytes) us = std::min(us, best(side, c));
          }
        }
        report(c, "copies", us);
      }
    }
  }
}

}  // namespace

void measureCrossing(const std::vector<int>& cpus) {
  if (cpus.size() < 2) return;
  std::fflush(stdout);
  auto* const shared = reinterpret_cast<Shared*>(pages(sizeof(Shared), MAP_SHARED));
  if (shared == nullptr) return std::perror("mmap");
  const pid_t child = fork();
  if (child < 0) return std::perror("fork");
  const int which = child == 0 ? 1 : 0;
  pinTo(cpus[static_cast<size_t>(which)]);
  {
    Side side(shared, which);
    measureAll(side, which == 0);
  }
  if (which == 1) _exit(0);
  waitpid(child, nullptr, 0);
  munmap(shared, sizeof(Shared));
}

}  // namespace tutti::limits
