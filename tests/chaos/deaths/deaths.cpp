// Ranks are processes; one of them dies (kill -9, exit, segmentation fault) at a point of init, of a call, of Split,
// Shrink, Grow or Destroy that a seed chooses.  All others must get an error that names it, by its rank in the
// communicator of the call, long before the deadline, and go on without it.  Prints how long after the death they did.
//
//   deaths [--rounds 30] [--first 1] [--ranks 8] [--in init|calls|Split|Shrink|Grow|Destroy] [--verbose]
//
// Exit status: 0 if nobody hung and every error named the dead; the seeds that went wrong are printed.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "tests/chaos/deaths/round.hpp"

using namespace tutti::test;

namespace {

struct Options {
  uint64_t first = 1;
  int rounds = 30, mostRanks = kMostRanks;
  std::optional<During> during;
  bool verbose = false;
};

/// Of one kind of round.
struct Tally {
  int rounds = 0, died = 0, hung = 0, wrong = 0;
  std::vector<double> errorMs, onMs;
};

double percentile(std::vector<double> of, double p) {
  if (of.empty()) return 0;
  std::sort(of.begin(), of.end());
  return of[std::min(of.size() - 1, static_cast<size_t>(p * static_cast<double>(of.size())))];
}

pid_t forkRank(const Plan& plan, int rank, Scene& scene) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  live(plan, rank, scene);
  ::_exit(0);
}

/// Waits for the ranks, some more than their deadline at most; true: none had to be killed.
bool awaitEnds(std::vector<pid_t> ranks, const Plan& plan, Scene& scene) {
  const int64_t until = nowUs() + int64_t{kDeadlineMs} * 3 * 1000;
  bool all = true;
  while (!ranks.empty() && nowUs() < until) {
    std::erase_if(ranks, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; });
    // A victim that reached no point to die at has seen what there was to see.
    if (ranks.size() == 1 && scene.accounts[static_cast<size_t>(plan.victim)].returnedUs != 0) break;
    ::usleep(500);
  }
  for (const pid_t pid : ranks) {
    all = false;
    ::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
  }
  return all || nowUs() < until;
}

/// Who dies before it has said to the meeting place which rank it is, is known to nobody.
bool unknownToAll(const Plan& plan, const Scene& scene) {
  constexpr int kHello = 1;
  return plan.during == During::Init && !plan.hosts && scene.sent.load() < kHello;
}

void judge(const Plan& plan, const Scene& scene, bool ended, Tally* tally) {
  bool wrong = false, hung = !ended;
  const int64_t diedUs = scene.diedUs.load();
  tally->died += diedUs != 0 ? 1 : 0;
  for (int rank = 0; rank < plan.nRanks + plan.nNew; ++rank) {
    if (rank == plan.victim) continue;
    const Account& account = scene.accounts[static_cast<size_t>(rank)];
    if (diedUs != 0 && account.complaint[0] != 0) {
      wrong = true;
      std::printf("%s: rank %d: %s\n", describe(plan).c_str(), rank, account.complaint.data());
    }
    if (diedUs == 0 || account.returnedUs.load() < diedUs || unknownToAll(plan, scene)) continue;
    const double ms = static_cast<double>(account.returnedUs.load() - diedUs) / 1000;
    tally->errorMs.push_back(ms);
    if (account.wentOnUs.load() != 0)
      tally->onMs.push_back(static_cast<double>(account.wentOnUs.load() - diedUs) / 1000);
    if (ms > deadlineMs(plan) / 4.0) hung = true;
    if (ms > 250)
      std::printf("%s: rank %d only after %.1f ms: %s\n", describe(plan).c_str(), rank, ms, account.error.data());
  }
  if (hung) std::printf("%s: HUNG\n", describe(plan).c_str());
  ++tally->rounds;
  tally->hung += hung ? 1 : 0;
  tally->wrong += wrong ? 1 : 0;
}

