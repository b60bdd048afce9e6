// What the conformance suite needs to know of a transport: how to open both ends of an endpoint in one process.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::conformance {

/// Both ends of one endpoint: `a` is rank 0's to rank 1, `b` rank 1's to rank 0.  Where a rank talks to itself there is
/// one endpoint, and `b` is empty.
struct Pair {
  std::unique_ptr<Endpoint> a, b;
  Endpoint& first() const { return *a; }
  Endpoint& second() const { return b != nullptr ? *b : *a; }
};

/// Both ends of endpoint `lane` between the transports of ranks 0 and 1.
inline Result<Pair> connectBoth(const std::unique_ptr<Transport> (&transports)[2], int lane) {
  const Deadline deadline = Deadline::inMs(10'000);
  const PendingEndpoint first = transports[0]->beginConnect(1, transports[1]->address(), lane);
  const PendingEndpoint second = transports[1]->beginConnect(0, transports[0]->address(), lane);
  Pair pair;
  const auto bothUp = [&]() -> Result<bool> {
    if (pair.a == nullptr) {
      TUTTI_ASSIGN(pair.a, first->poll());
    }
    if (pair.b == nullptr) {
      TUTTI_ASSIGN(pair.b, second->poll());
    }
    return pair.a != nullptr && pair.b != nullptr;
  };
  TUTTI_TRY(asStatus(awaitValue(bothUp, deadline, "both ends of a link")));
  return pair;
}

class Harness {
 public:
  virtual ~Harness() = default;
  virtual Result<Pair> open(int lane) = 0;
  /// Let time pass where it is virtual, and move what moves only while it is asked to.
  virtual void pump() {}
  /// Null where endpoints have nothing to move beside their calls, and nothing to sleep on.
  virtual Transport* transport(int /*rank*/) { return nullptr; }
  virtual Sleeper* sleeper(int rank) { return transport(rank) != nullptr ? transport(rank)->sleeper() : nullptr; }
  bool progress(int rank) { return transport(rank) != nullptr && transport(rank)->progress(); }
  /// Of both ranks, by one thread.
  bool progress() {
    const bool first = progress(0);
    return progress(1) || first;
  }
  /// Registers memory with the transports of both ends; nothing where requests use any.
  virtual std::vector<std::unique_ptr<MemoryRegistration>> keep(std::span<std::byte>) { return {}; }

  // What this transport cannot be asked.
  virtual bool threads() const { return true; }       // its ends may live on two threads
  virtual bool hasTwoEnds() const { return true; }    // not a rank and itself
  virtual bool showsArrival() const { return true; }  // what came is pending() before anything moves it
  virtual bool noticesClose() const { return true; }  // by itself: a process that shares memory is watched by others
};

struct Row {
  std::string name;
  std::function<std::unique_ptr<Harness>()> make;
};

// One function per file rows_*.cpp; empty where this machine lacks it.
std::vector<Row> selfRows();
std::vector<Row> shmRows();
std::vector<Row> tcpRows();
std::vector<Row> simRows();
std::vector<Row> mailboxRows();
std::vector<Row> ncclnetRows();
#if TUTTI_HAVE_UCX
std::vector<Row> ucxRows();
#endif
#if TUTTI_HAVE_VERBS
std::vector<Row> verbsRows();
#endif
std::vector<Row> cudaRows();

/// All of the above, or those whose names begin with TUTTI_TEST_ROWS; where the driver for tests is loaded, those of
/// CUDA devices alone.  Found once: adapters take long to ask in an emulated machine.
const std::vector<Row>& rows();

}  // namespace tutti::conformance
