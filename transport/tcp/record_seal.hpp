// What proves the records of a ResumableStream to be the peer's, and hides them where that is asked for: AES-256-GCM
// over each, with the keys that the stream's first connection made.
//
// A data record is named by its place in the stream, and every place begins one record at most: what is sent again on
// another connection is the very same record, and one that is repeated or put elsewhere is at the wrong place.  Other
// records carry a number that counts up through all connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "src/base/gcm.hpp"
#include "src/base/secret.hpp"

namespace tutti::tcp {

/// What the bytes of tcp connections are under.
enum class Protection : uint8_t { Checksums, Tags, Encryption };

/// One thread.
class RecordSeal {
 public:
  /// Precondition: Gcm::available().
  RecordSeal(const DirectionKeys& keys, bool encrypts)
      : encrypts_(encrypts), send_(keys.send), receive_(keys.receive) {}

  // ---- Sending
  void beginData(uint64_t position, uint64_t consumed) { begin(position, consumed, &send_, true); }
  /// Puts bytes of the record where they are kept, as they will travel.
  void put(std::byte* dst, const std::byte* src, size_t bytes);
  Gcm::Tag endData() { return send_.endSeal(); }
  /// The number of the next record without data.
  uint32_t nextNumber() { return ++sent_; }
  Gcm::Tag sealControl(std::span<const std::byte> head, uint32_t number);

  // ---- Receiving
  void beginOpen(uint64_t position, uint64_t consumed) { begin(position, consumed, &receive_, false); }
  /// Makes bytes of the record, where they have come to, what they were.
  void open(std::byte* bytes, size_t n);
  bool endOpen(const Gcm::Tag& tag) { return receive_.endOpen(tag); }
  /// Also false for a number that is not higher than all before.
  bool openControl(std::span<const std::byte> head, uint32_t number, const Gcm::Tag& tag);

 private:
  static void begin(uint64_t position, uint64_t consumed, Gcm* gcm, bool seals);

  const bool encrypts_;
  Gcm send_, receive_;
  uint32_t sent_ = 0, received_ = 0;
};

}  // namespace tutti::tcp
