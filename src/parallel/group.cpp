#include "src/parallel/group.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/parallel/tensor.hpp"

namespace tutti::parallel {
namespace {

std::vector<size_t> displacements(const std::vector<size_t>& counts) {
  std::vector<size_t> at(counts.size(), 0);
  for (size_t r = 1; r < counts.size(); ++r) at[r] = at[r - 1] + counts[r - 1];
  return at;
}

std::vector<size_t> countsOf(const int64_t* cuts, int n) {
  std::vector<size_t> counts(static_cast<size_t>(n));
  for (int r = 0; r < n; ++r) counts[static_cast<size_t>(r)] = static_cast<size_t>(cuts[r + 1] - cuts[r]);
  return counts;
}

bool even(const std::vector<size_t>& counts) {
  return std::all_of(counts.begin(), counts.end(), [&](size_t c) { return c == counts[0]; });
}

}  // namespace

double wireBytesOf(tuttiCall_t call, int n, double bytes) {
  const double share = static_cast<double>(n - 1) / n;
  switch (call) {
    case tuttiCallAllReduce: return 2 * share * bytes;
    case tuttiCallAllGather:
    case tuttiCallAllGatherv:
    case tuttiCallReduceScatter:
    case tuttiCallReduceScatterv:
    case tuttiCallBroadcast: return share * bytes;
    case tuttiCallRecv: return 0;
    default: return bytes;
  }
}

void countCall(tuttiTraffic_t& traffic, tuttiCall_t call, int n, uint64_t bytes) {
  traffic.calls[call] += 1;
  traffic.bytes[call] += bytes;
  traffic.wireBytes += wireBytesOf(call, n, static_cast<double>(bytes));
}

void addTraffic(tuttiTraffic_t& into, const tuttiTraffic_t& more) {
  for (int c = 0; c < tuttiNumCalls; ++c) {
    into.calls[c] += more.calls[c];
    into.bytes[c] += more.bytes[c];
  }
  into.wireBytes += more.wireBytes;
}

void giveTraffic(const tuttiTraffic_t& traffic, tuttiTraffic_t* theirs) {
  require(theirs != nullptr && theirs->size >= sizeof(size_t), "traffic: begin from TUTTI_TRAFFIC_INITIALIZER");
  giveStruct(traffic, theirs);
}

std::vector<int64_t> evenCuts(int64_t total, int64_t unit, int n) {
  std::vector<int64_t> cuts(static_cast<size_t>(n) + 1);
  if (tuttiSplitEven(total, unit, n, nullptr, cuts.data()) != tuttiSuccess) {
    fail(tuttiInvalidArgument, tuttiParallelGetLastError());
  }
  return cuts;
}

Group::Group(tuttiComm_t comm, Device& device) : comm_(comm), device_(&device) { read(); }

void Group::read() {
  if (comm_ == nullptr) return;
  check(tuttiCommUserRank(comm_, &rank_), comm_);
  check(tuttiCommCount(comm_, &size_), comm_);
  int ordinal = -1;
  check(tuttiCommCuDevice(comm_, &ordinal), comm_);
  if (ordinal >= 0 && device_->onHost()) {
    fail(tuttiInvalidUsage, "this layer computes on the host, and the communicator is CUDA's");
  }
  if (ordinal < 0 && !device_->onHost()) {
    fail(tuttiInvalidUsage, "the layer computes on a CUDA device, and the communicator is the host's");
  }
}

void Group::throwIfFailed() const {
  tuttiResult_t state = tuttiSuccess;
  if (comm_ == nullptr || device_->onHost()) return;
  check(tuttiCommGetAsyncError(comm_, &state), comm_);
  if (state != tuttiInProgress) check(state, comm_);
}

template <class Call>
void Group::staged(void* data, size_t bytes, const Call& call) {
  if (size_ == 1 || bytes == 0) return;
  if (device_->onHost()) return call(data);
  Array<char> room(*device_, bytes, Array<char>::Any);
  putBytes(*device_, room.data(), data, bytes);
  call(room.data());
  getBytes(*device_, data, room.data(), bytes);
  throwIfFailed();
}
void Group::allReduceHost(void* data, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op) {
  staged(data, count * bytesOf(dtype), [&](void* at) { allReduce(at, count, dtype, op); });
}
void Group::broadcastHost(void* data, size_t count, tuttiDataType_t dtype, int root) {
  staged(data, count * bytesOf(dtype), [&](void* at) { broadcast(at, count, dtype, root); });
}
void Group::allGatherHost(void* data, const int64_t* cuts, tuttiDataType_t dtype) {
  staged(data, static_cast<size_t>(cuts[size_]) * bytesOf(dtype), [&](void* at) { allGather(at, cuts, dtype); });
}

void Group::allToAllHost(const void* from, const std::vector<size_t>& sendCounts, void* to,
                         const std::vector<size_t>& receiveCounts, tuttiDataType_t dtype) {
  if (device_->onHost() || size_ == 1) {
    const size_t bytes = sendCounts[0] * bytesOf(dtype);
    if (size_ > 1) return allToAll(from, sendCounts, to, receiveCounts, dtype);
    if (bytes != 0) std::memcpy(to, from, bytes);
    return;
  }
  const auto bytesIn = [&](const std::vector<size_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), size_t{0}) * bytesOf(dtype);
  };
  Array<char> out(*device_, bytesIn(sendCounts), Array<char>::Any);
  Array<char> in(*device_, bytesIn(receiveCounts), Array<char>::Any);
  putBytes(*device_, out.data(), from, out.size());
  allToAll(out.data(), sendCounts, in.data(), receiveCounts, dtype);
  getBytes(*device_, to, in.data(), in.size());
  throwIfFailed();
}

