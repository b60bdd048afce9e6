// load_time: what it takes until the library is loaded, and until ranks of one process have a communicator.  README.md.
//
// Every round is a process of its own, as a library is loaded once in each; a communicator needs threads, one a rank.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "tools/version.hpp"
#include "tutti/tutti.h"

namespace {

constexpr int kRounds = 9;

double nowMs(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// What one process has measured, in milliseconds.
struct Round {
  double load = 0, loadCpu = 0;  // until dlopen returned; what the processor did of it
  double init = 0;               // until all ranks had their communicator
};

[[noreturn]] void stop(const char* what, const char* why) {
  std::fprintf(stderr, "load_time: %s: %s\n", what, why);
  std::_Exit(1);
}

template <class Function>
Function* find(void* library, const char* name) {
  void* const symbol = dlsym(library, name);
  if (symbol == nullptr) stop(name, "is not in the library");
  return reinterpret_cast<Function*>(symbol);
}

double initMs(void* library, int nRanks) {
  const auto lastError = find<decltype(tuttiGetLastError)>(library, "tuttiGetLastError");
  const auto getUniqueId = find<decltype(tuttiGetUniqueId)>(library, "tuttiGetUniqueId");
  const auto initRank = find<decltype(tuttiCommInitRank)>(library, "tuttiCommInitRank");
  const auto destroy = find<decltype(tuttiCommDestroy)>(library, "tuttiCommDestroy");
  std::vector<tuttiComm_t> comms(static_cast<size_t>(nRanks));
  const auto onThreads = [&](auto&& work) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < nRanks; ++rank) {
      threads.emplace_back([&, rank] {
        if (work(rank) != tuttiSuccess) stop("a communicator", lastError(nullptr));
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  const double start = nowMs(CLOCK_MONOTONIC);
  tuttiUniqueId id;
  if (getUniqueId(&id) != tuttiSuccess) stop("tuttiGetUniqueId", lastError(nullptr));
  onThreads([&](int rank) { return initRank(&comms[static_cast<size_t>(rank)], nRanks, id, rank); });
  const double end = nowMs(CLOCK_MONOTONIC);
  onThreads([&](int rank) { return destroy(comms[static_cast<size_t>(rank)]); });
  return end - start;
}

Round measure(const char* path, int nRanks) {
  Round round;
  const double start = nowMs(CLOCK_MONOTONIC), cpuStart = nowMs(CLOCK_PROCESS_CPUTIME_ID);
  void* const library = dlopen(path, RTLD_NOW);
  if (library == nullptr) stop("dlopen", dlerror());
  round.load = nowMs(CLOCK_MONOTONIC) - start;
  round.loadCpu = nowMs(CLOCK_PROCESS_CPUTIME_ID) - cpuStart;
  if (nRanks > 0) round.init = initMs(library, nRanks);
  return round;
}

/// One round in a process of its own; ends this one if that fails.
Round inProcess(const char* path, int nRanks) {
  int pipes[2];
  if (pipe(pipes) != 0) stop("pipe", std::strerror(errno));
  const pid_t child = fork();
  if (child < 0) stop("fork", std::strerror(errno));
  if (child == 0) {
    const Round round = measure(path, nRanks);
    std::_Exit(write(pipes[1], &round, sizeof round) == sizeof round ? 0 : 1);
  }
  close(pipes[1]);
  Round round;
  const bool whole = read(pipes[0], &round, sizeof round) == sizeof round;
  close(pipes[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!whole || status != 0) std::exit(1);  // it has said why
  return round;
}

void print(const char* what, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-44s %10.2f %10.2f %10.2f  ms\n", what, values.front(), values[values.size() / 2], values.back());
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const int nRanks = argc > 2 ? std::atoi(argv[2]) : 8;
  if (argc < 2 || argc > 3 || nRanks < 0 || nRanks > 64) {
    std::fprintf(stderr,
                 "usage: load_time LIBTUTTI [RANKS]     0 to 64 ranks (8), threads on the device of "
                 "TUTTI_DEVICE\n");
    return 2;
  }
  std::vector<double> load, loadCpu, init;
  for (int round = 0; round < kRounds; ++round) {
    const Round r = inProcess(argv[1], nRanks);
    load.push_back(r.load);
    loadCpu.push_back(r.loadCpu);
    init.push_back(r.init);
  }
  std::printf("# %s, %d processes one after the other, %ld cpus\n", argv[1], kRounds, sysconf(_SC_NPROCESSORS_ONLN));
  std::printf("%-44s %10s %10s %10s\n", "", "least", "median", "most");
  print("loading the library", load);
  print("of that, on a processor", loadCpu);
  if (nRanks > 0) print(("communicator of " + std::to_string(nRanks) + " ranks").c_str(), init);
}
