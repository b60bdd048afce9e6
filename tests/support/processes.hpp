// Ranks as processes, for tests in which ranks die.
#pragma once

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>

#include "tests/support/fork.hpp"
#include "tests/support/ranks.hpp"

namespace tutti::test {

/// What ranks may meet by; a rank of two communicators needs both.
using UniqueIds = std::array<tuttiUniqueId, 2>;

namespace detail {

/// A rank that takes longer hangs, and its end by SIGALRM says so.
constexpr unsigned kMostSeconds = 240;

/// Where the ids are told to the ranks.
struct Meeting {
  std::atomic<int> ready{0};  // 1: `ids` are there; -1: there are none
  UniqueIds ids{};
};

/// The process that the ids are of: it serves the rendezvous until it is killed, or its parent ends.
inline void serve(Meeting& meeting) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  bool ok = true;
  for (tuttiUniqueId& id : meeting.ids) ok = ok && tuttiGetUniqueId(&id) == tuttiSuccess;
  if (!ok) std::fprintf(stderr, "no unique id: %s\n", tuttiGetLastError(nullptr));
  meeting.ready.store(ok ? 1 : -1);
  for (;;) ::pause();
}

template <class Body>
int endOf(int rank, const Meeting& meeting, const Body& body) {
  ::alarm(kMostSeconds);
  while (meeting.ready.load() == 0) ::usleep(200);
  const std::string why = meeting.ready.load() == 1 ? body(rank, meeting.ids) : "there is no unique id";
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", rank, why.c_str());
  return why.empty() ? 0 : 1;
}

}  // namespace detail

/// Runs body(rank, ids), which returns "" or a complaint, in a process for each rank, and gives how they ended, as
/// waitpid() does; a rank without a complaint exits with 0.  All processes are forked before the library starts a
/// thread for them: a child inherits the locks that threads hold, the sanitizers' too.
template <class Body>
std::vector<int> onProcesses(int nRanks, const Body& body) {
  void* const page =
      ::mmap(nullptr, sizeof(detail::Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return std::vector<int>(static_cast<size_t>(nRanks), -1);
  auto& meeting = *new (page) detail::Meeting;
  std::vector<pid_t> ranks;
  for (int r = 0; r < nRanks; ++r) {
    ranks.push_back(forkWhenIdle());
    if (ranks.back() == 0) ::_exit(detail::endOf(r, meeting, body));
  }
  const pid_t server = forkWhenIdle();
  if (server == 0) detail::serve(meeting);
  if (server < 0) meeting.ready.store(-1);
  std::vector<int> statuses;
  for (const pid_t rank : ranks) {
    int status = -1;
    while (rank > 0 && ::waitpid(rank, &status, 0) < 0 && errno == EINTR) {
    }
    statuses.push_back(status);
  }
  if (server > 0) {
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
  }
  ::munmap(page, sizeof(detail::Meeting));
  return statuses;
}

inline bool exitedWell(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
inline bool wasKilled(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

/// "", or which rank did not end as it should: those for which dies(rank) holds are killed, the others exit well.
template <class Dies>
std::string unlessEnded(const std::vector<int>& statuses, const Dies& dies) {
  std::string wrong;
  for (size_t r = 0; r < statuses.size(); ++r) {
    if (dies(static_cast<int>(r)) ? wasKilled(statuses[r]) : exitedWell(statuses[r])) continue;
    wrong += "rank " + std::to_string(r) + " ended with status " + std::to_string(statuses[r]) + "; ";
  }
  return wrong;
}

}  // namespace tutti::test
