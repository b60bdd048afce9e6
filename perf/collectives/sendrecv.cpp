// sendrecv_perf: S bytes to the next rank, S bytes from the one before.  A message cannot be received over itself, so
// the in-place columns exchange the two halves of one buffer.
#include "perf/common/collective.hpp"

namespace tutti::perf {
namespace {

int previous(const Geometry& g) { return (g.rank + g.nRanks - 1) % g.nRanks; }
int next(const Geometry& g) { return (g.rank + 1) % g.nRanks; }

}  // namespace

const Collective kSendRecv = {
    .name = "SendRecv",
    .program = "sendrecv_perf",
    .reduces = false,
    .rooted = false,
    .layout =
        [](const Geometry& g) {
          const size_t count = g.bytes / g.elementBytes, bytes = count * g.elementBytes;
          return Layout{.sendCount = count,
                        .recvCount = count,
                        .count = count,
                        .rowBytes = bytes,
                        .trafficBytes = bytes,
                        .inPlaceRecv = count,
                        .inPlaceCount = 2 * count};
        },
    .expect =
        [](const Geometry& g) {
          return std::vector<Block>{{0, g.bytes / g.elementBytes, previous(g), 0}};
        },
    .call =
        [](const Call& c) {
          const tuttiResult_t sent = tuttiSend(c.send, c.count, c.type, next(c.geometry), c.comm, c.stream);
          if (sent != tuttiSuccess && sent != tuttiInProgress) return sent;
          return tuttiRecv(c.recv, c.count, c.type, previous(c.geometry), c.comm, c.stream);
        },
    .busFactor = one,
    .estimate =
        [](const Call& c, tuttiEstimate_t* e) {
          return tuttiCommEstimate(c.comm, tuttiCallSend, c.count, c.type, c.op, next(c.geometry), e);
        },
    .steps = [](int) { return 1; },
};

}  // namespace tutti::perf
