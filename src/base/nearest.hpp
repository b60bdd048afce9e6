// What somebody who mistyped a name is likely to have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tutti {

/// " (did you mean X?)" with the name nearest to `text`, for a message that has just quoted it; empty if none is near.
/// Near: the same but for case; one begins with the other; or at most a third of the letters are wrong, missing, too
/// many or swapped with their neighbour.
/// prefix  what all names begin with: it is not counted, as it would make any two alike
std::string didYouMean(std::string_view text, const std::vector<std::string>& names, std::string_view prefix = "");

/// "'allreduc' is not a collective (did you mean allreduce?); the collectives are allreduce, ..."
std::string notACollective(std::string_view text);

}  // namespace tutti
