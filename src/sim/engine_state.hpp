// The state of the engine (engine.hpp): its lanes, its cores, and the events to come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/sim/workload.hpp"

namespace tutti::sim {

/// A lane of a member, as far as it has come.
struct LaneState {
  const LaneProgram* program = nullptr;
  int32_t member = 0, firstEdge = 0;
  int32_t ofChannel = 0;  // which of its channel's
  int32_t loop = 0;
  uint32_t step = 0;
  int32_t unread = 0;     // messages that receivers have to read where they lie
  double readAt = 0;      // when the last of those that are read was
  double clock = 0;       // when it was done with what it has done
  int64_t waitsFor = -1;  // FIFO that a step was not ready for
  int32_t waitEdge = -1;  // whose it is; -1: it is ready, or waits for no message
  int32_t lastRecord = -1;
  bool launched = false;  // has paid for the call
};

/// A core and who is on it.
struct CoreState {
  std::vector<int32_t> members;
  size_t current = 0;
  double clock = 0, busyUs = 0, queuedAt = kNever;
  bool idle = false;
};

/// Something that is to happen.
struct Happening {
  double at;
  int32_t what;  // core whose turn it is; -1 - w: event w of the wires
  uint32_t version;
  bool operator>(const Happening& o) const { return at > o.at || (at == o.at && what > o.what); }
};

}  // namespace tutti::sim
