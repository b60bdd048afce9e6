// A byte stream in both directions that outlives the connection it travels on: a machine without I/O.
//
// Bytes travel in records that say where in the stream they stand and carry checksums.  A record stays here until the
// peer has consumed it, so that a new connection can begin where the peer's whole and undamaged records end.  What a
// connection loses or damages is sent again; nothing is given out twice.  A record that was cut goes on where it was
// cut, so that connections which last for a moment only get on, too.
//
//   record   magic 2 | kind 1 | 0 1 | payload bytes 4 | position 8 | consumed 8 | payload's CRC 4 | CRC of these 28 4
//            under a seal: a number instead of the payload's CRC, and a tag of 16 behind all (record_seal.hpp)
//   data     position: of the first payload byte
//   ack      nothing but what every record says: how much its sender has consumed
//   resume   the first record of every connection but the first; position: how much its sender has received; payload
//            bytes: how many bytes of the next record, its head among them, it keeps besides (it has no payload)
//   rest     position: of a record, of which the peer keeps so many bytes; those behind them follow without a head
//   bye      its sender needs nothing more: the connection's end is the peer's own
//
// Memory: up to windowBytes of each direction, and not much more than the peer has not consumed: what is used again
// soon stays in the caches, and its pages have been touched.  A writer never has more than that unconsumed, so that its
// peer has room for all of it, can read on to the acknowledgements behind it, and neither end ever waits for the other
// to read.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/fifo.hpp"
#include "src/base/status.hpp"
#include "transport/tcp/kept_ring.hpp"
#include "transport/tcp/record_seal.hpp"

namespace tutti::tcp {

inline constexpr size_t kRecordHeadBytes = 32;
inline constexpr size_t kSealedHeadBytes = kRecordHeadBytes + Gcm::kTagBytes;
inline constexpr size_t kMostRecordBytes = 128 << 10;
inline constexpr size_t kMostRecords = 4096;  // that one end keeps
/// A part of at least so many bytes has records of its own, so that its receiver can have them go straight to where
/// they are wanted.
inline constexpr size_t kLeastAloneBytes = 8 << 10;

/// One thread.
class ResumableStream {
 public:
  /// Both ends have the same window.  The first connection is there.
  /// seal: of both ends; null: checksums.
  explicit ResumableStream(size_t windowBytes, std::unique_ptr<RecordSeal> seal = nullptr);

  // ---- Sending

  /// Takes bytes of `parts` behind the first `skip`, as many as there is room for, but no further record from `most`
  /// on; how many.
  size_t write(std::span<const iovec> parts, size_t skip, size_t most = SIZE_MAX);
  /// Taken, ever; of these, those that a connection has had once; and those that the peer has consumed.
  uint64_t written() const { return written_; }
  uint64_t sent() const { return sentMost_; }
  uint64_t acknowledged() const { return acknowledged_; }
  /// What is to be written to the connection now, in this order; how many parts were filled in.
  size_t toSend(std::span<iovec> parts);
  /// So many bytes of that were written.
  void wasSent(size_t bytes);
  /// Say what we have consumed although nothing else is to be said.
  void probe() { ackDue_ = true; }
  /// Say bye behind everything else.
  void bye() { byeDue_ = true; }

  // ---- Receiving

  /// Where to put what comes from the connection; empty if the peer has sent more than it may.
  std::span<std::byte> room();
  /// Where to put what comes if the bytes behind those taken are wanted in `parts`: there, as far as a whole record
  /// fits, and in room(); how many of `to` were filled in (5 at least).  Without `parts`: as before.  From then on
  /// `parts` are borrowed until take() has given bytes, others are given here, abandon(), or disconnect().
  size_t aim(std::span<const iovec> parts, std::span<iovec> to);
  /// Nothing is borrowed any more, and what has come to it is lost: for a reader that has gone.  The connection is of
  /// no more use for receiving; the next one brings it again.
  void abandon() noexcept;
  /// So many bytes were put there.  Errors: RemoteError: they are damaged or no records; the connection must be ended.
  Status came(size_t bytes);
  /// Gives undamaged bytes out, by a copy where they have not come straight to `parts`; how many.
  size_t take(std::span<const iovec> parts);
  size_t available() const { return static_cast<size_t>(received_ - consumed_); }
  bool peerSaidBye() const { return peerSaidBye_; }
  uint64_t received() const { return received_; }

  // ---- Connections

