// Comparisons without a round of messages, for ranks of one host: each rank lays its figures open in shared memory
// before a call, and reads those of the others before a later one.
//
// Most ranks wait for nobody: a call in which every rank gets something of every other ends when all have begun it.  A
// root that only sends waits until the others have come as far.  There is one comparison at a time: what has been told
// is heard before the next is told.  All ranks make the same calls in the same order, and so tell and hear before the
// same ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/status.hpp"
#include "src/collective/call.hpp"
#include "src/comm/links.hpp"

namespace tutti {

/// One of a communicator's.  By the thread that uses the endpoints.
class Comparison {
 public:
  /// links: borrowed; all ranks have boards.
  Comparison(Links& links, int rank) : links_(links), rank_(rank) {}

  /// The call whose figures have been told and not heard; null: there is none.  Valid until hear() gives figures.
  const Call* subject() const { return subject_ ? &*subject_ : nullptr; }
  /// Whether something was told before: boards are open.
  bool wasUsed() const { return number_ > 0; }
  /// Whether tell() may be called: opens boards.  Errors: as Links::openBoards().
  Result<bool> open() { return links_.openBoards(BoardUse::Figures); }
  /// Tells the others; after open(), while nothing is told.  figures: as many as theirs, at most kBoardBytes.
  Status tell(const Call& subject, const std::vector<uint64_t>& figures);
  /// The figures of all ranks, by rank; none as long as some have not come.  Errors: as Endpoint::receive().
  Result<std::optional<std::vector<uint64_t>>> hear();
  /// The rank that hear() waits for; -1: none.
  int waitingOn() const { return waitingOn_; }

 private:
  Links& links_;
  const int rank_;
  std::optional<Call> subject_;
  size_t nFigures_ = 0;
  std::vector<uint64_t> all_;  // by rank; of those that were heard
  int next_ = 0;               // the first that was not
  int waitingOn_ = -1;
  uint32_t number_ = 0;
};

}  // namespace tutti
