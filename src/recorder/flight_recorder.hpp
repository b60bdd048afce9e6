// The flight recorder of one communicator: its last calls, always kept, for whoever asks what this rank has been doing.
//
// Two rings of records, one of collectives and one of messages, written by the thread that runs calls and read by any:
// the one that answers inquiries, one that dumps them into a file, a signal's handler.  Under TUTTI_TRACE the rings are
// the file itself.
//
// Reading the clock costs as much as a tenth of the shortest call.  So calls that are short and need not wait take the
// time of the last look at it: one that waited, one in 64, or the I/O thread's, every 15 ms while calls go on.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/text.hpp"
#include "src/collective/fingerprint.hpp"
#include "src/recorder/probes.hpp"
#include "src/recorder/record_memory.hpp"

namespace tutti {

/// What a record says of a call before it begins.
struct CallRecord {
  uint64_t bytes = 0;
  uint64_t detail = 0;  // encodeDetail()
  int64_t enqueuedNs = 0;
  bool exact = true;  // its times are worth a look at the clock each
};

/// Whose records they are.
struct RecorderIdentity {
  int rank = 0;
  int nRanks = 1;
  uint64_t communicator = 0;
  uint64_t hostId = 0;
  std::string name = {};
};

class FlightRecorder {
 public:
  FlightRecorder() = default;
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();

  /// Before the first call: takes its memory, and its files' names, as TUTTI_RECORD_CALLS, TUTTI_TRACE, TUTTI_DUMP and
  /// TUTTI_DUMP_SIGNAL say.  Errors: InvalidUsage: one of these; SystemError naming the file.
  Status open(const RecorderIdentity& identity);

  // By who has the turn.
  void enter(uint64_t sequence, const Fingerprint& call, const CallRecord& what) {
    begin(&collectives_[sequence & mask_], call, what);
    hash_ = (hash_ ^ call.head) * 0x9e3779b97f4a7c15 ^ call.count;
    if (openFrom_ == 0) openFrom_ = sequence;
    inside_.store(true, std::memory_order_relaxed);
    entered_.store(sequence, std::memory_order_release);  // pairs with place(): the record is there before its number
  }
  /// The collectives that were entered are over; not at all if there is none.
  void leave() { end(1); }
  /// Likewise, but they have failed.
  void fail() { end(-1); }
  /// A message that has begun.
  struct Message {
    uint64_t index = 0, number = 0;
  };
  Message beginMessage(const Fingerprint& call, const CallRecord& what) {
    const uint64_t index = ++messages_;
    begin(&messageSlots_[index & mask_], call, what);
    return {index, number_.load(std::memory_order_relaxed)};
  }
  void endMessage(const Message& message, bool failed = false) {
    Slot& slot = messageSlots_[message.index & mask_];
    if (slot.number.load(std::memory_order_relaxed) != message.number) return;  // many more have begun since
    const int64_t now = endTime();
    slot.endedNs.store(static_cast<uint64_t>(failed ? -now : now), std::memory_order_release);
    TUTTI_PROBE_END(identity_.communicator, message.number, failed);
  }
  /// The newest call has begun to wait: it gets exact times after all.
  void waits();
  /// Its index in the file, of a record's algorithm; 0: there are too many.
  uint32_t indexOf(std::string_view algorithm);
  /// All collectives so far, as one text that ranks can compare.
  std::string digest() const { return cat(entered_.load(std::memory_order_relaxed), "/", hash_); }
  /// A checksum of all collectives so far.  Who has the turn.
  uint64_t history() const { return hash_; }
  /// Whether every call's times are to be exact.
  bool traces() const { return traces_; }

  // Any thread.
  /// A look at the clock, for calls that take none.
  int64_t look() {
    const int64_t now = nowNs();
    clock_.store(now, std::memory_order_relaxed);
    return now;
  }
  void waitFor(int rank);
  int waitingOn() const { return waitingOn_.load(std::memory_order_relaxed); }
  /// The newest collective, and whether this rank is in it.  If not inside, every one up to `entered` is over.
  struct Place {
    uint64_t entered = 0;
    bool inside = false;
  };
  Place place() const {
    const uint64_t before = entered_.load(std::memory_order_acquire);
    const bool inside = inside_.load(std::memory_order_acquire);  // partner: end()
    return {before, inside || entered_.load(std::memory_order_relaxed) != before};
  }
  /// The last collectives, as far as they are whole; newest last.
  std::vector<std::pair<uint64_t, Fingerprint>> recent() const;
  /// What a monitor asks for.
  struct Totals {
    uint64_t calls = 0, bytes = 0;
  };
  Totals totals() const { return {number_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)}; }
  /// The call that has begun last, if it is not over.
  std::optional<Record> underWay() const;
  /// Not to be written.
  const FileHeader& header() const { return *memory_.header(); }

