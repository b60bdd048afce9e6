#include "src/calibrate/disturbance.hpp"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "src/base/clock.hpp"

namespace tutti {
namespace {

constexpr int64_t kSecond = 1000 * kMs;

cpu_set_t allowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  (void)sched_getaffinity(0, sizeof set, &set);
  return set;
}

/// Time that some program or another virtual machine had on the processors of `set`, by /proc/stat (proc(5)); -1: not
/// known.
int64_t busyNs(const cpu_set_t& set) {
  const long ticksPerSecond = sysconf(_SC_CLK_TCK);
  std::ifstream file("/proc/stat");
  int64_t ticks = 0, lines = 0;
  for (std::string line; std::getline(file, line);) {
    int cpu = 0;
    long long user = 0, nice = 0, system = 0, idle = 0, ioWait = 0, interrupt = 0, softInterrupt = 0, stolen = 0;
    if (std::sscanf(line.c_str(), "cpu%d %lld %lld %lld %lld %lld %lld %lld %lld", &cpu, &user, &nice, &system, &idle,
                    &ioWait, &interrupt, &softInterrupt, &stolen) < 9) {
      continue;
    }
    if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<size_t>(cpu), &set)) continue;
    ticks += user + nice + system + interrupt + softInterrupt + stolen;
    ++lines;
  }
  return lines == 0 || ticksPerSecond <= 0 ? -1 : ticks * (kSecond / ticksPerSecond);
}

/// Threads that run or could; -1: not known.
int64_t runningThreads() {
  std::ifstream file("/proc/stat");
  long long running = -1;
  for (std::string line; std::getline(file, line);) {
    if (std::sscanf(line.c_str(), "procs_running %lld", &running) == 1) break;
  }
  return running;
}

int64_t ownNs() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

}  // namespace

Disturbance::Disturbance() : busyNs_(busyNs(allowed())), ownNs_(ownNs()), startNs_(nowNs()) {}

double othersShareNow() {
  constexpr int kLooks = 20;
  const auto online = static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  double least = 1;
  for (int look = 0; look < kLooks && least > 0; ++look) {
    if (look > 0) usleep(1000);
    const int64_t running = runningThreads();
    if (running < 0) return 0;
    least = std::min(least, std::clamp(static_cast<double>(running - 1) / online, 0.0, 1.0));
  }
  return least;
}

double Disturbance::share() const {
  const cpu_set_t set = allowed();
  const int64_t busy = busyNs(set);
  const auto elapsed = static_cast<double>(nowNs() - startNs_) * std::max(1, CPU_COUNT(&set));
  if (busy < 0 || busyNs_ < 0 || elapsed <= 0) return 0;
  const auto others = static_cast<double>((busy - busyNs_) - (ownNs() - ownNs_));
  return std::clamp(others / elapsed, 0.0, 1.0);
}

}  // namespace tutti
