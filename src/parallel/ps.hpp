// Parameter server: which rows lie where, messages, and the values that a server holds.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "src/parallel/gradients.hpp"
#include "src/parallel/optimizer.hpp"
#include "src/parallel/tensor.hpp"
#include "tutti/parallel/ps.h"

namespace tutti::parallel {

/// A table of parameters: rows of equal width, cut over the servers.
struct PsTable {
  int64_t rows, width;
  unsigned flags;
  std::vector<int64_t> cuts;  // of rows, [servers + 1]
  bool sparse() const { return (flags & TUTTI_PARAMETER_SPARSE) != 0; }
  int64_t rowsOf(int server) const { return cuts[static_cast<size_t>(server) + 1] - cuts[static_cast<size_t>(server)]; }
};

enum class PsVerb : int64_t { Pull, PullRows, PushRows, Push, Leave };

/// In front of each request; what follows depends on the verb.  Replies have one, too.
struct PsHeader {
  int64_t verb;
  int64_t clock;  // request: the step that the gradients are of; reply: the step that the values are of, or -1: failed
  int64_t table;
  int64_t count;  // rows; failed: bytes of the sentence
};

/// One server and one worker.  One thread at a time.
class PsLink {
 public:
  explicit PsLink(tuttiComm_t comm) : comm_(comm) { check(tuttiCommUserRank(comm, &rank_), comm); }
  tuttiComm_t comm() const { return comm_; }
  void send(const void* data, size_t count, tuttiDataType_t dtype) {
    if (count != 0) check(tuttiSend(data, count, dtype, 1 - rank_, comm_, nullptr), comm_);
  }
  void receive(void* data, size_t count, tuttiDataType_t dtype) {
    if (count != 0) check(tuttiRecv(data, count, dtype, 1 - rank_, comm_, nullptr), comm_);
  }
  void send(const PsHeader& h) { send(&h, sizeof(h), tuttiUint8); }
  PsHeader header() {
    PsHeader h{};
    receive(&h, sizeof(h), tuttiUint8);
    return h;
  }

 private:
  tuttiComm_t comm_;
  int rank_ = 0;
};

/// The values of one server and the gradients that wait for others.  Any thread.
template <class T>
class PsShard {
 public:
  PsShard(const std::vector<PsTable>& tables, int server, int workers, const tuttiPsConfig_t& config);

  /// Elements of this server, all tables one after another.
  std::vector<T> values;
  size_t offset(size_t table) const { return offsets_[table]; }

  /// Until values may be read by a worker that has finished `clock` steps; the version of the values.
  /// The lock that is handed out keeps them as they are.
  int64_t waitToRead(int64_t clock, std::unique_lock<std::mutex>& lock);
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// Rows [at, at + n * width) of a worker's gradient of this step.
  void addRows(int worker, size_t table, const std::vector<int64_t>& rows, const T* gradient);
  /// A worker's gradients of the tables that are not sparse, one after another, made from values of version `clock`.
  void push(int worker, int64_t clock, const T* gradient);
  /// died: it is missed.  Throws nothing.
  void leave(int worker, const std::string& died);
  /// The sentence of what broke it, or "".
  std::string failure();
  void report(tuttiPsReport_t& r);

 private:
  struct Pending {
    std::vector<T> gradient;
    std::vector<char> touched;  // rows of all tables
    bool full = false;
    bool gone = false;
    int64_t clock = 0;  // steps pushed
  };
  size_t needed() const;
  void finishStep();
  void apply(const std::vector<int>& from, T scale);
  int64_t slowest() const;

  const std::vector<PsTable>& tables_;
  int server_;
  tuttiPsConfig_t config_;
  std::vector<size_t> offsets_, rowOffsets_;
  std::vector<Pending> pending_;
  std::vector<T> first_, second_, sums_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t version_ = 0, dropped_ = 0, stalest_ = 0;
  std::string failure_;
};

}  // namespace tutti::parallel
