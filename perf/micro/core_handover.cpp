// What it costs to hand one core on to the next of several processes, as ranks that share it do: by yielding or by a
// futex, in one session or one for each, beside a busy program of the same session, of another, or none.
// Linux shares a core among sessions first where autogroups are on (/proc/sys/kernel/sched_autogroup_enabled).
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "src/exec/time_slice.hpp"
#include "tools/version.hpp"

namespace {

constexpr int kMeasureUs = 300'000;

/// In memory that all processes share.
struct Ring {
  struct alignas(128) Word {
    std::atomic<uint32_t> value;
  };
  Word turn, stop, bells[64];
};

struct Setting {
  int ranks, sliceUs;
  bool ownSessions, sleeps;
  enum class Neighbour { None, SameSession, OtherSession } neighbour;
};

long futex(std::atomic<uint32_t>& word, int op, uint32_t value, const timespec* most) {
  return syscall(SYS_futex, &word, op, value, most, nullptr, 0);
}

/// Takes turn after turn until it is told to stop.
void rankLoop(Ring& ring, const Setting& s, uint32_t me) {
  const auto n = static_cast<uint32_t>(s.ranks);
  const timespec most{0, 1'000'000};  // the bell that says stop may be missed
  while (ring.stop.value == 0) {
    const uint32_t heard = ring.bells[me].value;
    if (ring.turn.value % n == me) {
      ++ring.turn.value;
      if (!s.sleeps) continue;
      std::atomic<uint32_t>& bell = ring.bells[(me + 1) % n].value;
      ++bell;
      futex(bell, FUTEX_WAKE, 1, nullptr);
    } else if (s.sleeps) {
      futex(ring.bells[me].value, FUTEX_WAIT, heard, &most);
    } else {
      sched_yield();
    }
  }
}

template <class Body>
pid_t start(bool ownSession, const Body& body) {
  const pid_t pid = fork();
  if (pid < 0) {
    std::perror("fork");
    std::exit(1);
  }
  if (pid != 0) return pid;
  if (ownSession) setsid();
  body();
  _exit(0);
}

/// Microseconds until the next process goes on.
double handoverUs(const Setting& s) {
  void* const shared = mmap(nullptr, sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  Ring& ring = *static_cast<Ring*>(shared);
  pid_t busy = 0;
  if (s.neighbour != Setting::Neighbour::None) {
    busy = start(s.neighbour == Setting::Neighbour::OtherSession, [] {
      for (std::atomic<uint64_t> n = 0;;) n.store(n.load() + 1, std::memory_order_relaxed);
    });
  }
  std::vector<pid_t> ranks;
  for (int r = 0; r < s.ranks; ++r) {
    ranks.push_back(start(s.ownSessions, [&] {
      if (s.sliceUs > 0) tutti::shortenTimeSlice(s.sliceUs);
      rankLoop(ring, s, static_cast<uint32_t>(r));
    }));
  }
  usleep(20'000);  // all have begun
  const uint32_t before = ring.turn.value;
  usleep(kMeasureUs);
  const uint32_t turns = ring.turn.value - before;
  ring.stop.value = 1;
  for (const pid_t pid : ranks) waitpid(pid, nullptr, 0);
  if (busy != 0) {
    kill(busy, SIGKILL);
    waitpid(busy, nullptr, 0);
  }
  munmap(shared, sizeof(Ring));
  return turns == 0 ? kMeasureUs : static_cast<double>(kMeasureUs) / turns;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  Setting s{argc > 1 ? std::atoi(argv[1]) : 4, argc > 2 ? std::atoi(argv[2]) : 0, false, false, {}};
  if (s.ranks < 2 || s.ranks > 64 || s.sliceUs < 0) {
    std::fprintf(stderr, "usage: core_handover [RANKS (2 to 64) [SLICE_US]]\n");
    return 2;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof(one), &one);
  std::printf("# %d processes on one core, us until the next goes on\n", s.ranks);
  std::printf("%-24s %12s %12s %12s\n", "busy neighbour", "one session", "one each", "futex");
  const char* const names[] = {"none", "of the same session", "of another session"};
  for (const int n : {0, 1, 2}) {
    s.neighbour = static_cast<Setting::Neighbour>(n);
    std::printf("%-24s", names[n]);
    for (const auto& [own, sleeps] : {std::pair{false, false}, {true, false}, {false, true}}) {
      s.ownSessions = own;
      s.sleeps = sleeps;
      std::printf(" %12.2f", handoverUs(s));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}
