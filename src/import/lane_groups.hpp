// Which thread blocks share a lane.
//
// Lanes of our schedules share no chunk that one of them writes.  Thread blocks begin with a lane for each channel;
// channels that share a written chunk anywhere are one lane.
#pragma once

#include <vector>

#include "src/import/memory_map.hpp"

namespace tutti::foreign {

struct LaneGroups {
  std::vector<int> laneOf;  // by thread block
  int nLanes = 1;
};

/// At most `most` lanes: what is more is dealt out to them in turn.  All places of the program must be in range.
LaneGroups groupLanes(const Program& program, const MemoryMap& memory, int most);

}  // namespace tutti::foreign
