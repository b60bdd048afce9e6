// machine_limits: prints what this machine can do, one line per figure (see measure.hpp).
#include <sched.h>

#include <cstdio>

#include "perf/limits/measure.hpp"
#include "tools/version.hpp"

namespace tutti::limits {

std::vector<int> allowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pinTo(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::perror("sched_setaffinity");
}

}  // namespace tutti::limits

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  using namespace tutti::limits;
  const std::vector<int> cpus = allowedCpus();
  std::printf("machine cpus=%zu\n", cpus.size());
  measureHandOver(cpus);
  measureSockets(cpus);
  measureCrossing(cpus);
  measureBandwidth(cpus);
  return 0;
}
