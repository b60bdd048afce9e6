#include "src/recorder/flight_recorder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/recorder/dump_signal.hpp"
#include "src/recorder/record_paths.hpp"

namespace tutti {
namespace {

// 16 KiB of memory a communicator, as a ring that leaves the nearest cache makes short calls slower; 16 MiB of a file.
constexpr uint64_t kRingRecords = 128;
constexpr uint64_t kTraceRecords = uint64_t{1} << 17;

/// The whole of it, cut where it must be.
template <size_t bytes>
void putText(const std::string& text, char (&out)[bytes]) {
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), length);
  std::memset(out + length, 0, bytes - length);
}

bool writeAll(int fd, const void* data, size_t bytes) noexcept {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

Result<uint64_t> numRecords(bool traces) {
  TUTTI_ASSIGN(const int64_t wanted, configInteger("TUTTI_RECORD_CALLS"));
  if (wanted == 0) return traces ? kTraceRecords : kRingRecords;
  return std::bit_ceil(static_cast<uint64_t>(wanted));
}

}  // namespace

bool FlightRecorder::Slot::read(Record* out) const noexcept {
  out->number = number.load(std::memory_order_acquire);
  if (out->number == 0) return false;
  out->head = head.load(std::memory_order_acquire);
  out->count = count.load(std::memory_order_acquire);
  out->bytes = bytes.load(std::memory_order_acquire);
  out->enqueuedNs = static_cast<int64_t>(enqueuedNs.load(std::memory_order_acquire));
  out->startedNs = static_cast<int64_t>(startedNs.load(std::memory_order_acquire));
  out->endedNs = static_cast<int64_t>(endedNs.load(std::memory_order_acquire));
  out->detail = detail.load(std::memory_order_acquire);
  return number.load(std::memory_order_relaxed) == out->number;
}

void FlightRecorder::Slot::startExactly(int64_t now) {
  const uint64_t was = detail.load(std::memory_order_relaxed);
  if ((was & kCoarseBit) == 0) return;
  startedNs.store(static_cast<uint64_t>(now), std::memory_order_release);
  detail.store(was & ~kCoarseBit, std::memory_order_release);
}

FlightRecorder::~FlightRecorder() {
  forgetRecorder(this);
  if (!traces_ || !memory_) return;
  memory_.header()->writtenNs = nowNs();
  const uint64_t room = mask_ + 1;
  const uint64_t kept = std::min(entered_.load(), room) + std::min(messages_, room);
  const uint64_t number = number_.load();
  if (kept < number)
    TUTTI_WARN("trace", tracePath_, " has the newest ", kept, " of ", number,
               " calls: TUTTI_RECORD_CALLS=", std::bit_ceil(number), " keeps them all");
}

Status FlightRecorder::open(const RecorderIdentity& identity) {
  identity_ = identity;
  const std::string trace = configText("TUTTI_TRACE");
  const std::string dumps = configText("TUTTI_DUMP");
  traces_ = !trace.empty();
  TUTTI_ASSIGN(const uint64_t records, numRecords(traces_));
  if (traces_) {
    TUTTI_ASSIGN(tracePath_, recordPath("TUTTI_TRACE", trace, ".trace", identity));
    TUTTI_ASSIGN(memory_, RecordMemory::inFile(tracePath_, 2 * records));
  } else {
    TUTTI_ASSIGN(memory_, RecordMemory::inPages(2 * records));
  }
  mask_ = records - 1;
  collectives_ = static_cast<Slot*>(memory_.records());
  messageSlots_ = collectives_ + records;
  fillHeader(identity);
  look();
  dumpsFailures_ = !dumps.empty();
  dumpPath_ = recordName(".", ".dump", identity);
  if (dumpsFailures_) {
    TUTTI_ASSIGN(dumpPath_, recordPath("TUTTI_DUMP", dumps, ".dump", identity));
  }
  return dumpOnSignal(this);
}

void FlightRecorder::fillHeader(const RecorderIdentity& identity) {
  FileHeader& header = *memory_.header();
  std::memcpy(header.magic, kRecordMagic, sizeof header.magic);
  header.version = kRecordVersion;
  header.headerBytes = sizeof(FileHeader);
  header.recordBytes = sizeof(Record);
  header.rank = identity.rank;
  header.nRanks = identity.nRanks;
  header.pid = getpid();
  header.communicator = identity.communicator;
  header.hostId = identity.hostId;
  header.wallNs = wallClockAheadNs();
  header.waitingOn = -1;
  putText(thisHost(), header.host);
  putText(identity.name, header.name);
}

