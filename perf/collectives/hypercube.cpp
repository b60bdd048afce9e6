// hypercube_perf: an all-gather written with send and receive.  In step k every rank exchanges the 2^k blocks it has
// with the rank whose number differs in bit k.  algbw counts what a rank receives, S (n-1)/n.
#include "perf/common/collective.hpp"

namespace tutti::perf {
namespace {

int dimensions(int nRanks) {
  int d = 0;
  while ((1 << d) < nRanks) ++d;
  return d;
}

bool failed(tuttiResult_t r) { return r != tuttiSuccess && r != tuttiInProgress; }

tuttiResult_t exchange(const Call& c, int bit) {
  const int rank = c.geometry.rank, peer = rank ^ bit;
  const size_t blockBytes = c.count * c.geometry.elementBytes;
  char* recv = static_cast<char*>(c.recv);
  const char* mine = recv + toSize(rank & ~(bit - 1)) * blockBytes;
  char* theirs = recv + toSize(peer & ~(bit - 1)) * blockBytes;
  const tuttiResult_t sent = tuttiSend(mine, c.count * toSize(bit), c.type, peer, c.comm, c.stream);
  if (failed(sent)) return sent;
  return tuttiRecv(theirs, c.count * toSize(bit), c.type, peer, c.comm, c.stream);
}

// Step 0 puts one's own block into its place, the others follow.
tuttiResult_t step(const Call& c) {
  if (c.step > 0) return exchange(c, 1 << (c.step - 1));
  if (c.geometry.inPlace) return tuttiSuccess;
  const int rank = c.geometry.rank;
  char* place = static_cast<char*>(c.recv) + toSize(rank) * c.count * c.geometry.elementBytes;
  const tuttiResult_t sent = tuttiSend(c.send, c.count, c.type, rank, c.comm, c.stream);
  return failed(sent) ? sent : tuttiRecv(place, c.count, c.type, rank, c.comm, c.stream);
}

// The steps follow one another.
tuttiResult_t estimate(const Call& c, tuttiEstimate_t* e) {
  const Geometry& g = c.geometry;
  tuttiResult_t result = tuttiCommEstimate(c.comm, tuttiCallSend, g.inPlace ? 0 : c.count, c.type, c.op, g.rank, e);
  for (int bit = 1; bit < g.nRanks && result == tuttiSuccess; bit *= 2) {
    const double before = e->timeUs;
    result = tuttiCommEstimate(c.comm, tuttiCallSend, c.count * toSize(bit), c.type, c.op, g.rank ^ bit, e);
    e->timeUs += before;
  }
  return result;
}

}  // namespace

const Collective kHyperCube = {
    .name = "HyperCube",
    .program = "hypercube_perf",
    .reduces = false,
    .rooted = false,
    .layout =
        [](const Geometry& g) {
          const size_t count = perRankCount(g), total = count * toSize(g.nRanks);
          return Layout{.sendCount = count,
                        .recvCount = total,
                        .count = count,
                        .rowBytes = total * g.elementBytes,
                        .trafficBytes = count * g.elementBytes * toSize(g.nRanks - 1),
                        .inPlaceSend = count * toSize(g.rank)};
        },
    .expect = [](const Geometry& g) { return kAllGather.expect(g); },
    .call = step,
    .busFactor = one,
    .refuses =
        [](int nRanks) { return (nRanks & (nRanks - 1)) == 0 ? nullptr : "a hypercube needs a power of two of ranks"; },
    .estimate = estimate,
    .steps = [](int nRanks) { return 1 + dimensions(nRanks); },
};

}  // namespace tutti::perf
