// One all-gather by dissemination, as one rank sees it.  No I/O: bytes of messages in, bytes of messages out.
//
//   In round k a rank sends to rank + 2^k what it has (its own blob and those of the 2^k - 1 ranks below it), and gets
//   from rank - 2^k the next 2^k below.  ceil(log2 n) rounds for any n.
//   Hensgen, Finkel & Manber, "Two algorithms for barrier synchronization", IJPP 17(1), 1988 (the pattern).
//
// A round's blobs are cut into messages of about kPartBytes, so that no message grows beyond what a link carries.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "src/control/network.hpp"
#include "src/control/wire.hpp"

namespace tutti {

class Gather {
 public:
  static constexpr size_t kPartBytes = 1 << 20;
  static constexpr size_t kMaxBlobBytes = kMaxMessageBytes - 256;

  Gather(int rank, int nRanks, uint64_t number);

  /// This rank enters with its blob; messages of others may have come before.
  void start(std::string blob);
  bool started() const { return started_; }
  /// All blobs are there, and all that others need of us was taken by takeReady().
  bool complete() const { return started_ && missingRounds() == 0 && nextSend_ == nRounds_; }
  /// By rank; empty where not there yet.
  const std::vector<std::string>& blobs() const { return blobs_; }

  struct Outgoing {
    int to;
    std::string message;
  };
  /// What can be sent by now and has not been taken yet.
  std::vector<Outgoing> takeReady();
  /// A GatherPart of `from`, behind its type and number.  Errors: RemoteError: not what that rank may send.
  Status accept(int from, Reader& message);

  /// The rank whose blobs are missing for the earliest incomplete round; -1 if none.
  int waitingOn() const;
  /// Whether anything has still to come from (or go to) `peer`.
  bool needs(int peer) const;
  /// Ranks whose blobs are not here.
  std::vector<int> missing() const;

 private:
  int blobsOfRound(int round) const;
  int missingRounds() const;

  int rank_, nRanks_, nRounds_;
  uint64_t number_;
  bool started_ = false;
  int nextSend_ = 0;           // rounds below are sent
  std::vector<int> received_;  // blobs by round
  std::vector<bool> have_;
  std::vector<std::string> blobs_;
};

}  // namespace tutti
