#include "src/control/overlay.hpp"

#include <bit>
#include <cstdint>
#include <set>

namespace tutti {

namespace {

/// For two ranks that are `up` apart going up from the first and nRanks - up going up from the second: the one with an
/// offset of the form 2^k dials; if both have one, the one with the smaller; if they are equal, the lower rank.
bool firstDials(int first, int second, int nRanks) {
  const int up = (second - first + nRanks) % nRanks;
  const int down = nRanks - up;
  const bool upIsPower = std::has_single_bit(static_cast<unsigned>(up));
  const bool downIsPower = std::has_single_bit(static_cast<unsigned>(down));
  if (upIsPower != downIsPower) return upIsPower;
  return up != down ? up < down : first < second;
}

}  // namespace

int overlayRounds(int nRanks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(nRanks - 1))); }

int overlayNext(int rank, int round, int nRanks) {
  return static_cast<int>((int64_t{rank} + (int64_t{1} << round)) % nRanks);
}

int overlayPrevious(int rank, int round, int nRanks) {
  return static_cast<int>((int64_t{rank} + nRanks - (int64_t{1} << round) % nRanks) % nRanks);
}

std::vector<OverlayLink> overlayLinks(int rank, int nRanks) {
  std::set<int> peers;
  for (int round = 0; round < overlayRounds(nRanks); ++round) {
    peers.insert(overlayNext(rank, round, nRanks));
    peers.insert(overlayPrevious(rank, round, nRanks));
  }
  std::vector<OverlayLink> links;
  for (int peer : peers) links.push_back({peer, firstDials(rank, peer, nRanks)});
  return links;
}

}  // namespace tutti