tuttiComm_t splitFrom(tuttiComm_t parent, int color, int key, const tuttiConfig_t* options) {
  const tuttiConfig_t usual = TUTTI_CONFIG_INITIALIZER;
  tuttiConfig_t config = options != nullptr ? *options : usual;
  config.splitShare = 1;
  tuttiComm_t made = nullptr;
  check(tuttiCommSplit(parent, color, key, &made, &config), parent);
  return made;
}

void stopPrivate(tuttiComm_t own) {
  if (own != nullptr) tuttiCommRevoke(own, 0);
}

bool hasFailed(tuttiComm_t comm) {
  tuttiResult_t state = tuttiSuccess;
  if (comm != nullptr && tuttiCommGetAsyncError(comm, &state) != tuttiSuccess) return true;
  return state != tuttiSuccess && state != tuttiInProgress;
}

void endPrivate(tuttiComm_t own, bool stopped) {
  if (own == nullptr) return;
  if (stopped || hasFailed(own)) {
    tuttiCommAbort(own);
  } else {
    check(tuttiCommDestroy(own), nullptr);
  }
}

void Group::allReduce(void* data, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op) {
  if (size_ == 1 || count == 0) return;
  check(tuttiAllReduce(data, data, count, dtype, op, comm_, streamOf(*device_)), comm_);
  countCall(traffic, tuttiCallAllReduce, size_, count * bytesOf(dtype));
}

void Group::broadcast(void* data, size_t count, tuttiDataType_t dtype, int root) {
  if (size_ == 1 || count == 0) return;
  check(tuttiBroadcast(data, data, count, dtype, root, comm_, streamOf(*device_)), comm_);
  countCall(traffic, tuttiCallBroadcast, size_, count * bytesOf(dtype));
}

void Group::allGather(void* data, const int64_t* cuts, tuttiDataType_t dtype) {
  if (size_ == 1 || cuts[size_] == 0) return;
  const std::vector<size_t> counts = countsOf(cuts, size_), at = displacements(counts);
  const size_t mine = static_cast<size_t>(rank_);
  char* own = static_cast<char*>(data) + at[mine] * bytesOf(dtype);
  if (even(counts)) {
    check(tuttiAllGather(own, data, counts[0], dtype, comm_, streamOf(*device_)), comm_);
  } else {
    check(tuttiAllGatherv(own, counts[mine], data, counts.data(), at.data(), dtype, comm_, streamOf(*device_)), comm_);
  }
  countCall(traffic, tuttiCallAllGather, size_, static_cast<size_t>(cuts[size_]) * bytesOf(dtype));
}

void Group::reduceScatter(const void* from, void* to, const int64_t* cuts, tuttiDataType_t dtype) {
  const std::vector<size_t> counts = countsOf(cuts, size_), at = displacements(counts);
  if (size_ == 1) {
    if (from != to) copyBytes(*device_, to, from, counts[0] * bytesOf(dtype));
    return;
  }
  if (cuts[size_] == 0) return;
  if (to == nullptr) to = orThrow(device_->scratch(1));
  if (even(counts)) {
    check(tuttiReduceScatter(from, to, counts[0], dtype, tuttiSum, comm_, streamOf(*device_)), comm_);
  } else {
    check(tuttiReduceScatterv(from, to, counts.data(), at.data(), dtype, tuttiSum, comm_, streamOf(*device_)), comm_);
  }
  countCall(traffic, tuttiCallReduceScatter, size_, static_cast<size_t>(cuts[size_]) * bytesOf(dtype));
}

