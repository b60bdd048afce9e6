#include "src/control/gather.hpp"

#include <algorithm>

#include "src/base/assert.hpp"
#include "src/control/overlay.hpp"

namespace tutti {

Gather::Gather(int rank, int nRanks, uint64_t number)
    : rank_(rank),
      nRanks_(nRanks),
      nRounds_(overlayRounds(nRanks)),
      number_(number),
      received_(static_cast<size_t>(nRounds_)),
      have_(static_cast<size_t>(nRanks)),
      blobs_(static_cast<size_t>(nRanks)) {}

int Gather::blobsOfRound(int round) const { return std::min(1 << round, nRanks_ - (1 << round)); }

int Gather::missingRounds() const {
  int missing = 0;
  for (int round = 0; round < nRounds_; ++round) missing += received_[static_cast<size_t>(round)] < blobsOfRound(round);
  return missing;
}

void Gather::start(std::string blob) {
  TUTTI_ASSERT(!started_);
  started_ = true;
  have_[static_cast<size_t>(rank_)] = true;
  blobs_[static_cast<size_t>(rank_)] = std::move(blob);
}

std::vector<Gather::Outgoing> Gather::takeReady() {
  std::vector<Outgoing> ready;
  if (!started_) return ready;
  for (; nextSend_ < nRounds_; ++nextSend_) {
    if (nextSend_ > 0 && received_[static_cast<size_t>(nextSend_ - 1)] < blobsOfRound(nextSend_ - 1)) break;
    const int total = blobsOfRound(nextSend_);
    for (int first = 0; first < total;) {
      Writer blobs;
      int count = 0;
      while (first + count < total) {
        const std::string& blob = blobs_[static_cast<size_t>((rank_ - first - count + nRanks_) % nRanks_)];
        if (count > 0 && blobs.bytes() + blob.size() > kPartBytes) break;
        blobs.text(blob);
        ++count;
      }
      Writer message(MessageType::GatherPart);
      message.u64(number_);
      message.u8(static_cast<uint8_t>(nextSend_));
      message.u32(static_cast<uint32_t>(first));
      message.u32(static_cast<uint32_t>(count));
      message.raw(blobs.str().data(), blobs.bytes());
      ready.push_back({overlayNext(rank_, nextSend_, nRanks_), message.take()});
      first += count;
    }
  }
  return ready;
}

Status Gather::accept(int from, Reader& message) {
  const int round = message.u8();
  const uint32_t first = message.u32();
  const uint32_t count = message.count(4);
  if (!message.ok() || round >= nRounds_ || overlayPrevious(rank_, round, nRanks_) != from)
    return remoteError(ErrorCode::Malformed, "rank ", from, " sent a part of a gather that is not its to send");
  int& received = received_[static_cast<size_t>(round)];
  if (first != static_cast<uint32_t>(received) || count > static_cast<uint32_t>(blobsOfRound(round) - received))
    return remoteError(ErrorCode::Malformed, "rank ", from, " sent the parts of a gather out of order");
  std::vector<std::string_view> blobs;
  for (uint32_t i = 0; i < count; ++i) blobs.push_back(message.text(kMaxMessageBytes));
  if (!message.done()) return remoteError(ErrorCode::Malformed, "rank ", from, " sent a malformed part of a gather");
  for (std::string_view blob : blobs) {
    const auto owner = static_cast<size_t>((from - received + nRanks_) % nRanks_);
    have_[owner] = true;
    blobs_[owner] = blob;
    ++received;
  }
  return {};
}

int Gather::waitingOn() const {
  for (int round = 0; round < nRounds_; ++round)
    if (received_[static_cast<size_t>(round)] < blobsOfRound(round)) return overlayPrevious(rank_, round, nRanks_);
  return -1;
}

bool Gather::needs(int peer) const {
  for (int round = 0; round < nRounds_; ++round) {
    if (overlayPrevious(rank_, round, nRanks_) == peer && received_[static_cast<size_t>(round)] < blobsOfRound(round))
      return true;
    if (overlayNext(rank_, round, nRanks_) == peer && round >= nextSend_) return true;
  }
  return false;
}

std::vector<int> Gather::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < nRanks_; ++rank)
    if (!have_[static_cast<size_t>(rank)]) ranks.push_back(rank);
  return ranks;
}

}  // namespace tutti
