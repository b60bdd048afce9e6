// Files of flight recorders (src/recorder/record.hpp), read.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/collective/fingerprint.hpp"
#include "src/recorder/record.hpp"

namespace tutti::trace {

/// What one rank has recorded of one communicator.
struct RankTrace {
  std::string path;
  FileHeader header;
  std::vector<Record> records;  // in the order in which the rank made the calls
};

/// Errors: InvalidUsage: it cannot be read, or is no such file; the sentence names the file.
Result<RankTrace> readTrace(const std::string& path);

/// Of files, and of folders all *.trace and *.dump in them.  Of several with the same rank and communicator the records
/// are put together, and the header is that of the newest.
/// Errors: as readTrace(); InvalidUsage: there is none.
Result<std::vector<RankTrace>> readTraces(const std::vector<std::string>& paths);

inline Fingerprint callOf(const Record& record) { return {record.head, record.count}; }
inline bool isMessage(const Record& record) { return partsOf(callOf(record)).kind == kKindPointToPoint; }
/// Not over, or ended by a failure.
inline bool isOpen(const Record& record) { return record.endedNs <= 0; }
/// When it was over or had failed; 0: neither.
inline int64_t endOf(const Record& record) { return record.endedNs < 0 ? -record.endedNs : record.endedNs; }
/// "ring", "" if it is not known.
std::string algorithmOf(const RankTrace& trace, const Record& record);
/// "AllReduce", "AllToAllv", "Send": as in the API.
std::string nameOf(const Record& record);

}  // namespace tutti::trace
