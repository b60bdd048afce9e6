// Ranks of a communicator that are processes.
#pragma once

#include <string>

#include "tests/support/processes.hpp"
#include "tests/support/ranks.hpp"

namespace tutti::test {

/// `body` on ranks that are processes; "" or which of them did not end well.
inline std::string inProcesses(int nRanks, const RankBody& body) {
  const auto rank = [&](int r, const UniqueIds& ids) {
    const tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    return asRank(r, nRanks, ids[0], config, body);
  };
  return unlessEnded(onProcesses(nRanks, rank), [](int) { return false; });
}

}  // namespace tutti::test
