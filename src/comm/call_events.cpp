#include "src/comm/call_events.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <utility>

#include "src/base/clock.hpp"
#include "src/base/plugin.hpp"
#include "src/comm/links.hpp"

namespace tutti {
namespace {

using profiler::Event;
using profiler::EventKind;
using profiler::EventState;

/// As NCCL names its types to plugins.
const char* typeName(tuttiDataType_t dtype) {
  constexpr const char* kNames[] = {"ncclInt8",       "ncclUint8",      "ncclInt32",   "ncclUint32",  "ncclInt64",
                                    "ncclUint64",     "ncclFloat16",    "ncclFloat32", "ncclFloat64", "ncclBfloat16",
                                    "ncclFloat8e4m3", "ncclFloat8e5m2", "tuttiInt16",  "tuttiUint16", "tuttiBool"};
  static_assert(std::size(kNames) == tuttiNumTypes);
  return kNames[static_cast<size_t>(dtype)];
}

const char* protocolInCapitals(Protocol protocol) {
  switch (protocol) {
    case Protocol::Inline: return "LL";
    case Protocol::Slots: return "SIMPLE";
    case Protocol::Direct: return "DIRECT";
  }
  return "";
}

/// "RING"
const char* inCapitals(std::string_view name) {
  std::string text(name);
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return keptText(text);
}

const char* functionOf(const Call& call) {
  if (call.collective == Collective::AllToAll && call.kind == CallKind::Collective && !call.counts) return "AlltoAll";
  return keptText(callName(call));
}

/// Elements as in the call, or of all blocks that this rank has.
size_t countOf(const Call& call) {
  if (!call.counts) return call.count;
  size_t sum = 0;
  const bool sends = !call.counts->sendCounts.empty();
  for (const size_t count : sends ? call.counts->sendCounts : call.counts->recvCounts) sum += count;
  return sum;
}

uint8_t asByte(size_t number) { return static_cast<uint8_t>(std::min<size_t>(number, UINT8_MAX)); }

int numMessages(size_t bytes, size_t sliceBytes) {
  const size_t slices = sliceBytes == 0 ? 1 : (bytes + sliceBytes - 1) / sliceBytes;
  return static_cast<int>(std::clamp<size_t>(slices, 1, INT_MAX));
}

}  // namespace

void CallEvents::made(const Call& call, const Made& how) {
  if (calls_.empty()) beginGroup(how);
  const char* const function = functionOf(call);
  if (call.kind == CallKind::Collective) {
    calls_.push_back(profiler_.beginCollectiveApi(
        groupApi_, {function, countOf(call), typeName(call.dtype), call.root, how.stream, how.captured}));
  } else {
    calls_.push_back(profiler_.beginPointToPointApi(
        groupApi_, {function, call.count, typeName(call.dtype), how.stream, how.captured}));
  }
}

void CallEvents::beginGroup(const Made& how) {
  groupApi_ = profiler_.beginGroupApi({how.captured, how.inGroup ? 2 : 1});
  profiler_.change(groupApi_, EventState::GroupStartApiStop);
  group_ = profiler_.beginGroup(groupApi_);
}

void CallEvents::carriedOut() {
  if (!std::exchange(carriedOut_, true)) profiler_.change(groupApi_, EventState::GroupEndApiStart);
}

void CallEvents::beginCollective(size_t number, const Call& call, uint64_t sequence, const PlanEntry& entry) {
  carriedOut();
  profiler::CollectiveEvent what{};
  what.sequence = sequence;
  what.function = functionOf(call);
  what.sendbuff = call.sendbuff;
  what.recvbuff = call.recvbuff;
  what.count = countOf(call);
  what.root = call.root;
  what.dataType = typeName(call.dtype);
  what.nChannels = asByte(static_cast<size_t>(entry.nChannels));
  what.algorithm = inCapitals(entry.algorithm);
  what.protocol = protocolInCapitals(entry.protocol);
  Running& running = running_.emplace_back();
  running.event = profiler_.beginCollective(calls_[number], group_, what);
  beginChannels(entry.nChannels, &running);
  if (entry.plan != nullptr && profiler_.wants(EventKind::ProxyOp))
    beginTraffic(trafficOf(*entry.plan), entry.plan->sliceBytes, &running);
}

void CallEvents::beginPointToPoint(size_t number, const Call& call, size_t sliceBytes) {
  carriedOut();
  const bool isSend = call.kind == CallKind::Send;
  profiler::PointToPointEvent what{};
  what.function = functionOf(call);
  what.buffer = isSend ? const_cast<void*>(call.sendbuff) : call.recvbuff;
  what.dataType = typeName(call.dtype);
  what.count = call.count;
  what.peer = call.root;
  what.nChannels = 1;
  Running& running = running_.emplace_back();
  running.message = messages_++;
  running.event = profiler_.beginPointToPoint(calls_[number], group_, what);
  beginChannels(1, &running);
  if (!profiler_.wants(EventKind::ProxyOp) || !isTraffic(call.root)) return;
  const size_t bytes = call.count * dataTypeBytes(call.dtype);
  beginTraffic({{0, call.root, isSend, numMessages(bytes, sliceBytes)}}, sliceBytes, &running);
}

void CallEvents::beginChannels(int nChannels, Running* running) {
  if (!profiler_.wants(EventKind::KernelChannel)) return;
  const auto now = static_cast<uint64_t>(nowNs());
  for (int channel = 0; channel < std::min(nChannels, UINT8_MAX); ++channel) {
    running->channels.push_back(profiler_.beginKernelChannel(running->event, {static_cast<uint8_t>(channel), now}));
  }
}

void CallEvents::beginTraffic(const std::vector<Traffic>& traffic, size_t sliceBytes, Running* running) {
  const int chunkBytes = static_cast<int>(std::min<size_t>(sliceBytes, INT_MAX));
  for (const Traffic& one : traffic) {
    const profiler::ProxyOpEvent what = {getpid(), one.channel, one.peer, one.messages, chunkBytes, one.isSend ? 1 : 0};
    running->traffic.push_back(profiler_.beginProxyOp(running->event, what));
    profiler_.change(running->traffic.back(), EventState::ProxyOpInProgress);
  }
}

/// What goes to kEveryone is read where it lies.
bool CallEvents::isTraffic(int peer) const {
  return peer != kEveryone && peer != profiler_.rank() && !links_.linkTo(peer).mapped;
}

std::vector<CallEvents::Traffic> CallEvents::trafficOf(const Plan& plan) const {
  std::vector<Traffic> all;
  const size_t lanesOfOne =
      std::max<size_t>(1, plan.lanes.size() / static_cast<size_t>(std::max(1, plan.schedule.nChannels)));
  const auto add = [&](size_t lane, int peer, bool isSend, size_t bytes) {
    if (!isTraffic(peer)) return;
    const uint8_t channel = asByte(lane / lanesOfOne);
    auto one = std::ranges::find_if(
        all, [&](const Traffic& t) { return t.channel == channel && t.peer == peer && t.isSend == isSend; });
    if (one == all.end()) one = all.insert(one, {channel, peer, isSend, 0});
    one->messages += numMessages(bytes, plan.sliceBytes);
  };
  for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
    for (const BoundOp& op : plan.lanes[lane].ops) {
      for (const int peer : op.toRanks) add(lane, peer, true, op.bytes);
      for (const int peer : op.fromRanks) add(lane, peer, false, op.bytes);
    }
  }
  return all;
}

void CallEvents::end(Running* running) {
  const auto now = static_cast<uint64_t>(nowNs());
  for (const Event one : running->traffic) profiler_.end(one);
  for (const Event channel : running->channels) {
    profiler_.change(channel, EventState::KernelChannelStop, now);
    profiler_.end(channel);
  }
  profiler_.end(running->event);
}

template <class Which>
void CallEvents::endThose(Which which) {
  for (Running& one : running_) {
    if (which(one)) end(&one);
  }
  std::erase_if(running_, which);
}

void CallEvents::endCollectives() {
  endThose([](const Running& one) { return one.message == kCollective; });
}

void CallEvents::endMessages(const PointToPointRun& run) {
  endThose([&](const Running& one) { return one.message != kCollective && run.isDone(one.message); });
}

CallEvents::~CallEvents() {
  endThose([](const Running&) { return true; });
  for (const Event call : calls_) profiler_.end(call);
  profiler_.end(group_);
  profiler_.end(groupApi_);
}

}  // namespace tutti
