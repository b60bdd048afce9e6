// Which values of a lane are still needed, for passes that drop stores or reuse memory.
#pragma once

#include <vector>

#include "src/schedule/schedule.hpp"

namespace tutti {

struct OpLiveness {
  bool dstLive = false;          // somebody reads what the op stores, or it is a result
  std::vector<bool> sourceDies;  // [source]: nobody reads this value after the op
};

/// One entry per op of the lane.  The memory of Output is live at the end.
std::vector<OpLiveness> livenessOf(const Schedule& schedule, const Lane& lane);

}  // namespace tutti
