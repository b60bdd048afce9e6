// One rank of the death test: calls collectives until told otherwise or until one fails; says how it ended.
//   argv[1]: rank that dies, argv[2]: milliseconds until it does, argv[3]: "kill" or "stop"
// Exit status: 0 if the failure named the rank that died, 1 if not, 2 if a wrong result came with success.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "tutti/tutti.h"

int main(int argc, char** argv) {
  if (argc < 4) return 3;
  const int victim = std::atoi(argv[1]);
  const int delayMs = std::atoi(argv[2]);
  const int signal = std::string(argv[3]) == "kill" ? SIGKILL : SIGSTOP;
  const int self = std::atoi(std::getenv("TUTTI_RANK"));
  if (self == victim) {
    std::thread([=] {
      std::this_thread::sleep_for(std::chrono::milliseconds(delayMs));
      kill(getpid(), signal);
    }).detach();
  }
  tuttiComm_t comm = nullptr;
  tuttiResult_t result = tuttiCommInitEnv(&comm, nullptr);
  int nRanks = 0;
  if (result == tuttiSuccess) tuttiCommCount(comm, &nRanks);
  std::vector<float> data(1 << 16);
  for (size_t i = 0; result == tuttiSuccess; ++i) {
    const size_t count = size_t{1} << (i % 17);
    std::fill(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(count), 1.0f);
    result = tuttiAllReduce(data.data(), data.data(), count, tuttiFloat32, tuttiSum, comm, nullptr);
    if (result == tuttiSuccess && data[count - 1] != static_cast<float>(nRanks)) return 2;
  }
  const std::string text = tuttiGetLastError(comm);
  if (comm != nullptr) tuttiCommAbort(comm);
  std::printf("rank %d: %s\n", self, text.c_str());
  return text.find("rank " + std::to_string(victim)) != std::string::npos ? 0 : 1;
}
