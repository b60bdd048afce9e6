// A rail that was lost and is to be used again: where an end stands with it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/verbs/queue_pair.hpp"

namespace tutti::verbs {

/// Where an end stands with one rail.  An attempt ends in the same way at both: the rail is used again when each has
/// heard that the other's operations arrive, and not if one of them says that it failed before it has said that.
struct Returning {
  enum class Stage : uint8_t { Idle, Offered, Connected, Proving, Proven };
  Stage stage = Stage::Idle;
  uint32_t attempt = 0;             // attempts that have ended
  std::optional<ReturnCard> offer;  // the peer's
  bool peerConnected = false, peerProven = false;
  std::vector<std::unique_ptr<QueuePair>> pairs;
  std::vector<uint64_t> proofs;         // by queue pair: the operation
  uint32_t packetNumber = 0;            // of these
  std::string trouble;                  // "": none
  std::optional<uint64_t> lostAlready;  // the peer has used it and lost it: messages that it has whole
  int64_t nextNs = 0, pauseNs = 0, upNs = 0;
};

}  // namespace tutti::verbs
