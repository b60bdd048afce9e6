// One rank of the diagnosis test: some calls that are right, then one that goes wrong in the way that argv[1] names, on
// the rank of argv[2].
//   missing  the odd rank leaves out an AllReduce, and waits; the others run into the deadline
//   die      it kills itself instead
//   count    it makes the AllReduce with another count
//   root     it makes the Broadcast with another root
//   cycle    every rank receives from the next one, which never sends
//   message  the odd rank receives another count than the one before it sends
//   signal   all stay between calls until somebody ends them
//   ask      all write their records to the folder argv[3]
// Output: "joined" when the rank can be signalled.
// Exit status: 0, or 3 if a call has failed, as all but the last two mean it to.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "tutti/tutti.h"

namespace {

tuttiComm_t comm;

/// Ends the process where the call failed.
void need(tuttiResult_t result) {
  if (result == tuttiSuccess) return;
  std::printf("%s\n", tuttiGetLastError(comm));
  std::fflush(stdout);
  (void)tuttiCommAbort(comm);
  std::exit(3);
}

void stay(int milliseconds) { usleep(static_cast<useconds_t>(milliseconds) * 1000); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: diagnosis_ranks WHAT RANK [FOLDER]\n"), 1;
  const std::string what = argv[1];
  need(tuttiCommInitEnv(&comm, nullptr));
  int rank = 0, nRanks = 0;
  need(tuttiCommUserRank(comm, &rank));
  need(tuttiCommCount(comm, &nRanks));
  const bool odd = rank == std::atoi(argv[2]);
  std::vector<float> in(64, 1), out(64);
  for (int i = 0; i < 5; ++i) need(tuttiAllReduce(in.data(), out.data(), 64, tuttiFloat, tuttiSum, comm, nullptr));
  const int next = (rank + 1) % nRanks, before = (rank + nRanks - 1) % nRanks;
  if (what == "missing" || what == "die") {
    if (odd && what == "die") (void)std::raise(SIGKILL);
    if (odd) stay(30'000);
    need(tuttiAllReduce(in.data(), out.data(), 32, tuttiFloat, tuttiSum, comm, nullptr));
  } else if (what == "count") {
    need(tuttiAllReduce(in.data(), out.data(), odd ? 31 : 32, tuttiFloat, tuttiSum, comm, nullptr));
    need(tuttiBarrier(comm, nullptr));
  } else if (what == "root") {
    need(tuttiBroadcast(in.data(), out.data(), 32, tuttiFloat, odd ? 1 : 0, comm, nullptr));
    need(tuttiBarrier(comm, nullptr));
  } else if (what == "cycle") {
    need(tuttiRecv(out.data(), 8, tuttiFloat, next, comm, nullptr));
  } else if (what == "message") {
    if (next == std::atoi(argv[2])) need(tuttiSend(in.data(), 8, tuttiFloat, next, comm, nullptr));
    if (odd) need(tuttiRecv(out.data(), 9, tuttiFloat, before, comm, nullptr));
    need(tuttiBarrier(comm, nullptr));
  } else if (what == "ask") {
    need(tuttiCommDump(comm, argv[3]));
    if (tuttiCommDump(comm, "/dev/null/x") != tuttiSystemError) return 1;
    if (std::strstr(tuttiGetLastError(comm), "/dev/null/x") == nullptr) return 1;
  } else {
    std::printf("joined\n");
    std::fflush(stdout);
    stay(60'000);
  }
  need(tuttiCommDestroy(comm));
  return 0;
}
