// One of a few ranks as processes: everything that a rank does, while signals interrupt its system calls every
// `argv[1]` microseconds (no SA_RESTART).  Exit status 0 if every element was right and nothing failed.
#include <signal.h>
#include <sys/time.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

namespace {

volatile sig_atomic_t interrupts = 0;

bool interruptEvery(int us) {
  struct sigaction action = {};
  action.sa_handler = [](int) { interrupts = interrupts + 1; };
  if (::sigaction(SIGALRM, &action, nullptr) != 0) return false;
  const itimerval timer = {{0, us}, {0, us}};
  return ::setitimer(ITIMER_REAL, &timer, nullptr) == 0;
}

std::string checkCalls(const Rank& r) {
  for (const size_t count : {size_t{3}, size_t{5000}, size_t{150'001}}) {
    CheckOptions o;
    o.count = count;
    o.root = r.nRanks - 1;
    if (std::string why = checkEverything(r, o); !why.empty()) return why + " (count " + std::to_string(count) + ")";
  }
  return "";
}

/// A split, and a shrink without the last rank, which leaves.
std::string checkChildren(const Rank& r) {
  Rank half{};
  RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, r.rank, &half.comm, nullptr));
  tuttiCommUserRank(half.comm, &half.rank);
  tuttiCommCount(half.comm, &half.nRanks);
  CheckOptions o;
  o.count = 100;
  if (std::string why = checkAllReduce(half, o); !why.empty()) return "split: " + why;
  RANK_TRY(tuttiCommDestroy(half.comm));
  const int last = r.nRanks - 1;
  if (r.rank == last) return "";
  Rank fewer{r.rank, last, nullptr};
  RANK_TRY(tuttiCommShrink(r.comm, &last, 1, &fewer.comm, nullptr, TUTTI_SHRINK_DEFAULT));
  if (std::string why = checkAllReduce(fewer, o); !why.empty()) return "shrink: " + why;
  return failed(tuttiCommDestroy(fewer.comm), "destroy of the shrunken");
}

}  // namespace

int main(int argc, char** argv) {
  const int us = argc > 1 ? std::atoi(argv[1]) : 50;
  if (!interruptEvery(us)) return std::perror("setitimer"), 2;
  Rank r{};
  std::string why = failed(tuttiCommInitEnv(&r.comm, nullptr), "join");
  if (why.empty()) {
    tuttiCommUserRank(r.comm, &r.rank);
    tuttiCommCount(r.comm, &r.nRanks);
    why = checkCalls(r);
  }
  if (why.empty()) why = checkChildren(r);
  if (why.empty()) why = failed(tuttiCommDestroy(r.comm), "destroy");
  if (why.empty() && interrupts == 0) why = "no signal came: nothing has been tested";
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", r.rank, why.c_str());
  return why.empty() ? 0 : 1;
}
