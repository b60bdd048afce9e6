// Parameter-server allreduce: everyone sends to rank 0, which reduces and sends the result back.
//   steps 2; bytes sent per rank S, (n-1) * S by the server, which reduces (n-1) * S.
//   Limits: none.  For few ranks, or a rank 0 with a much better link than the others.
#include "algorithms/algorithm.hpp"
#include "algorithms/costs.hpp"

namespace tutti::allreduce_paramserver {
namespace {

constexpr int kServer = 0;

Schedule build(const Shape& shape) {
  ScheduleBuilder b(shape);
  b.workInOutput();
  if (shape.rank == kServer) {
    b.phase("reduce");
    for (int r = 1; r < shape.nRanks; ++r) b.recvReduce(r, out(0));
    b.phase("broadcast");
    for (int r = 1; r < shape.nRanks; ++r) b.send(r, out(0));
  } else {
    b.phase("push");
    b.send(kServer, out(0));
    b.phase("pull");
    b.recv(kServer, out(0));
  }
  return b.finish();
}

double costUs(const Shape& s, const CostModel& cost) {
  const double moved = (s.nRanks - 1) * double(s.bytes);
  const double critical = 2 * burstUs(cost.oneWay, s.nRanks - 1, moved) + cost.reduceUs(moved);
  return elapsedUs(cost, critical, 2 * cost.oneWay(double(s.bytes)) + cost.reduceUs(double(s.bytes)));
}

}  // namespace

extern constinit const Algorithm kAllReduceParamServer = {
    .collective = Collective::AllReduce,
    .name = "paramserver",
    .summary = "reduce and broadcast through rank 0; few ranks or one with the best link",
    .costUs = costUs,
    .build = build,
    .sumsOnce = true,
};

}  // namespace tutti::allreduce_paramserver
