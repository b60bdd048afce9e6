// What a call would cost: the planner's figures, without making the call.
#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "src/api/entry.hpp"

using namespace tutti;

namespace {

// In the order of tuttiCall_t.
struct Kind {
  CallKind kind;
  Collective collective;
  bool isVector;
};
constexpr auto kAsCollective = CallKind::Collective;
constexpr Kind kKinds[] = {
    {kAsCollective, Collective::AllReduce, false},     {kAsCollective, Collective::Broadcast, false},
    {kAsCollective, Collective::Reduce, false},        {kAsCollective, Collective::AllGather, false},
    {kAsCollective, Collective::ReduceScatter, false}, {kAsCollective, Collective::AllToAll, false},
    {kAsCollective, Collective::Gather, false},        {kAsCollective, Collective::Scatter, false},
    {kAsCollective, Collective::Barrier, false},       {CallKind::Send, Collective::AllReduce, false},
    {CallKind::Recv, Collective::AllReduce, false},    {kAsCollective, Collective::AllToAll, true},
    {kAsCollective, Collective::AllGather, true},      {kAsCollective, Collective::ReduceScatter, true},
    {kAsCollective, Collective::Gather, true},         {kAsCollective, Collective::Scatter, true},
};
static_assert(std::size(kKinds) == tuttiNumCalls);

Result<Call> describe(tuttiComm_t comm, tuttiCall_t which, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op,
                      int root) {
  const int number = static_cast<int>(which);
  if (number < 0 || number >= tuttiNumCalls) {
    return invalidArgument(ErrorCode::ArgumentValue, "call ", number,
                           " is unknown; pass a constant of tuttiCall_t (0..", tuttiNumCalls - 1, ")");
  }
  const Kind& kind = kKinds[number];
  const bool barrier = which == tuttiCallBarrier;
  Call call;
  call.kind = kind.kind;
  call.collective = kind.collective;
  call.count = barrier ? 0 : count;
  call.dtype = barrier ? tuttiUint8 : dtype;
  call.op = op;
  if (call.kind != CallKind::Collective || callIsRooted(call)) call.root = root;
  TUTTI_TRY(checkParameters(comm, &call));
  if (kind.isVector) call.counts = std::make_shared<const Counts>();  // the largest block is enough
  return call;
}

/// What one collected call would cost.  A v form is estimated by its largest block.
Result<double> timeUsOf(const CallGroup::Entry& entry) {
  TUTTI_ASSIGN(const CommUse comm, use(entry.handle));
  TUTTI_ASSIGN(const CallEstimate found, comm->planner().estimate(entry.call));
  return found.timeUs;
}

/// One communicator runs its calls one after another; several run side by side.
Result<double> timeUsOf(const CallGroup& group) {
  TUTTI_TRY(group.error);
  if (!group.joins.empty() || !group.presences.empty())
    return invalidUsage(ErrorCode::GroupMixed, "communicators that a group makes cannot be simulated");
  std::map<const tuttiComm*, double> timeUs;
  for (const CallGroup::Entry& entry : group.calls) {
    TUTTI_ASSIGN(const double us, timeUsOf(entry));
    timeUs[entry.handle] += us;
  }
  double longest = 0;
  for (const auto& [comm, us] : timeUs) longest = std::max(longest, us);
  return longest;
}

/// The part of the caller's struct that both sides know.
void fill(tuttiEstimate_t* out, const CallEstimate& estimate) {
  tuttiEstimate_t own = TUTTI_ESTIMATE_INITIALIZER;
  own.timeUs = estimate.timeUs;
  own.algorithm = estimate.algorithm.data();
  own.protocol = protocolName(estimate.protocol);
  own.nChannels = estimate.nChannels;
  own.joined = estimate.joined ? 1 : 0;
  own.size = out->size;
  std::memcpy(out, &own, std::min(out->size, sizeof own));
}

}  // namespace

extern "C" {

tuttiResult_t tuttiCommEstimate(tuttiComm_t comm, tuttiCall_t call, size_t count, tuttiDataType_t dtype,
                                tuttiRedOp_t op, int root, tuttiEstimate_t* estimate) {
  return guarded("CommEstimate", comm, [&]() -> Status {
    TUTTI_ASSIGN(const CommUse live, use(comm));
    TUTTI_TRY(checkNotNull(estimate, "estimate"));
    if (estimate->size < sizeof(tuttiEstimate_t)) {
      return invalidArgument(ErrorCode::ConfigInvalid, "estimate->size ", estimate->size, " is less than the ",
                             sizeof(tuttiEstimate_t), " of a tuttiEstimate_t; start from TUTTI_ESTIMATE_INITIALIZER");
    }
    TUTTI_ASSIGN(const Call described, describe(comm, call, count, dtype, op, root));
    TUTTI_ASSIGN(const CallEstimate found, live->planner().estimate(described));
    fill(estimate, found);
    return {};
  });
}

tuttiResult_t tuttiGroupSimulateEnd(double* timeUs) {
  return guarded("GroupSimulateEnd", nullptr, [&] {
    Status status = checkNotNull(timeUs, "timeUs");
    if (status.ok() && groupDepth == 0)
      status = invalidUsage(ErrorCode::NoGroup,
                            "this thread has no open group; pair it with tuttiGroupStart on the same thread");
    if (!status.ok()) return report("GroupSimulateEnd", status, nullptr);
    *timeUs = 0;
    if (--groupDepth > 0) return tuttiSuccess;
    CallGroup collected = std::exchange(currentGroup(), {});
    const Result<double> longest = timeUsOf(collected);
    if (longest.ok()) *timeUs = *longest;
    for (const CallGroup::Join& join : collected.joins) *join.out = nullptr;
    return report("GroupSimulateEnd", longest.status(), nullptr);
  });
}

}  // extern "C"
