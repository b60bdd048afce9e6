// Results compared among ranks (TUTTI_CHECK_RESULTS): every k-th call whose result is the same on all of them.
//
// What checks a link finds on the link is repaired there; this finds what no link sees: memory that changes its bits, a
// core that computes wrongly, damage inside a host's shared memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/collective/call.hpp"
#include "src/control/session/session.hpp"

namespace tutti {

/// Of one communicator on the host, with the turn.  Ranks must have set it alike, so that they compare the same calls.
class ResultChecks {
 public:
  /// As TUTTI_CHECK_RESULTS says; null: nothing is compared.  anyCuda: of the ranks, some are on devices.  Errors:
  /// InvalidUsage.
  static Result<std::unique_ptr<ResultChecks>> fromConfig(Control& control, bool anyCuda);
  /// every: 1 compares all such calls.
  ResultChecks(Control& control, int every) : control_(control), every_(every) {}

  /// The call has just ended: whether it is to be compared.  Counts those that can be.
  bool due(const Call& call);
  /// Tell the others what this rank has got.
  void begin(const Call& call, uint64_t sequence);
  bool running() const { return gather_ != nullptr; }
  /// True once all have told theirs.  Errors: RemoteError: they differ; names the rank that does, where that can be
  /// known.
  Result<bool> poll();

 private:
  Control& control_;
  const int every_;
  int64_t counted_ = 0;
  std::string what_;
  std::vector<int> owners_;
  std::unique_ptr<Pending<Blobs>> gather_;
};

/// What is wrong with the results of ranks, each of which is the checksums of its parts, 4 bytes each: ok if all are
/// the same.
///   owners  of each part the rank that it comes from, which has it right; -1: the majority does
///   what    the call
Status compareResults(const Blobs& results, const std::vector<int>& owners, const std::string& what);

}  // namespace tutti
