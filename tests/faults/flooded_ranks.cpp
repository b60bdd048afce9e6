// flooded ENOUGH: one of a few ranks as processes that goes on while others dial it: new connections and descriptors
// all the time, for some seconds and until the file ENOUGH is there.  Says "up" when it is.  Exit status 0 if all
// results were right.
#include <unistd.h>

#include <cstdio>

#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

constexpr int rounds = 60, mostRounds = 3000;

std::string sum(tuttiComm_t comm) {
  int n = 0, x = 1;
  RANK_TRY(tuttiCommCount(comm, &n));
  RANK_TRY(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, comm, nullptr));
  RANK_CHECK(x == n);
  return "";
}

// All ranks end in one round: the first that sees the file has told the others.
std::string ends(tuttiComm_t comm, const char* enough, bool& all) {
  int seen = ::access(enough, F_OK) == 0;
  RANK_TRY(tuttiAllReduce(&seen, &seen, 1, tuttiInt32, tuttiMax, comm, nullptr));
  all = seen == 1;
  return "";
}

std::string splitAndSum(tuttiComm_t comm, int rank) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.splitShare = 0;  // a Session of its own: listeners and links
  tuttiComm_t child = nullptr;
  RANK_TRY(tuttiCommSplit(comm, 0, rank, &child, &config));
  const std::string why = sum(child);
  RANK_TRY(tuttiCommDestroy(child));
  return why;
}

std::string run(const char* enough) {
  tuttiComm_t comm = nullptr;
  RANK_TRY(tuttiCommInitEnv(&comm, nullptr));
  int rank = 0;
  RANK_TRY(tuttiCommUserRank(comm, &rank));
  std::puts("up");
  std::fflush(stdout);
  bool over = false;
  for (int i = 0; i < mostRounds && !(over && i >= rounds); ++i) {
    if (std::string why = sum(comm); !why.empty()) return why;
    if (i % 4 == 0) {
      if (std::string why = splitAndSum(comm, rank); !why.empty()) return "split: " + why;
    }
    if (std::string why = ends(comm, enough, over); !why.empty()) return why;
    ::usleep(50'000);
  }
  RANK_TRY(tuttiCommDestroy(comm));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string why = argc == 2 ? run(argv[1]) : "usage: flooded ENOUGH";
  if (!why.empty()) std::fprintf(stderr, "%s\n", why.c_str());
  return why.empty() ? 0 : 1;
}
