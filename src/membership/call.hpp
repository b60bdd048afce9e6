// What a rank has called when it votes, and what follows where ranks differ.  Data and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.hpp"

namespace tutti {

struct Decision;

/// A call that makes a communicator from one, with the arguments that the other ranks need; or the end of collectives
/// that all finish or none does (src/comm/retry.hpp).
struct MembershipCall {
  enum class Kind : uint8_t { None, Split, Shrink, Grow, Finish };
  Kind kind = Kind::None;
  bool anew = false;           // shrink: this rank has nothing yet that it could be content with
  bool aborts = false;         // shrink: the parent has failed or is in use
  int32_t color = 0, key = 0;  // split; color < 0: takes part only
  int32_t nRanks = 0;          // grow: of the child; finish: 1: this rank has finished, 0: it has an error
  // split: the control address of this rank's Session for the child, empty: that of the parent; grow: the unique id,
  // sealed, if this rank has it; shrink: why this rank could not join, empty: content; finish: which group of
  // collectives
  std::string text{};
  bool operator==(const MembershipCall&) const = default;
};
/// Of a text.
inline constexpr size_t kMaxCallBytes = 1024;

/// Whether all ranks that go on have called this.
bool allCalled(const Decision& decision, MembershipCall::Kind kind);
/// What all ranks say of a decision in which not all have made the same call.  Precondition: they have not.
Status disagreement(const Decision& decision);
/// ok if all ranks of the communicator are there and have made the same call, else the same sentence on all ranks.
/// Errors: InvalidUsage: the calls differ; RemoteError: a rank has died, left or been excluded.
Status unanimous(const Decision& decision);

/// Ranks of the parent that form a child, by their rank in it.
std::vector<int> splitMembers(const Decision& decision, int color);
/// The one rank that has passed the unique id.  Errors: InvalidUsage: none has, or several.
Result<int> growRoot(const Decision& decision);

}  // namespace tutti