/// False: the machine has no memory or no processes left.
bool run(const Plan& plan, bool verbose, Tally* tally) {
  void* const page = ::mmap(nullptr, sizeof(Scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  Scene& scene = *new (page) Scene;
  if (verbose) std::printf("%s\n", describe(plan).c_str());
  std::fflush(stdout);
  pid_t server = 0;
  if (!plan.hosts && (server = ::fork()) == 0) serveIds(scene);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < plan.nRanks + plan.nNew; ++rank) ranks.push_back(forkRank(plan, rank, scene));
  const bool forked = server >= 0 && std::all_of(ranks.begin(), ranks.end(), [](pid_t pid) { return pid > 0; });
  if (!forked) scene.ready.store(-1);
  std::erase_if(ranks, [](pid_t pid) { return pid <= 0; });
  judge(plan, scene, awaitEnds(std::move(ranks), plan, scene), tally);
  if (server > 0) {
    ::kill(server, SIGKILL);
    (void)::waitpid(server, nullptr, 0);
  }
  ::munmap(page, sizeof(Scene));
  return forked;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool last = i + 1 == argc;
    if (name == "--in" && !last) {
      const std::string wanted = argv[++i];
      for (const During during : kAllDuring)
        if (wanted == nameOf(during)) options.during = during;
      if (options.during) continue;
    }
    if (name == "--verbose") {
      options.verbose = true;
      continue;
    }
    const long value = last ? 0 : std::strtol(argv[++i], nullptr, 10);
    if (name == "--rounds" && value > 0)
      options.rounds = static_cast<int>(value);
    else if (name == "--first" && value > 0)
      options.first = static_cast<uint64_t>(value);
    else if (name == "--ranks" && value >= 2 && value <= kMostRanks)
      options.mostRanks = static_cast<int>(value);
    else {
      std::fprintf(stderr,
                   "usage: deaths [--rounds N] [--first SEED] [--ranks 2..%d] [--in "
                   "init|calls|Split|Shrink|Grow|Destroy] [--verbose]\n",
                   kMostRanks);
      std::exit(2);
    }
  }
  return options;
}

void print(const char* name, const Tally& t) {
  std::printf("%-14s %6d %6d %5d %6d %8zu %8.1f %8.1f %8.1f %9.1f\n", name, t.rounds, t.died, t.hung, t.wrong,
              t.errorMs.size(), percentile(t.errorMs, 0.5), percentile(t.errorMs, 0.99), percentile(t.errorMs, 1),
              percentile(t.onMs, 0.5));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  std::map<std::pair<During, bool>, Tally> tallies;
  Tally all;
  for (int i = 0; i < options.rounds; ++i) {
    const Plan plan = planOf(options.first + static_cast<uint64_t>(i), options.mostRanks, options.during);
    if (!run(plan, options.verbose, &tallies[{plan.during, plan.tcp}])) {
      std::fprintf(stderr, "no memory or no processes: %s\n", std::strerror(errno));
      return 2;
    }
  }
  std::printf("milliseconds from the death to the error of each other rank, and to the sum of those that are left\n");
  std::printf("%-14s %6s %6s %5s %6s %8s %8s %8s %8s %9s\n", "in", "rounds", "deaths", "hung", "wrong", "errors", "p50",
              "p99", "most", "sum p50");
  for (const auto& [key, tally] : tallies) {
    const std::string name = std::string(nameOf(key.first)) + (key.second ? ", tcp" : ", shm");
    print(name.c_str(), tally);
    all.rounds += tally.rounds, all.died += tally.died, all.hung += tally.hung, all.wrong += tally.wrong;
    all.errorMs.insert(all.errorMs.end(), tally.errorMs.begin(), tally.errorMs.end());
    all.onMs.insert(all.onMs.end(), tally.onMs.begin(), tally.onMs.end());
  }
  print("all", all);
  return all.hung + all.wrong == 0 ? 0 : 1;
}
