// Traces made by hand: one rank's calls after another, with times that a test chooses.
#pragma once

#include <cstring>

#include "src/base/types.hpp"
#include "tools/trace/job.hpp"

namespace tutti::test {

class CannedRank {
 public:
  CannedRank(int rank, int nRanks, uint64_t communicator = 1, uint64_t host = 7) {
    trace_.header.rank = rank;
    trace_.header.nRanks = nRanks;
    trace_.header.communicator = communicator;
    trace_.header.hostId = host;
    trace_.header.pid = 100 + rank;
    trace_.header.writtenNs = 1'000'000'000;
    trace_.path = "canned";
    trace_.header.numAlgorithms = 1;
    std::strcpy(trace_.header.algorithms[0], "ring");
  }
  /// endNs 0: it is not over; negative: it failed then.
  CannedRank& collective(Collective kind, uint64_t count, int64_t startNs, int64_t endNs, uint32_t root = 0) {
    CallParts parts;
    parts.sequence = ++sequence_ & 0xffffff;
    parts.kind = static_cast<uint32_t>(kind);
    parts.dtype = tuttiFloat32;
    parts.root = root;
    parts.count = count;
    return add(parts, {.algorithm = 1}, startNs, endNs);
  }
  CannedRank& message(bool isSend, int peer, uint32_t number, uint64_t count, int64_t startNs, int64_t endNs) {
    CallParts parts;
    parts.sequence = number;
    parts.kind = kKindPointToPoint;
    parts.dtype = tuttiFloat32;
    parts.count = count;
    return add(parts, {.isSend = isSend, .peer = static_cast<uint32_t>(peer)}, startNs, endNs);
  }
  CannedRank& waitsFor(int peer) {
    trace_.header.waitingOn = peer;
    return *this;
  }
  CannedRank& skipTo(uint64_t sequence) {
    sequence_ = sequence;
    return *this;
  }
  FileHeader& header() { return trace_.header; }
  trace::RankTrace trace() const { return trace_; }

 private:
  CannedRank& add(const CallParts& parts, const RecordDetail& detail, int64_t startNs, int64_t endNs) {
    const Fingerprint call = makeFingerprint(parts);
    Record record;
    record.number = trace_.records.size() + 1;
    record.head = call.head;
    record.count = call.count;
    record.bytes = 4 * parts.count;
    record.startedNs = startNs;
    record.endedNs = endNs;
    record.detail = encodeDetail(detail) | record.number << kNumberShift;
    trace_.records.push_back(record);
    return *this;
  }
  trace::RankTrace trace_;
  uint64_t sequence_ = 0;
};

}  // namespace tutti::test
