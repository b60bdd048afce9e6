// What a lane has lent: memory of posted sends that peers may still be reading.
#include <algorithm>

#include "src/exec/lane_run.hpp"

namespace tutti {

// Whether peers are done reading what the op writes: the same chunk, and scratch in any slice.
Result<bool> LaneRun::loansReturned(const BoundOp& op) {
  if (op.parts.empty()) return loansReturned(op.dst);
  for (const BoundPart& part : op.parts) {
    if (!part.hasDst) continue;
    TUTTI_ASSIGN(const bool returned, loansReturned(part.dst));
    if (!returned) return false;
  }
  return true;
}

Result<bool> LaneRun::loansReturned(const Operand& dst) {
  for (size_t i = 0; i < loans_.size();) {
    const Loan& loan = loans_[i];
    const bool sameSlice = loan.slice == slice_ || loan.memory.buffer == Buffer::Scratch;
    if (!dst.covers(loan.memory) || !sameSlice) {
      ++i;
      continue;
    }
    waitingOn_ = loan.rank;
    TUTTI_ASSIGN(const bool taken, loan.endpoint->test(loan.request));
    if (!taken) return false;
    loans_.erase(loans_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return true;
}

// Room in the list: no endpoint has more messages under way than it has slots, so most have been taken by then.
Status LaneRun::forgetReturned() {
  size_t kept = 0;
  for (const Loan& loan : loans_) {
    TUTTI_ASSIGN(const bool taken, loan.endpoint->test(loan.request));
    if (!taken) loans_[kept++] = loan;
  }
  loans_.erase(loans_.begin() + static_cast<std::ptrdiff_t>(kept), loans_.end());
  return {};
}

Result<bool> LaneRun::allLoansReturned() {
  size_t returned = 0;
  for (; returned < loans_.size(); ++returned) {
    waitingOn_ = loans_[returned].rank;
    TUTTI_ASSIGN(const bool taken, loans_[returned].endpoint->test(loans_[returned].request));
    if (!taken) break;
  }
  loans_.erase(loans_.begin(), loans_.begin() + static_cast<std::ptrdiff_t>(returned));
  return loans_.empty();
}

void LaneRun::withdraw() {
  for (const Loan& loan : loans_) loan.endpoint->cancel();
  loans_.clear();
}

}  // namespace tutti
