// A kind of link between two ranks: what it is called where costs are kept, and what it can do.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/base/memory.hpp"

namespace tutti {

/// How a receiver reads a message that the sender lends where it lies.
enum class DirectReads : uint8_t {
  None,         // not at all
  Loads,        // the ranks share an address space
  SystemCalls,  // by one system call for each message, but for memory of tuttiMemAlloc, which readers have mapped
};

/// Smaller messages to several peers are copied into a slot of each: an outbox is memory that no core has near, which
/// costs more than their copies (1 KiB to 3 or 7 peers: 0.3 and 0.45 us instead of 0.6 and 0.9, 4 KiB 0.55 and 1.1
/// instead of 1.1 and 2.4, on an EPYC; 16 KiB are faster by the outbox).
inline constexpr size_t kLeastSharedBytes = 8 * 1024;

/// A value; its text is a constant of the transport that makes such links.  Kinds are the same if their keys are.
struct LinkProfile {
  /// In texts of calibration and tuning, and in tables: "shm-threads".  Lower case letters, digits and dashes.
  std::string_view key;
  /// A wire paces it, and most of its latency is the way.
  bool betweenHosts = false;
  /// It encrypts where TUTTI_ENCRYPT asks for it; else such a link is not for that.
  bool encrypts = false;
  /// Inside a host: a message is system calls on both sides, in which the kernel does all there is to do.
  bool systemCalls = false;
  /// The kind of link inside a host whose messages take as much of both ends, without a way between them; "": none.
  std::string_view workOf;
  /// A message to several peers of kLeastSharedBytes and more is written once for all of them (Endpoint::outbox()).
  bool writesOnce = false;
  DirectReads directReads = DirectReads::None;
  /// What one endpoint carries at most, GB/s, driven by one core; a faster wire needs several.  0: as much as the link.
  double channelGBps = 0;
  /// A message goes by the interface that the rank listens on, and by all at once that the user has named, in pieces:
  /// larger ones use them better.
  bool spreadsOverPaths = false;
  /// Both ends see the memory of its endpoints: messages go inline, through slots, boards and outboxes.
  bool mapped = false;
  /// Memory that messages are sent from and received into.
  MemoryKinds memory;
  /// A posted send is put into the memory of the posted receive, and nowhere else before.
  bool puts = false;
  /// After a put a device must be told to look (a flush) before it may read its memory.
  bool flushes = false;
  /// Requests use registered memory alone (Transport::registerMemory); other memory is for polled calls.
  bool registers = false;
  /// Requests that may be under way in each direction (Endpoint::postSend); 0: messages are polled, but for offers.
  uint32_t mostRequests = 0;

  bool lends() const { return directReads != DirectReads::None; }
  bool operator==(const LinkProfile& other) const { return key == other.key; }
};

}  // namespace tutti
