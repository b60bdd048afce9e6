// Requests for the planner that do not depend on the machine the test runs on.
#pragma once

#include "src/plan/planner.hpp"
#include "transport/shm/entry.hpp"
#include "transport/table.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti::test {

inline constexpr size_t kMiB = 1024 * 1024;

inline Calibration figures() {
  Calibration c = defaultCalibration({"test cpu", 8, "test"}, linkKinds());
  c.at(kTcpRemote, Protocol::Slots).cost = {20, 1.2};
  return c;
}

/// `nodes` of `perNode` ranks, joined by shm inside and tcp between.
inline PlanRequest request(Collective collective, int nodes, int perNode, size_t bytes) {
  PlanRequest r;
  r.shape = {.collective = collective, .nRanks = nodes * perNode, .bytes = bytes};
  if (perNode > 1) r.links.intra = kShmProcesses;
  if (nodes > 1) {
    r.links.inter = kTcpRemote;
    for (int i = 0; i < nodes * perNode; ++i) r.shape.nodeOf.push_back(i / perNode);
  }
  r.mostChannels = 8;
  return r;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace tutti::test
