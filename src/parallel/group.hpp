// A communicator that counts what goes through it.
#pragma once

#include <vector>

#include "src/parallel/fail.hpp"
#include "src/parallel/memory.hpp"
#include "src/parallel/tree.hpp"

namespace tutti::parallel {

/// Sent by an average rank of n for a call over `bytes` as tuttiTraffic_t counts them.
double wireBytesOf(tuttiCall_t call, int n, double bytes);
void countCall(tuttiTraffic_t& traffic, tuttiCall_t call, int n, uint64_t bytes);
void addTraffic(tuttiTraffic_t& into, const tuttiTraffic_t& more);
/// Writes as much of `traffic` as the caller's struct has room for.
void giveTraffic(const tuttiTraffic_t& traffic, tuttiTraffic_t* theirs);

/// The calls of a layer on its communicator; NULL stands for a group of one.  Does not own it.  Calls run on the
/// caller's thread, one at a time.  In a group of one nothing moves, nothing is counted.  Buffers are the device's
/// memory; on CUDA calls are enqueued on its stream.
class Group {
 public:
  /// The device is that of the communicator's rank, and outlives the group.
  Group(tuttiComm_t comm, Device& device);
  Device& device() const { return *device_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  tuttiComm_t comm() const { return comm_; }
  tuttiTraffic_t traffic = TUTTI_TRAFFIC_INITIALIZER;

  void allReduce(void* data, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op);
  void broadcast(void* data, size_t count, tuttiDataType_t dtype, int root);
  /// The caller's part lies at data + cuts[rank] already.
  void allGather(void* data, const int64_t* cuts, tuttiDataType_t dtype);
  /// `from` [cuts[size]]; the caller's part goes to `to`.
  void reduceScatter(const void* from, void* to, const int64_t* cuts, tuttiDataType_t dtype);
  // As above with host memory, whatever the device; they wait.
  void allReduceHost(void* data, size_t count, tuttiDataType_t dtype, tuttiRedOp_t op);
  void broadcastHost(void* data, size_t count, tuttiDataType_t dtype, int root);
  void allGatherHost(void* data, const int64_t* cuts, tuttiDataType_t dtype);
  void allToAllHost(const void* from, const std::vector<size_t>& sendCounts, void* to,
                    const std::vector<size_t>& receiveCounts, tuttiDataType_t dtype);
  /// Throws if the communicator has failed since: on CUDA calls return before they are done.
  void throwIfFailed() const;

  void allToAll(const void* from, const std::vector<size_t>& sendCounts, void* to,
                const std::vector<size_t>& receiveCounts, tuttiDataType_t dtype);

  /// `parts` are the sums of this rank's subtrees, each [sliceCuts[size]]; the tree's total of slice `rank` goes to
  /// `to`.  See sums.h.
  template <class T>
  void treeReduceScatter(const std::vector<const T*>& parts, T* to, const int64_t* leafCuts, const int64_t* sliceCuts);
  /// As above, and every rank gets all slices: to [sliceCuts[size]].
  template <class T>
  void treeAllReduce(const std::vector<const T*>& parts, T* to, const int64_t* leafCuts, const int64_t* sliceCuts);

 private:
  void read();
  /// call(copy of data in the device's memory), and data becomes what that is then.
  template <class Call>
  void staged(void* data, size_t bytes, const Call& call);

  tuttiComm_t comm_;
  Device* device_;
  int rank_ = 0, size_ = 1;
};

/// The ranks of `parent` with the same color, for a layer's own messages; ends with its parent, however that was made.
/// options  NULL: the parent's
tuttiComm_t splitFrom(tuttiComm_t parent, int color, int key, const tuttiConfig_t* options = nullptr);

/// Of a handle's private copy of a communicator; NULL: does nothing.  stopPrivate ends what is in flight on it, here
/// and on the other ranks, before the threads that use it end; endPrivate frees it, and waits for nobody after a stop.
void stopPrivate(tuttiComm_t own);
bool hasFailed(tuttiComm_t comm);  // or was revoked; NULL has not
void endPrivate(tuttiComm_t own, bool stopped);

template <class T>
constexpr tuttiDataType_t dtypeOf() {
  return sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64;
}

/// tuttiSplitEven with the failure thrown.
std::vector<int64_t> evenCuts(int64_t total, int64_t unit, int n);

}  // namespace tutti::parallel