  /// Writes what there is into a file, at once.  path: "": dumpPath().  Errors: SystemError naming the file.
  Status dump(const std::string& path, const std::string& reason);
  /// The same, from a signal's handler: 0 or errno.
  int write(const char* path, const char* reason) const noexcept;
  /// In `folder`, or where dumps go by themselves.
  std::string pathIn(const std::string& folder) const;
  const std::string& dumpPath() const { return dumpPath_; }
  /// Whether a failure is to be dumped.
  bool dumpsFailures() const { return dumpsFailures_; }
  /// Notes what broke the communicator: in the trace, if there is one, and for later dumps.
  void noteFailure(const std::string& reason);

 private:
  static constexpr uint64_t kRecent = 64;
  static constexpr uint64_t kCallsPerLook = 64;
  /// A Record that one thread writes while others read it.
  struct alignas(64) Slot {
    std::atomic<uint64_t> number, head, count, bytes, enqueuedNs, startedNs, endedNs, detail;

    void begin(uint64_t newNumber, const Fingerprint& call, const CallRecord& what, int64_t now) {
      number.store(0, std::memory_order_relaxed);  // a reader in between sees no such record
      // Release, for the acquire in read(): who sees a word of the new call sees the 0 above, too.
      head.store(call.head, std::memory_order_release);
      count.store(call.count, std::memory_order_release);
      bytes.store(what.bytes, std::memory_order_release);
      enqueuedNs.store(static_cast<uint64_t>(what.enqueuedNs), std::memory_order_release);
      startedNs.store(static_cast<uint64_t>(now), std::memory_order_release);
      endedNs.store(0, std::memory_order_release);
      detail.store(what.detail | newNumber << kNumberShift, std::memory_order_release);
      number.store(newNumber, std::memory_order_release);
    }
    /// False: it was none, or was being written.
    bool read(Record* out) const noexcept;
    /// Its start was a guess.
    void startExactly(int64_t now);
  };
  static_assert(sizeof(Slot) == sizeof(Record) && std::atomic<uint64_t>::is_always_lock_free);

  void begin(Slot* slot, const Fingerprint& call, const CallRecord& what) {
    const uint64_t number = number_.load(std::memory_order_relaxed) + 1;
    number_.store(number, std::memory_order_relaxed);
    TUTTI_PROBE_BEGIN(identity_.communicator, call.head, call.count, what.bytes);
    const bool looks = what.exact || number % kCallsPerLook == 0;
    slot->begin(number, call, what, looks ? look() : clock_.load(std::memory_order_relaxed));
    newest_.store(slot, std::memory_order_release);  // pairs with underWay()
    endsExactly_ = what.exact;
    bytes_.store(bytes_.load(std::memory_order_relaxed) + what.bytes, std::memory_order_relaxed);
  }
  int64_t endTime() { return endsExactly_ ? look() : clock_.load(std::memory_order_relaxed); }
  void end(int64_t sign) {
    if (openFrom_ != 0) {
      const int64_t now = endTime();
      const uint64_t last = entered_.load(std::memory_order_relaxed);
      for (; openFrom_ <= last; ++openFrom_)
        collectives_[openFrom_ & mask_].endedNs.store(static_cast<uint64_t>(sign * now), std::memory_order_release);
      openFrom_ = 0;
      TUTTI_PROBE_END(identity_.communicator, number_.load(std::memory_order_relaxed), sign < 0);
    }
    inside_.store(false, std::memory_order_release);
  }
  void fillHeader(const RecorderIdentity& identity);
  FileHeader headerNow(const char* reason) const noexcept;

  RecordMemory memory_;
  Slot* collectives_ = nullptr;   // by sequence, modulo their number
  Slot* messageSlots_ = nullptr;  // in their order
  uint64_t mask_ = 0;             // their number less 1: a power of two
  bool traces_ = false;
  bool dumpsFailures_ = false;
  std::string dumpPath_, tracePath_;
  RecorderIdentity identity_;

  uint64_t messages_ = 0, hash_ = 0;
  uint64_t openFrom_ = 0;               // the first collective that is not over; 0: all are
  std::atomic<Slot*> newest_{nullptr};  // what has begun last
  bool endsExactly_ = false;
  std::atomic<uint64_t> entered_{0};
  std::atomic<uint64_t> number_{0}, bytes_{0};  // of all calls
  std::atomic<bool> inside_{false};
  std::atomic<int> waitingOn_{-1};
  std::atomic<int64_t> clock_{0};
};

}  // namespace tutti
