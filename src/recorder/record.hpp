// The file of a flight recorder, byte by byte: a header of 4096 bytes, then records of 64.  docs/diagnosis.md has the
// same as a table.
//
// All numbers are little endian.  Records lie in no order, and those with number 0 are none: a file may be the memory
// of a process that was killed while it wrote one.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

/// One call, as one rank saw it.
struct Record {
  uint64_t number = 0;     // of this rank's calls on the communicator, from 1; 0: no record, or one being written
  uint64_t head = 0;       // Fingerprint (src/collective/fingerprint.hpp): sequence, kind, type, operator, root
  uint64_t count = 0;      // Fingerprint: elements; of v forms a checksum of the counts that all ranks know
  uint64_t bytes = 0;      // of the larger of this rank's buffers
  int64_t enqueuedNs = 0;  // CLOCK_MONOTONIC when the program made the call; 0: as startedNs
  int64_t startedNs = 0;   // when it was carried out
  int64_t endedNs = 0;     // when it was over; 0: it is not; negative: it failed then
  uint64_t detail = 0;     // RecordDetail
};
static_assert(sizeof(Record) == 64);

/// Record::detail taken apart.
struct RecordDetail {
  uint32_t algorithm = 0;  // 8 bits: 0: none known, else FileHeader::algorithms[algorithm - 1]
  uint32_t protocol = 0;   // 2 bits: 0: none known, 1 inline, 2 slots, 3 direct
  uint32_t nChannels = 0;  // 8 bits
  bool isSend = false;     // of a message; a receive else
  bool coarse = false;     // its times are as good as the last look at the clock: some ms
  uint32_t peer = 0;       // 24 bits: of a message
};
inline constexpr int kNumberShift = 44;  // above them, the low 20 bits of Record::number

inline uint64_t encodeDetail(const RecordDetail& d) {
  return uint64_t{d.algorithm & 0xff} | uint64_t{d.protocol & 3} << 8 | uint64_t{d.nChannels & 0xff} << 10 |
         uint64_t{d.isSend} << 18 | uint64_t{d.coarse} << 19 | uint64_t{d.peer & 0xffffff} << 20;
}
inline RecordDetail decodeDetail(uint64_t detail) {
  RecordDetail d;
  d.algorithm = detail & 0xff;
  d.protocol = detail >> 8 & 3;
  d.nChannels = detail >> 10 & 0xff;
  d.isSend = (detail >> 18 & 1) != 0;
  d.coarse = (detail >> 19 & 1) != 0;
  d.peer = detail >> 20 & 0xffffff;
  return d;
}
inline constexpr uint64_t kCoarseBit = uint64_t{1} << 19;
/// Whether all words of a record are of one call, where nobody could say so while they were copied.
inline bool isWhole(const Record& r) { return r.number != 0 && r.detail >> kNumberShift == (r.number & 0xfffff); }

inline constexpr char kRecordMagic[8] = {'T', 'U', 'T', 'T', 'I', 'R', 'E', 'C'};
inline constexpr uint32_t kRecordVersion = 1;
inline constexpr size_t kMostAlgorithms = 104;
inline constexpr size_t kAlgorithmBytes = 32;

/// Texts end with a zero.
struct FileHeader {
  char magic[8] = {};
  uint32_t version = 0;
  uint32_t headerBytes = 0;
  uint32_t recordBytes = 0;
  int32_t rank = 0;
  int32_t nRanks = 0;
  int32_t pid = 0;
  uint64_t communicator = 0;  // the same on all ranks of a communicator, and on no other
  uint64_t hostId = 0;        // equal: the clocks of two files are one
  int64_t wallNs = 0;         // CLOCK_REALTIME minus CLOCK_MONOTONIC
  int64_t writtenNs = 0;      // CLOCK_MONOTONIC; 0: the process ended before it could say when
  int32_t waitingOn = -1;     // the rank that it waited for when last looked at, -1: none
  uint32_t numAlgorithms = 0;
  char host[64] = {};
  char name[64] = {};     // of the communicator (config.commName)
  char reason[512] = {};  // why it was written, or what broke the communicator
  uint32_t failed = 0;    // 1: the communicator had failed
  char unused[52] = {};
  char algorithms[kMostAlgorithms][kAlgorithmBytes] = {};
};
static_assert(sizeof(FileHeader) == 4096);

}  // namespace tutti