  /// The connection has ended; its unfinished record is forgotten.
  void disconnect();
  /// There is a new one.
  void connect();
  /// Whether the peer has said where to go on; false on a new connection until then.
  bool resumed() const { return resumed_; }
  /// Bytes that a new connection had to carry again, ever.
  uint64_t resent() const { return resent_; }

  /// For tests: bytes of memory that sending takes; what must always hold.
  size_t ringBytes() const { return kept_.bytes(); }
  void check() const;

 private:
  enum class Kind : uint8_t { Data = 1, Ack = 2, Resume = 3, Bye = 4, Rest = 5 };
  using Head = std::array<std::byte, kSealedHeadBytes>;  // of which headBytes_ count
  struct Record {
    Head head;
    uint64_t position;
    uint32_t bytes;
  };
  /// A record on its way straight to the reader's memory.
  struct Straight {
    bool active = false;
    Head head{};
    std::array<iovec, 3> to{};
    uint32_t bytes = 0, got = 0;
    uint32_t crc = 0, wanted = 0;
  };
  struct Parsed {
    Kind kind;
    uint32_t bytes;
    uint64_t position, consumed;
    uint32_t payloadCrc;
  };
  static Head makeHead(Kind kind, uint32_t bytes, uint64_t position, uint64_t consumed, uint32_t payloadCrc);
  static uint32_t mostBytesOf(Kind kind);
  static Result<Parsed> parseHead(const std::byte* head);
  static Status damaged(uint32_t bytes, uint64_t position);
  Status parseAll(size_t bytes);
  Status onControl(const Parsed& record);
  Status join(const Parsed& rest);
  void keepCut();
  void beginRecord();
  uint32_t keep(std::byte* dst, const std::byte* src, size_t bytes, uint32_t crc);
  static void putTag(const Gcm::Tag& tag, Head* head);
  static Gcm::Tag tagOf(const std::byte* head);
  bool intact(const std::byte* head, const Parsed& record, std::byte* payload);
  void closeRecord(uint64_t position, uint32_t bytes, uint32_t crc);
  const std::byte* payloadOf(const Record& record) const { return kept_.at(record.position); }
  void keepRoomFor(size_t bytes);
  void makeControl();
  void controlWasSent();
  Status acknowledge(uint64_t consumed);
  Status resumeAt(uint64_t received, uint32_t kept);
  Status parseOne(bool* whole);
  bool goesTo(std::span<const iovec> parts) const;
  bool beginStraight(std::span<const iovec> parts);
  Status cameStraight(size_t bytes);
  bool straightIntact(const Parsed& record);
  void endStraight();
  size_t takeLanded(std::span<const iovec> parts);
  size_t takeBuffered(std::span<const iovec> parts, size_t skip);
  void makeRoom(size_t bytes);
  void consumedSome(size_t bytes);

  const size_t window_;
  const std::unique_ptr<RecordSeal> seal_;
  const size_t headBytes_;

  // Sending: records_[cursor_] is the next to leave, of which `offset_` bytes have.
  KeptRing kept_;
  Fifo<Record> records_;  // what the peer has not consumed
  size_t cursor_ = 0;
  size_t offset_ = 0;
  uint64_t written_ = 0, acknowledged_ = 0, sentMost_ = 0;
  uint64_t resent_ = 0;
  Head control_{};
  size_t controlSent_ = 0;
  bool controlMade_ = false;
  Kind controlKind_ = Kind::Ack;
  bool ackDue_ = false, resumeDue_ = false, byeDue_ = false;
  bool restDue_ = false;  // `offset_` bytes of the next record left by a former connection
  bool resumed_ = true;

  // Receiving: in_[begin_, parsed_) are whole records, the first of which has `left_` bytes left to take behind begin_;
  // in_[parsed_, end_) is what has come of the next.
  std::unique_ptr<std::byte[]> in_;
  size_t capacity_ = 0, begin_ = 0, parsed_ = 0, end_ = 0;
  size_t left_ = 0;
  std::vector<std::byte> cut_;  // what former connections have brought of the next record
  bool spoiled_ = false;        // something that came on this one is not as sent
  bool firstRecord_ = false;    // of a new connection: it must be a resume
  Straight straight_;           // while it is active, in_ is empty
  size_t landed_ = 0;           // bytes at the end of the last one's memory that nobody has taken yet
  uint64_t received_ = 0, consumed_ = 0;
  uint64_t saidConsumed_ = 0;
  size_t recordsTaken_ = 0;  // since then
  bool peerSaidBye_ = false;
};

}  // namespace tutti::tcp
