// One end of a one-way connection, as NCCL holds it, and what is under way there.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include "src/net_plugin/link.hpp"
#include "src/net_plugin/protocol.hpp"

namespace tutti::net_plugin {

class Comm;

/// What isend() and irecv() give.
struct Work {
  explicit Work(Comm& owner) : comm(owner) {}
  virtual ~Work() = default;
  Comm& comm;
  bool done = false;
  size_t n = 1;
  std::array<size_t, kMostGrouped> bytes{};  // that have gone or come
};

/// One thread at a time.
class Comm {
 public:
  explicit Comm(std::unique_ptr<Link> link) : link_(std::move(link)) {}
  virtual ~Comm() = default;
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  virtual bool sends() const = 0;
  Link& link() { return *link_; }
  /// Goes on with all that is under way.  Errors: the comm's first failure, which names the peer.
  Status progress();
  /// Frees a request that is done, or whose comm has failed.
  virtual void forget(Work* work) = 0;
  const Status& failure() const { return failure_; }
  /// The same sentence has been said before.
  bool said() { return std::exchange(said_, true); }

 protected:
  virtual Status advance() = 0;

 private:
  const std::unique_ptr<Link> link_;
  Status failure_;
  bool said_ = false;
};

}  // namespace tutti::net_plugin