void Group::allToAll(const void* from, const std::vector<size_t>& sendCounts, void* to,
                     const std::vector<size_t>& receiveCounts, tuttiDataType_t dtype) {
  const std::vector<size_t> sendAt = displacements(sendCounts), receiveAt = displacements(receiveCounts);
  const size_t mine = static_cast<size_t>(rank_);
  if (size_ == 1) {
    copyBytes(*device_, to, from, sendCounts[0] * bytesOf(dtype));
    return;
  }
  if (from == nullptr) from = orThrow(device_->scratch(1));
  if (to == nullptr) to = orThrow(device_->scratch(1));
  check(tuttiAllToAllv(from, sendCounts.data(), sendAt.data(), to, receiveCounts.data(), receiveAt.data(), dtype, comm_,
                       streamOf(*device_)),
        comm_);
  size_t sent = 0;
  for (size_t r = 0; r < sendCounts.size(); ++r) sent += r == mine ? 0 : sendCounts[r];
  countCall(traffic, tuttiCallAllToAllv, size_, sent * bytesOf(dtype));
}

template <class T>
void Group::treeReduceScatter(const std::vector<const T*>& parts, T* to, const int64_t* leafCuts,
                              const int64_t* sliceCuts) {
  const int64_t nLeaves = leafCuts[size_];
  const size_t n = static_cast<size_t>(size_), me = static_cast<size_t>(rank_);
  const size_t mine = static_cast<size_t>(sliceCuts[me + 1] - sliceCuts[me]);
  if (sliceCuts[n] == 0) return;
  std::vector<size_t> sendCounts(n), receiveCounts(n);
  std::vector<LeafRange> have;
  for (size_t r = 0; r < n; ++r) {
    const std::vector<LeafRange> theirs = subtreesOf(nLeaves, {leafCuts[r], leafCuts[r + 1]});
    sendCounts[r] = parts.size() * static_cast<size_t>(sliceCuts[r + 1] - sliceCuts[r]);
    receiveCounts[r] = theirs.size() * mine;
    have.insert(have.end(), theirs.begin(), theirs.end());
  }
  Array<T> packed, received(*device_, have.size() * mine, Array<T>::Any);
  const T* from = parts.size() == 1 ? parts[0] : nullptr;
  if (parts.size() > 1) {
    packed = Array<T>(*device_, parts.size() * static_cast<size_t>(sliceCuts[n]), Array<T>::Any);
    T* at = packed.data();
    for (size_t r = 0; r < n; ++r) {
      const size_t slice = static_cast<size_t>(sliceCuts[r + 1] - sliceCuts[r]);
      for (const T* part : parts) {
        copyBytes(*device_, at, part + sliceCuts[r], slice * sizeof(T));
        at += slice;
      }
    }
    from = packed.data();
  }
  allToAll(from, sendCounts, received.data(), receiveCounts, dtypeOf<T>());
  if (mine == 0) return;
  std::vector<T*> sums;
  for (size_t i = 0; i < have.size(); ++i) sums.push_back(received.data() + i * mine);
  copyBytes(*device_, to, combineSubtrees(*device_, {0, nLeaves}, have, sums, mine), mine * sizeof(T));
}

template <class T>
void Group::treeAllReduce(const std::vector<const T*>& parts, T* to, const int64_t* leafCuts,
                          const int64_t* sliceCuts) {
  treeReduceScatter(parts, to + sliceCuts[rank_], leafCuts, sliceCuts);
  allGather(to, sliceCuts, dtypeOf<T>());
}

template void Group::treeReduceScatter(const std::vector<const float*>&, float*, const int64_t*, const int64_t*);
template void Group::treeReduceScatter(const std::vector<const double*>&, double*, const int64_t*, const int64_t*);
template void Group::treeAllReduce(const std::vector<const float*>&, float*, const int64_t*, const int64_t*);
template void Group::treeAllReduce(const std::vector<const double*>&, double*, const int64_t*, const int64_t*);

}  // namespace tutti::parallel
