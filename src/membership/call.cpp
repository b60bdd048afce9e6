#include "src/membership/call.hpp"

#include <algorithm>

#include "src/base/text.hpp"
#include "src/membership/agreement.hpp"

namespace tutti {

namespace {

using Kind = MembershipCall::Kind;

std::string describe(const MembershipCall& call) {
  switch (call.kind) {
    case Kind::Split: return "tuttiCommSplit";
    case Kind::Shrink: return "tuttiCommShrink";
    case Kind::Grow: return cat("tuttiCommGrow to ", call.nRanks, " ranks");
    case Kind::Finish: return "collectives under TUTTI_RETRY";
    case Kind::None: break;
  }
  return "nothing";
}

bool same(const MembershipCall& a, const MembershipCall& b) { return a.kind == b.kind && a.nRanks == b.nRanks; }

const MembershipCall& callOf(const Decision& decision, int rank) { return decision.calls[static_cast<size_t>(rank)]; }

/// Of those that go on: the lowest rank, and the lowest that has called something else; -1: none has.
std::pair<int, int> firstDifference(const Decision& decision) {
  int first = -1;
  for (const int rank : membersAfter(decision, static_cast<int>(decision.calls.size()))) {
    if (first < 0) first = rank;
    if (!same(callOf(decision, rank), callOf(decision, first))) return {first, rank};
  }
  return {first, -1};
}

}  // namespace

bool allCalled(const Decision& decision, Kind kind) {
  const auto [first, other] = firstDifference(decision);
  return other < 0 && first >= 0 && callOf(decision, first).kind == kind;
}

Status disagreement(const Decision& decision) {
  const auto [first, other] = firstDifference(decision);
  return invalidUsage(ErrorCode::MembershipCallsDiffer, "rank ", first, " called ", describe(callOf(decision, first)),
                      " but rank ", other, " called ", describe(callOf(decision, other)),
                      " on this communicator; all of its ranks must make the same call with matching arguments");
}

Status unanimous(const Decision& decision) {
  if (firstDifference(decision).second >= 0) return disagreement(decision);
  if (decision.gone.empty()) return {};
  return remoteError(ErrorCode::RankGone, "rank ", decision.gone.front(),
                     " of this communicator has died, left or been excluded; shrink the communicator to go on");
}

std::vector<int> splitMembers(const Decision& decision, int color) {
  std::vector<int> members;
  for (size_t rank = 0; rank < decision.calls.size(); ++rank)
    if (decision.calls[rank].color == color) members.push_back(static_cast<int>(rank));
  std::stable_sort(members.begin(), members.end(),
                   [&](int a, int b) { return callOf(decision, a).key < callOf(decision, b).key; });
  return members;
}

Result<int> growRoot(const Decision& decision) {
  int root = -1;
  for (size_t rank = 0; rank < decision.calls.size(); ++rank) {
    if (decision.calls[rank].text.empty()) continue;
    if (root >= 0) {
      return invalidUsage(ErrorCode::MembershipCallsDiffer,
                          "more than one rank passed a uniqueId to tuttiCommGrow (ranks ", root, " and ", rank,
                          " did); one must");
    }
    root = static_cast<int>(rank);
  }
  if (root < 0)
    return invalidUsage(ErrorCode::MembershipCallsDiffer,
                        "no rank passed a uniqueId to tuttiCommGrow; one of the old ranks must");
  return root;
}

}  // namespace tutti
