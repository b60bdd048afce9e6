// Ranks as threads of the test's process.  Catch2's macros stay on the main thread: a rank returns its complaint.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::test {

struct Rank {
  int rank;
  int nRanks;
  tuttiComm_t comm;
};
using RankBody = std::function<std::string(const Rank&)>;

/// "" if result is tuttiSuccess, else what went wrong, with the library's sentence.
inline std::string failed(tuttiResult_t result, const char* what, tuttiComm_t comm = nullptr) {
  if (result == tuttiSuccess) return "";
  return std::string(what) + " gave " + std::to_string(result) + ": " + tuttiGetLastError(comm);
}

/// Returns from the enclosing rank body if a call fails.
#define RANK_TRY(call)                                                                       \
  do {                                                                                       \
    if (std::string why_ = ::tutti::test::failed((call), #call); !why_.empty()) return why_; \
  } while (0)
#define RANK_CHECK(condition)                                                                                  \
  do {                                                                                                         \
    if (!(condition)) return std::string("does not hold: " #condition " at line ") + std::to_string(__LINE__); \
  } while (0)

/// `body` in a thread for each rank, with an id for all of them; "" or every rank's complaint.
inline std::string onThreads(int nRanks, const std::function<std::string(int, const tuttiUniqueId&)>& body) {
  tuttiUniqueId id;
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return tuttiGetLastError(nullptr);
  std::vector<std::string> complaints(static_cast<size_t>(nRanks));
  std::vector<std::thread> threads;
  for (int r = 0; r < nRanks; ++r) {
    threads.emplace_back([&, r] { complaints[static_cast<size_t>(r)] = body(r, id); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (int r = 0; r < nRanks; ++r) {
    const std::string& complaint = complaints[static_cast<size_t>(r)];
    if (!complaint.empty()) all += "rank " + std::to_string(r) + ": " + complaint + "\n";
  }
  return all;
}

/// `body` on rank `rank` of a communicator that is destroyed after it; "" or the complaint.
inline std::string asRank(int rank, int nRanks, const tuttiUniqueId& id, tuttiConfig_t config, const RankBody& body) {
  tuttiComm_t comm = nullptr;
  std::string complaint = failed(tuttiCommInitRankConfig(&comm, nRanks, id, rank, &config), "join");
  if (!complaint.empty()) return complaint;
  complaint = body({rank, nRanks, comm});
  if (complaint.empty()) return failed(tuttiCommDestroy(comm), "destroy");
  tuttiCommAbort(comm);
  return complaint;
}

/// Run `body` on nRanks ranks of one communicator; "" or every rank's complaint.
inline std::string onRanks(int nRanks, const RankBody& body, const tuttiConfig_t* config = nullptr) {
  return onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) {
    const tuttiConfig_t usual = TUTTI_CONFIG_INITIALIZER;
    return asRank(rank, nRanks, id, config != nullptr ? *config : usual, body);
  });
}

}  // namespace tutti::test
