#include <array>
#include <barrier>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "tests/errors/cases.hpp"
#include "tests/support/ranks.hpp"

namespace tutti::errors {
namespace {

using Call = std::function<tuttiResult_t(const test::Rank&)>;

/// What rank 0 and rank 1 read, where they get an error; each makes `call` on a communicator of both.
void add(Cases* cases, const std::string& name, const Call& call, int timeoutMs = 20'000) {
  std::array<std::string, 2> texts;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = timeoutMs;
  config.transports = "self,shm";
  std::barrier both(2);  // neither leaves while the other is in its call
  const std::string trouble = test::onThreads(2, [&](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiConfig_t mine = config;
    tuttiComm_t comm = nullptr;
    if (tuttiCommInitRankConfig(&comm, 2, id, rank, &mine) != tuttiSuccess) {
      both.arrive_and_drop();
      return tuttiGetLastError(nullptr);
    }
    const tuttiResult_t result = call({rank, 2, comm});
    if (result != tuttiSuccess) texts[static_cast<size_t>(rank)] = tuttiGetLastError(nullptr);
    both.arrive_and_wait();
    (void)tuttiCommAbort(comm);
    return "";
  });
  if (!trouble.empty()) cases->addText(name.c_str(), trouble);
  for (size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) cases->addText((name + "/" + std::to_string(rank)).c_str(), texts[rank]);
}

/// What the ranks read that join as these say; they have an id in common.
struct Joiner {
  int rank, nRanks;
  std::function<void(tuttiConfig_t*)> change = nullptr;
};
void addJoin(Cases* cases, const std::string& name, const std::array<Joiner, 2>& joiners) {
  std::array<std::string, 2> texts;
  const std::string trouble = test::onThreads(2, [&](int i, const tuttiUniqueId& id) -> std::string {
    const Joiner& joiner = joiners[static_cast<size_t>(i)];
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeoutMs = 3000;
    if (joiner.change) joiner.change(&config);
    tuttiComm_t comm = nullptr;
    if (joiner.nRanks == 0) return "";
    const tuttiResult_t result = tuttiCommInitRankConfig(&comm, joiner.nRanks, id, joiner.rank, &config);
    texts[static_cast<size_t>(i)] = result == tuttiSuccess ? "no error" : tuttiGetLastError(nullptr);
    if (result == tuttiSuccess) (void)tuttiCommAbort(comm);
    return "";
  });
  cases->addText(name.c_str(), trouble.empty() ? texts[0] : trouble);
}

/// The second one's text, who comes when the first has given up.
void addLate(Cases* cases, const std::string& name) {
  std::string text;
  std::barrier first(2);
  const std::string trouble = test::onThreads(2, [&](int rank, const tuttiUniqueId& id) -> std::string {
    if (rank == 1) first.arrive_and_wait();
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.timeoutMs = 1000;
    tuttiComm_t comm = nullptr;
    const tuttiResult_t result = tuttiCommInitRankConfig(&comm, 2, id, rank, &config);
    if (rank == 0) first.arrive_and_wait();
    if (result == tuttiSuccess) (void)tuttiCommAbort(comm);
    if (rank == 1) text = result == tuttiSuccess ? "no error" : tuttiGetLastError(nullptr);
    return "";
  });
  cases->addText(name.c_str(), trouble.empty() ? text : trouble);
}

float in[64], out[2][128];

tuttiResult_t allReduce(const test::Rank& r, size_t count) {
  return tuttiAllReduce(in, out[r.rank], count, tuttiFloat32, tuttiSum, r.comm, nullptr);
}

void addDifferent(Cases* cases) {
  add(cases, "operation-differs", [](const test::Rank& r) {
    return r.rank == 0 ? allReduce(r, 4) : tuttiAllGather(in, out[1], 4, tuttiFloat32, r.comm, nullptr);
  });
  add(cases, "count-differs", [](const test::Rank& r) { return allReduce(r, r.rank == 0 ? 4 : 8); });
  add(cases, "message-differs", [](const test::Rank& r) {
    return r.rank == 0 ? tuttiSend(in, 8, tuttiFloat32, 1, r.comm, nullptr)
                       : tuttiRecv(out[1], 16, tuttiFloat32, 0, r.comm, nullptr);
  });
  add(cases, "circle",
      [](const test::Rank& r) { return tuttiRecv(out[r.rank], 16, tuttiFloat32, 1 - r.rank, r.comm, nullptr); });
  add(cases, "counts-of-alltoallv-differ", [](const test::Rank& r) {
    const size_t sends[2] = {1, 2}, receives[2] = {1, 1}, displs[2] = {0, 4};
    const size_t others[2] = {1, 1}, back[2] = {1, 1};
    return r.rank == 0 ? tuttiAllToAllv(in, sends, displs, out[0], receives, displs, tuttiFloat32, r.comm, nullptr)
                       : tuttiAllToAllv(in, others, displs, out[1], back, displs, tuttiFloat32, r.comm, nullptr);
  });
  add(cases, "split-and-shrink", [](const test::Rank& r) {
    tuttiComm_t other = nullptr;
    const tuttiResult_t result = r.rank == 0
                                     ? tuttiCommSplit(r.comm, 0, 0, &other, nullptr)
                                     : tuttiCommShrink(r.comm, nullptr, 0, &other, nullptr, TUTTI_SHRINK_DEFAULT);
    if (other != nullptr) (void)tuttiCommAbort(other);
    return result;
  });
  add(cases, "grow-without-id", [](const test::Rank& r) {
    tuttiComm_t other = nullptr;
    return tuttiCommGrow(r.comm, 3, nullptr, -1, &other, nullptr);
  });
}

void addGone(Cases* cases) {
  add(cases, "revoked", [](const test::Rank& r) { return r.rank == 1 ? tuttiCommRevoke(r.comm, 0) : allReduce(r, 4); });
  add(cases, "finalized", [](const test::Rank& r) {
    const tuttiResult_t result = tuttiCommFinalize(r.comm);
    return result == tuttiSuccess ? tuttiCommFinalize(r.comm) : result;
  });
  add(
      cases, "silent",
      [](const test::Rank& r) {
        if (r.rank == 0) return allReduce(r, 4);
        std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        return tuttiSuccess;
      },
      400);
}

}  // namespace

void addRankCases(Cases* cases) {
  addDifferent(cases);
  addGone(cases);
  addJoin(cases, "numbered-twice", {{{0, 2}, {0, 2}}});
  addJoin(cases, "sizes-differ", {{{0, 2}, {1, 3}}});
  addJoin(cases, "missing", {{{0, 2}, {1, 0}}});
  addLate(cases, "late");
  addJoin(cases, "settings-differ",
          {{{0, 2, [](tuttiConfig_t* c) { c->nChannels = 1; }}, {1, 2, [](tuttiConfig_t* c) { c->nChannels = 2; }}}});
  addJoin(cases, "no-transport",
          {{{0, 2, [](tuttiConfig_t* c) { c->transports = "self"; }},
            {1, 2, [](tuttiConfig_t* c) { c->transports = "self"; }}}});
}

}  // namespace tutti::errors
