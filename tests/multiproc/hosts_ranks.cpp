// One of several ranks as processes on hosts that are only called so: the collectives that have hierarchical
// algorithms.
//   hosts_ranks [all]    all: every collective, the v forms too
// Exit status 0 if every element was right.
#include <cstdio>
#include <cstring>

#include "tests/support/collective_check.hpp"

using namespace tutti::test;

namespace {

std::string check(const Rank& r, bool all) {
  for (const size_t count : {size_t{1}, size_t{1001}, size_t{70'003}}) {
    CheckOptions o;
    o.count = count;
    o.root = r.nRanks / 2;
    for (const bool inPlace : {false, true}) {
      o.inPlace = inPlace;
      std::string why;
      if (all) {
        why = checkEverything(r, o);
      } else {
        for (auto* one : {checkAllReduce, checkAllGather, checkReduceScatter, checkAllToAll, checkBroadcast}) {
          if (why.empty()) why = one(r, o);
        }
      }
      if (!why.empty()) return why + " (count " + std::to_string(count) + (inPlace ? ", in place)" : ")");
    }
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  Rank r{};
  std::string why = failed(tuttiCommInitEnv(&r.comm, nullptr), "join");
  if (why.empty()) {
    tuttiCommUserRank(r.comm, &r.rank);
    tuttiCommCount(r.comm, &r.nRanks);
    why = check(r, argc > 1 && std::strcmp(argv[1], "all") == 0);
  }
  if (why.empty()) why = failed(tuttiCommDestroy(r.comm), "destroy");
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", r.rank, why.c_str());
  return why.empty() ? 0 : 1;
}
