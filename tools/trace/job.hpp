// Ranks' traces as one job: who is there, which calls belong together, and one clock for all hosts.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/trace/trace_file.hpp"

namespace tutti::trace {

/// All that there is of one communicator.
struct Communicator {
  uint64_t id = 0;
  std::string name;
  int nRanks = 0;
  std::vector<std::optional<RankTrace>> ranks;  // by rank; none: it has left no file
  /// [rank][sequence]: where in its records.  Sequences count on beyond the 24 bits that records have of them.
  std::vector<std::map<uint64_t, size_t>> collectives;

  /// Null: it has left no file, or no record of that call.
  const Record* find(int rank, uint64_t sequence) const;
  /// The newest collective that the rank has entered; 0: none.
  uint64_t newest(int rank) const;
  /// "communicator 'tp' (4 ranks)", or by its id.
  std::string title() const;
};

struct Job {
  std::vector<Communicator> communicators;  // largest first
  /// By host: what to add to its clock for that of the first.
  std::map<uint64_t, int64_t> offsetNs;
  /// By host: how far the offset may be off, where calls tell; -1: it is that of the hosts' wall clocks.
  std::map<uint64_t, int64_t> errorNs;

  /// On the one clock.
  int64_t timeNs(const RankTrace& trace, int64_t ns) const { return ns + offsetNs.at(trace.header.hostId); }
};

/// Errors: InvalidUsage: files of one communicator contradict each other.
Result<Job> makeJob(std::vector<RankTrace> traces);

/// Whether no rank can leave such a call before all have entered it.
bool synchronizes(const Record& record);

}  // namespace tutti::trace
