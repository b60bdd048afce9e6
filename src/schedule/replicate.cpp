#include "src/base/assert.hpp"
#include "src/schedule/passes.hpp"

namespace tutti {

Schedule replicate(const Schedule& schedule, int nChannels) {
  TUTTI_ASSERT_CMP(nChannels, >=, 1);
  Schedule result = schedule;
  result.lanes.clear();
  for (int channel = 0; channel < nChannels; ++channel) {
    const auto shifted = [&](Chunk c) {
      return c.buffer == Buffer::Scratch ? scratch(c.index + channel * schedule.nScratch) : c;
    };
    for (Lane lane : schedule.lanes) {
      for (Op& op : lane.ops) {
        op.dst = shifted(op.dst);
        for (Chunk& source : op.sources) source = shifted(source);
      }
      result.lanes.push_back(std::move(lane));
    }
  }
  result.nScratch = schedule.nScratch * nChannels;
  result.nChannels = schedule.nChannels * nChannels;
  return result;
}

}  // namespace tutti
