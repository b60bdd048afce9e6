// The passes that a test wants to have applied to all ranks' schedules, in the order that src/schedule asks for.
#pragma once

#include <string>
#include <vector>

#include "src/base/text.hpp"
#include "src/schedule/passes.hpp"

namespace tutti::test {

struct Passes {
  bool reproducible = false;
  bool fused = true;
  int nChannels = 1;
  bool staggered = false;
  bool direct = false;
  bool origins = true;  // needed where chunks differ in size
};

inline std::vector<Schedule> rewrite(std::vector<Schedule> schedules, const Passes& passes) {
  if (passes.reproducible) schedules = makeReproducible(schedules);
  for (Schedule& s : schedules) {
    if (passes.fused) s = fuse(s);
  }
  if (passes.origins) schedules = markOrigins(schedules);
  for (Schedule& s : schedules) {
    if (passes.nChannels > 1) s = replicate(s, passes.nChannels);
    s.staggered = passes.staggered;
  }
  return passes.direct ? markDirect(schedules) : schedules;
}

inline int slotsNeeded(const std::vector<Schedule>& schedules) {
  int most = 1;
  for (const Schedule& s : schedules) most = std::max(most, s.slotsNeeded);
  return most;
}

inline std::string describe(const Passes& p) {
  return cat(p.reproducible ? "reproducible, " : "", p.fused ? "fused, " : "", p.nChannels,
             p.staggered ? " channels that start apart" : " channels", p.direct ? ", direct" : "");
}

}  // namespace tutti::test
