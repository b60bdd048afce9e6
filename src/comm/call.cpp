#include "src/comm/call.hpp"

#include "src/collective/geometry.hpp"

namespace tutti {

Extents extentsOf(const Call& call, int rank, int nRanks) {
  const size_t unit = call.count * dataTypeBytes(call.dtype);
  const size_t all = unit * static_cast<size_t>(nRanks);
  const size_t own = unit * static_cast<size_t>(rank);
  const bool isRoot = rank == call.root;
  switch (call.collective) {
    case Collective::AllReduce: return {true, true, unit, unit, 0};
    case Collective::Broadcast: return {isRoot, true, unit, unit, 0};
    case Collective::Reduce: return {true, isRoot, unit, unit, 0};
    case Collective::AllGather: return {true, true, unit, all, 0 - own};
    case Collective::ReduceScatter: return {true, true, all, unit, own};
    case Collective::AllToAll: return {true, true, all, all, 0};
    case Collective::Gather: return {true, isRoot, unit, all, 0 - own};
    case Collective::Scatter: return {isRoot, true, all, unit, own};
    case Collective::Barrier: break;
  }
  return {};
}

std::string callName(const Call& call) {
  switch (call.kind) {
    case CallKind::Send: return "Send";
    case CallKind::Recv: return "Recv";
    case CallKind::Collective: break;
  }
  return std::string(collectiveName(call.collective)) + (call.counts ? "v" : "");
}

bool callReduces(const Call& call) { return call.kind == CallKind::Collective && reduces(call.collective); }
bool callIsRooted(const Call& call) { return call.kind == CallKind::Collective && isRooted(call.collective); }

}  // namespace tutti