FileHeader FlightRecorder::headerNow(const char* reason) const noexcept {
  FileHeader header = *memory_.header();
  header.writtenNs = nowNs();
  header.wallNs = wallClockAheadNs();
  header.waitingOn = place().inside || messages_ > 0 ? waitingOn() : -1;
  const size_t length = std::min(std::strlen(reason), sizeof header.reason - 1);
  std::memcpy(header.reason, reason, length);
  header.reason[length] = 0;
  return header;
}

void FlightRecorder::waits() {
  Slot* const newest = newest_.load(std::memory_order_relaxed);
  if (newest == nullptr) return;
  endsExactly_ = true;
  newest->startExactly(look());
}

uint32_t FlightRecorder::indexOf(std::string_view algorithm) {
  FileHeader& header = *memory_.header();
  const std::string_view name = algorithm.substr(0, kAlgorithmBytes - 1);
  for (uint32_t i = 0; i < header.numAlgorithms; ++i) {
    if (name == header.algorithms[i]) return i + 1;
  }
  if (header.numAlgorithms == kMostAlgorithms) return 0;
  std::memcpy(header.algorithms[header.numAlgorithms], name.data(), name.size());
  return ++header.numAlgorithms;
}

void FlightRecorder::waitFor(int rank) {
  waitingOn_.store(rank, std::memory_order_relaxed);
  if (traces_) std::atomic_ref(memory_.header()->waitingOn).store(rank, std::memory_order_relaxed);
}

std::vector<std::pair<uint64_t, Fingerprint>> FlightRecorder::recent() const {
  std::vector<std::pair<uint64_t, Fingerprint>> calls;
  const uint64_t last = entered_.load(std::memory_order_acquire);
  const uint64_t most = last == 0 ? 0 : std::min(kRecent, mask_ + 1);
  for (uint64_t sequence = last >= most ? last - most + 1 : 1; sequence <= last; ++sequence) {
    Record record;
    if (!collectives_[sequence & mask_].read(&record)) continue;
    const Fingerprint call{record.head, record.count};
    if (partsOf(call).sequence == (sequence & 0xffffff)) calls.emplace_back(sequence, call);
  }
  return calls;
}

std::optional<Record> FlightRecorder::underWay() const {
  const Slot* const newest = newest_.load(std::memory_order_acquire);
  Record record;
  if (newest == nullptr || !newest->read(&record) || record.endedNs != 0) return {};
  return record;
}

int FlightRecorder::write(const char* path, const char* reason) const noexcept {
  char part[PATH_MAX];
  const size_t length = std::strlen(path);
  constexpr char kEnd[] = ".part";
  if (length + sizeof kEnd > sizeof part) return ENAMETOOLONG;
  std::memcpy(part, path, length);
  std::memcpy(part + length, kEnd, sizeof kEnd);
  const int fd = ::open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return errno;
  const FileHeader header = headerNow(reason);
  bool good = writeAll(fd, &header, sizeof header);
  Record batch[32];
  size_t filled = 0;
  for (uint64_t i = 0; good && i < 2 * (mask_ + 1); ++i) {
    if (collectives_[i].read(&batch[filled])) ++filled;
    if (filled < std::size(batch)) continue;
    good = writeAll(fd, batch, sizeof batch);
    filled = 0;
  }
  good = good && writeAll(fd, batch, filled * sizeof(Record));
  int error = good ? 0 : errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(part, path) != 0) error = errno;
  if (error != 0) (void)unlink(part);
  return error;
}

Status FlightRecorder::dump(const std::string& path, const std::string& reason) {
  const std::string& file = path.empty() ? dumpPath_ : path;
  const int error = write(file.c_str(), reason.c_str());
  if (error != 0)
    return systemError(ErrorCode::RecordNotWritten, "cannot write the flight record ", file, ": ",
                       std::strerror(error));
  TUTTI_INFO("trace", "rank ", identity_.rank, ": flight record in ", file);
  return {};
}

std::string FlightRecorder::pathIn(const std::string& folder) const { return recordName(folder, ".dump", identity_); }

void FlightRecorder::noteFailure(const std::string& reason) {
  putText(reason, memory_.header()->reason);
  memory_.header()->failed = 1;
  memory_.header()->writtenNs = nowNs();
}

}  // namespace tutti
