// The links between ranks: the circulant graph with offsets 2^k.  Pure arithmetic.
//
//   links per rank at most 2 ceil(log2 n); diameter at most ceil(log2 n)
#pragma once

#include <vector>

namespace tutti {

struct OverlayLink {
  int peer = 0;
  bool weDial = false;  // else the peer dials us
  bool operator==(const OverlayLink&) const = default;
};

/// ceil(log2 n); 0 for one rank.  The rounds of a dissemination.
int overlayRounds(int nRanks);
/// All links of a rank, each peer once, sorted by peer.  Of any two ranks just one dials.
std::vector<OverlayLink> overlayLinks(int rank, int nRanks);
/// Rank plus 2^round, and rank minus 2^round, modulo nRanks.
int overlayNext(int rank, int round, int nRanks);
int overlayPrevious(int rank, int round, int nRanks);

}  // namespace tutti
