// Walks one lane of a plan, op by op and slice by slice, as far as it goes without waiting.
#pragma once

#include <array>
#include <vector>

#include "src/base/assert.hpp"
#include "src/exec/plan.hpp"
#include "src/exec/reduce/reduce.hpp"
#include "src/exec/task.hpp"

namespace tutti {

/// The memory and operator of one call.
struct CallBuffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  Reduction reduction;
  Fingerprint call;
};

/// One thread at a time.  begin() may be called again once step() has said Done.
class LaneRun {
 public:
  LaneRun(const Plan& plan, const BoundLane& lane);

  /// Borrows the buffers until Done.
  void begin(const CallBuffers& buffers) {
    TUTTI_ASSERT(loans_.empty());
    buffers_ = &buffers;
    slice_ = sliceBegin_ = 0;
    sliceBytes_ = plan_.sliceBytes - lane_.headStart;
    op_ = 0;
    waitingOn_ = -1;
    lent_ = false;
    resetOp();
  }
  Result<Progress> step() { return isShort_ ? stepShort() : stepSlices(); }
  /// Whether step() has nothing left to do.
  bool isDone() const {
    if (isShort_) return op_ == lane_.ops.size();
    return (slice_ >= lane_.loops || lane_.ops.empty()) && loans_.empty();
  }
  /// Whether it has posted sends since begin().
  bool lent() const { return lent_; }
  int waitingOn() const { return waitingOn_; }
  /// Giving up, in two steps: every lane lets go of what it reads of others before any waits for its own memory to be
  /// let go, because two ranks of one process that did both at once would wait for each other.
  void letGo();
  void withdraw();

 private:
  /// Memory of a posted send that is not done yet.
  struct Loan {
    Endpoint* endpoint;
    Request request;
    int rank;
    Chunk memory;
    size_t slice;
  };

  Result<Progress> stepShort();
  Result<Progress> stepSlices();
  Result<bool> runShort(const BoundOp& op);
  Result<bool> runOp(const BoundOp& op);
  Status copy(std::byte* dst, const void* source, size_t bytes, size_t touchedBytes);
  Result<bool> accumulate(const BoundOp& op, size_t bytes);
  Result<bool> accumulateParts(const BoundOp& op, size_t bytes);
  Status addTo(const BoundOp& op, const std::byte* message, size_t begin, size_t bytes);
  Result<bool> gather(const BoundOp& op, size_t bytes);
  Result<bool> exchangeParts(const BoundOp& op, size_t bytes);
  Status computeParts(const BoundOp& op, std::byte* message);
  Result<bool> moveIn(const BoundOp& op, size_t bytes);
  Result<bool> combine(const BoundOp& op, size_t bytes);
  Result<bool> chooseDelivery(const BoundOp& op, size_t bytes);
  Result<bool> sendAll(const BoundOp& op, size_t bytes);
  Result<bool> sendShared(const BoundOp& op, size_t bytes);
  Result<bool> sendOne(const BoundOp& op, size_t which, size_t bytes);
  bool lends(const BoundOp& op, const Endpoint& endpoint, size_t bytes) const;
  bool posts(const BoundOp& op, size_t which, size_t bytes) const;
  Result<bool> loansReturned(const BoundOp& op);
  Result<bool> loansReturned(const Operand& dst);
  Status forgetReturned();
  Result<bool> allLoansReturned();
  Result<std::byte*> roomForValue(const BoundOp& op, size_t bytes);
  Status compute(std::byte* dst, size_t bytes, size_t touchedBytes);
  void round(const BoundOp& op, std::byte* value, size_t bytes) const;
  void releaseAll(const BoundOp& op);
  void resetOp() {
    arrived_ = sent_ = added_ = 0;
    computed_ = false;
    staging_ = shared_ = nullptr;
    delivery_ = Delivery::Unknown;
  }
  void nextOp();

  size_t sliceOf(const BoundOp& op) const;
  const std::byte* readAddress(const Operand& operand) const;
  std::byte* writeAddress(const Operand& operand) const;

  const Plan& plan_;
  const BoundLane& lane_;
  const bool isShort_;
  const CallBuffers* buffers_ = nullptr;
  size_t slice_ = 0;
  size_t sliceBegin_ = 0, sliceBytes_ = 0;  // of every value
  size_t op_ = 0;
  int waitingOn_ = -1;
  bool lent_ = false;

  /// How the value of an op goes to op.to.
  enum class Delivery : uint8_t { Unknown, ToEach, Shared };

  // Where the current op stands.
  size_t arrived_ = 0;                // messages of op.from that are there
  size_t sent_ = 0;                   // messages of op.to that are gone
  size_t added_ = 0;                  // bytes of a message that is added while it comes
  bool computed_ = false;             // the value exists
  const std::byte* value_ = nullptr;  // the value, once computed
  std::byte* staging_ = nullptr;      // reserved in op.to[0]'s endpoint, to be committed last
  Delivery delivery_ = Delivery::Unknown;
  std::byte* shared_ = nullptr;             // reserved in op.outbox, for all receivers
  std::vector<const std::byte*> messages_;  // of op.from, where the op has parts
  std::vector<const void*> operands_;       // of the reduction; kept for its capacity
  std::vector<Loan> loans_;
};

}  // namespace tutti
