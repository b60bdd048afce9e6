// One rank of a job of which one rank does not come to a call of all ranks: absent_ranks CALL ABSENT
//
//   CALL    split, shrink or destroy, which rank ABSENT does not make; or grow, by ABSENT ranks that never start
//
// Prints how the call ended on this rank.  Exit status 1: the job has come up.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <unistd.h>

#include "tutti/tutti.h"

namespace {

constexpr unsigned kAwaySeconds = 60;  // longer than the others' deadline

tuttiResult_t grow(tuttiComm_t comm, int rank, int nRanks, int nNew) {
  tuttiUniqueId id{};
  if (rank == 0) {
    const tuttiResult_t made = tuttiGetUniqueId(&id);
    if (made != tuttiSuccess) return made;
  }
  tuttiComm_t grown = nullptr;
  return tuttiCommGrow(comm, nRanks + nNew, rank == 0 ? &id : nullptr, -1, &grown, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: absent_ranks split|shrink|destroy|grow ABSENT\n"), 2;
  const std::string_view call = argv[1];
  const int absent = std::atoi(argv[2]);
  tuttiComm_t comm = nullptr, child = nullptr;
  int rank = 0, nRanks = 0;
  if (tuttiCommInitEnv(&comm, nullptr) != tuttiSuccess || tuttiCommUserRank(comm, &rank) != tuttiSuccess ||
      tuttiCommCount(comm, &nRanks) != tuttiSuccess)
    return std::fprintf(stderr, "%s\n", tuttiGetLastError(nullptr)), 2;
  if (call != "grow" && rank == absent) return ::sleep(kAwaySeconds), 1;
  tuttiResult_t result = tuttiInvalidArgument;
  if (call == "grow") result = grow(comm, rank, nRanks, absent);
  if (call == "split") result = tuttiCommSplit(comm, 0, rank, &child, nullptr);
  if (call == "shrink") result = tuttiCommShrink(comm, nullptr, 0, &child, nullptr, TUTTI_SHRINK_DEFAULT);
  if (call == "destroy") result = tuttiCommDestroy(comm);
  std::printf("rank %d: %s: %s\n", rank, tuttiGetErrorString(result), tuttiGetLastError(nullptr));
  std::fflush(stdout);
  ::_exit(1);
}
