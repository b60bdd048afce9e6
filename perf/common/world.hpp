// All ranks of a run: processes (started by tutti-run, mpirun, torchrun, srun or by hand) times threads times
// communicators per thread.  rank = (process * threads + thread) * ranksPerThread + k.
//
// A World belongs to one process.  Its threads call barrier() and gather() together, all of them, in the same order on
// every process.  Errors are thrown as Failure and end the run; nothing here outlives it.
#pragma once

#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "perf/common/options.hpp"
#include "perf/common/pattern.hpp"
#include "tutti/tutti.h"

namespace tutti::perf {

/// A sentence for the user; the run is over.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// Another thread has failed and said why.
class Stopped : public std::exception {};

/// Throws Failure with the library's own sentence unless the result is success.
void check(tuttiResult_t result, tuttiComm_t comm, const char* what);

class World {
 public:
  /// Meets the other processes.  Call before any thread is started.
  explicit World(const Options& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int process() const { return process_; }
  int nProcesses() const { return nProcesses_; }
  int threads() const { return options_.threads; }
  int ranksPerThread() const { return options_.ranksPerThread; }
  int ranksHere() const { return threads() * ranksPerThread(); }
  int nRanks() const { return nProcesses_ * ranksHere(); }
  int firstRank(int thread) const { return (process_ * threads() + thread) * ranksPerThread(); }

  /// The communicators of a thread's ranks, over all ranks, or over a group of them (*_TESTS_SPLIT).  Collective over
  /// all threads of all processes; the World keeps owning them.
  std::vector<tuttiComm_t> join(int thread);
  /// The group that `rank` is in: 0 if all are one.
  int groupOf(int rank) const;

  /// No thread of any process passes before all have come.  Throws Stopped when a thread of this process has failed.
  void barrier(int thread);
  /// One T per rank of the thread; returns those of all ranks, by rank.
  template <class T>
  std::vector<T> gather(int thread, const std::vector<T>& mine);

  /// The tiles of reduced data; made by the first thread that asks.
  std::shared_ptr<const ReducePattern> pattern(const TypeInfo& type, const OpInfo& op, int nRanks);

  /// Wakes the threads that wait in barrier(); they throw Stopped.
  void stop();
  /// End a thread's communicators at once, so that nobody waits for it.
  void abort(int thread);

 private:
  void leave(const std::vector<tuttiComm_t>& comms);
  void meetThreads();
  void joinInGroup(int thread);
  void joinAllFromHere();
  std::vector<tuttiComm_t> split(int thread);
  std::vector<std::byte> exchange(int thread, const void* mine, size_t bytesPerRank);

  const Options options_;
  tuttiConfig_t config_;
  tuttiComm_t processComm_ = nullptr;  // one rank per process
  int process_ = 0, nProcesses_ = 1;
  tuttiUniqueId id_{};
  std::vector<tuttiComm_t> comms_;   // by rank of this process
  std::vector<tuttiComm_t> groups_;  // split from comms_, if asked for

  std::mutex mutex_;
  std::condition_variable arrived_;
  int waiting_ = 0;
  unsigned generation_ = 0;
  bool stopped_ = false;
  std::vector<std::byte> shared_;  // of exchange: this process's part, then everybody's
  std::vector<std::byte> all_;
  std::map<std::tuple<int, int, int>, std::shared_ptr<const ReducePattern>> patterns_;
};

template <class T>
std::vector<T> World::gather(int thread, const std::vector<T>& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  const std::vector<std::byte> bytes = exchange(thread, mine.data(), sizeof(T));
  std::vector<T> all(bytes.size() / sizeof(T));
  std::memcpy(static_cast<void*>(all.data()), bytes.data(), all.size() * sizeof(T));
  return all;
}

}  // namespace tutti::perf
