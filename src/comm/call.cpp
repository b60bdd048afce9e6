#include "src/comm/call.hpp"

namespace tutti {

std::string callName(const Call& call) {
  switch (call.kind) {
    case CallKind::Send: return "Send";
    case CallKind::Recv: return "Recv";
    case CallKind::Collective: break;
  }
  return std::string(collectiveName(call.collective)) + (call.counts ? "v" : "");
}

bool callReduces(const Call& call) {
  return call.kind == CallKind::Collective &&
         (call.collective == Collective::AllReduce || call.collective == Collective::Reduce ||
          call.collective == Collective::ReduceScatter);
}

bool callIsRooted(const Call& call) {
  return call.kind == CallKind::Collective &&
         (call.collective == Collective::Broadcast || call.collective == Collective::Reduce ||
          call.collective == Collective::Gather || call.collective == Collective::Scatter);
}

}  // namespace tutti
