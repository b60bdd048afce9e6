// One rank of the death test: calls collectives until told otherwise or until one fails; says how it ended, and when.
//   argv[1]: odd rank, argv[2]: milliseconds until it acts, argv[3]: "kill" or "stop" (itself), "differ" (makes a
//   call with another count than the others) or "sleep" (makes no more calls), argv[4]: "start" or "joined", from which
//   on the milliseconds count
// Output: "odd NS" when the odd rank acts, "rank R returned NS" when a call has failed (CLOCK_MONOTONIC, one clock for
// all processes), "rank R: TEXT" of the error.
// Exit status: 0 if the failure named the odd rank, 1 if not, 2 if a wrong result came with success.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <time.h>
#include <unistd.h>

#include "tutti/tutti.h"

namespace {

long long nowNs() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

// With one system call: the process may be gone right after it.
void sayOdd() {
  char line[64];
  const int length = std::snprintf(line, sizeof line, "odd %lld\n", nowNs());
  if (write(STDOUT_FILENO, line, static_cast<size_t>(length)) < 0) std::abort();
}

void endLater(int delayMs, int signal) {
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::milliseconds(delayMs));
    sayOdd();
    kill(getpid(), signal);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 3;
  const int odd = std::atoi(argv[1]);
  const int delayMs = std::atoi(argv[2]);
  const std::string how = argv[3];
  const int self = std::atoi(std::getenv("TUTTI_RANK"));
  const bool fromStart = std::string(argv[4]) == "start";
  const bool differs = how == "differ" && self == odd;
  const bool sleeps = how == "sleep" && self == odd;
  const bool ends = self == odd && !differs && !sleeps;
  if (ends && fromStart) endLater(delayMs, how == "kill" ? SIGKILL : SIGSTOP);
  tuttiComm_t comm = nullptr;
  tuttiResult_t result = tuttiCommInitEnv(&comm, nullptr);
  const bool joined = result == tuttiSuccess;
  if (ends && !fromStart) endLater(delayMs, how == "kill" ? SIGKILL : SIGSTOP);
  int nRanks = 0;
  if (joined) tuttiCommCount(comm, &nRanks);
  const long long actNs = nowNs() + delayMs * 1'000'000LL;
  std::vector<float> data((1 << 16) + 1);
  for (size_t i = 0; result == tuttiSuccess; ++i) {
    size_t count = size_t{1} << (i % 17);
    if (differs && nowNs() > actNs) {
      ++count;
      sayOdd();
    }
    if (sleeps && nowNs() > actNs) {
      sayOdd();
      pause();
    }
    std::fill(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(count), 1.0f);
    result = tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, nullptr);
    if (result == tuttiSuccess && data[count - 1] != static_cast<float>(nRanks)) return 2;
  }
  const long long returnedNs = nowNs();
  const std::string text = tuttiGetLastError(comm);
  if (comm != nullptr) tuttiCommAbort(comm);
  if (joined) std::printf("rank %d returned %lld\n", self, returnedNs);
  std::printf("rank %d: %s\n", self, text.c_str());
  return text.find("rank " + std::to_string(odd)) != std::string::npos ? 0 : 1;
}
