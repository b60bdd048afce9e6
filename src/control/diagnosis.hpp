// The diagnosis of a wait: who is to blame, a pure function of what every rank says of itself.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "src/control/bootstrap_node.hpp"
#include "src/control/wire.hpp"

namespace tutti {

/// What a rank says when it is asked.
struct RankReport {
  RankState state;
  uint64_t gathers = 0;  // control exchanges (gathers, agreements) entered, from 1; the one of joining does not count
  int32_t gatherWaitingOn = -1;  // the peer whose part of the current one is missing; -1 if none
  bool joined = true;            // up
  bool left = false;             // it has destroyed its communicator; the rest is as it was then
};

struct Question {
  InquiryReason reason = InquiryReason::Stalled;
  int origin = 0;         // who asks
  uint64_t sequence = 0;  // of the collective it waits in, 0 if none
  int suspect = -1;       // whom it waits for, as far as it knows
};

struct Diagnosis {
  std::optional<Failure> failure;
  /// False: a rank that has not answered yet, or not entered the call yet, might change it.
  bool certain = true;
};

/// reports: by rank; empty: no answer.  Pure.  The order of the checks:
///   different  at the earliest call at which two ranks differ, the odd one out by majority (both, if there is none)
///   deadlock   ranks that wait for each other for ever (deadlock.hpp)
///   left       a rank that destroyed its communicator before the call that others wait in
///   silent     a rank that does not answer            (not for Stalled)
///   absent     following who waits for whom, the first that waits for nobody and is behind  (not for Stalled)
/// For Deadline and Mismatch there always is a failure; its rank is -1 if none of this explains the wait.
Diagnosis diagnose(const Question& question, std::span<const std::optional<RankReport>> reports);

/// "AllReduce number 17 (count 4, float, sum)" if the rank still remembers its call number `sequence`, else
/// "collective number 17".
std::string describeSequence(const std::optional<RankReport>& report, uint64_t sequence);
/// What a rank is doing: "in AllReduce number 17 (...)", "joining", "between calls".
std::string describeState(const RankReport& report);
/// In what is told of a call elsewhere, before the rank that it waits for.
inline constexpr const char* kWhereItWaits = ", where it waits for rank ";
/// "Recv from rank 2 (message 0 of the pair, count 17, float)".
std::string describeMessage(const MessageWait& wait);
/// "3", "3 and 7", "1, 2, 3 and 9 more".
std::string listRanks(const std::vector<int>& ranks);
/// "rank 3", "ranks 3 and 7".
std::string nameRanks(const std::vector<int>& ranks);

void writeRankReport(Writer& out, const RankReport& report);
RankReport readRankReport(Reader& in);

}  // namespace tutti
