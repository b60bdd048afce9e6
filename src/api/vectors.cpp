// Collectives with a count and a displacement per rank.
#include <algorithm>
#include <numeric>

#include "src/api/entry.hpp"

using namespace tutti;

namespace {

/// The counts of a v form, copied from the caller's arrays.
class CountsBuilder {
 public:
  explicit CountsBuilder(tuttiComm_t handle) : n_(handle == nullptr ? 0 : static_cast<size_t>(handle->nRanks)) {}

  void send(const size_t* counts, const size_t* displs, const char* name = "sendcounts") {
    copy(counts, name, &counts_->sendCounts);
    copy(displs, "displacements of sendbuff", &counts_->sendDispls);
  }
  void receive(const size_t* counts, const size_t* displs) {
    copy(counts, "recvcounts", &counts_->recvCounts);
    copy(displs, "displacements of recvbuff", &counts_->recvDispls);
  }
  const Status& status() const { return status_; }
  std::shared_ptr<const Counts> take() { return std::move(counts_); }
  const Counts& counts() const { return *counts_; }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

 private:
  void copy(const size_t* array, const char* name, std::vector<size_t>* to) {
    if (n_ == 0) return;
    if (array == nullptr) {
      fail(invalidArgument(ErrorCode::NullPointer, name, " is NULL; pass an array with an entry for each rank"));
      return;
    }
    to->assign(array, array + n_);
  }

  size_t n_;
  std::shared_ptr<Counts> counts_ = std::make_shared<Counts>();
  Status status_;
};

/// Blocks that are received must not overlap.
Status checkDisjoint(const std::vector<size_t>& counts, const std::vector<size_t>& displs) {
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return displs[a] < displs[b]; });
  size_t end = 0;
  size_t last = 0;
  for (const size_t i : order) {
    if (counts[i] == 0) continue;
    if (displs[i] < end)
      return invalidArgument(
          ErrorCode::CountsDisagree, "the blocks received from ranks ", last, " and ", i,
          " overlap; place each behind the end of the other (displacements and counts are elements)");
    end = displs[i] + counts[i];
    last = i;
  }
  return {};
}

tuttiResult_t enterCounts(const char* function, tuttiComm_t comm, Call call, CountsBuilder* builder,
                          tuttiStream_t stream) {
  if (const Result<CommUse> live = use(comm); !live.ok()) return reportCall(function, live.status(), comm);
  if (builder->status().ok()) {
    const Counts& c = builder->counts();
    builder->fail(checkDisjoint(c.recvCounts, c.recvDispls));
  }
  if (!builder->status().ok()) return reportCall(function, builder->status(), comm);
  call.counts = builder->take();
  return enterCall(function, comm, call, stream);
}

Call vectorCall(Collective which, const void* sendbuff, void* recvbuff, tuttiDataType_t dtype) {
  Call call;
  call.collective = which;
  call.sendbuff = sendbuff;
  call.recvbuff = recvbuff;
  call.dtype = dtype;
  return call;
}

bool isRoot(tuttiComm_t comm, int root) { return comm != nullptr && comm->rank == root; }

}  // namespace

extern "C" {

tuttiResult_t tuttiAllToAllv(const void* sendbuff, const size_t sendcounts[], const size_t sdispls[], void* recvbuff,
                             const size_t recvcounts[], const size_t rdispls[], tuttiDataType_t dtype, tuttiComm_t comm,
                             tuttiStream_t stream) {
  return guarded("AllToAllv", comm, [&] {
    CountsBuilder counts(comm);
    counts.send(sendcounts, sdispls);
    counts.receive(recvcounts, rdispls);
    if (counts.status().ok() && comm != nullptr) {
      const auto own = static_cast<size_t>(comm->rank);
      const Counts& c = counts.counts();
      if (c.sendCounts[own] != c.recvCounts[own]) {
        counts.fail(invalidArgument(ErrorCode::CountsDisagree, "sendcounts and recvcounts of the rank itself differ: ",
                                    c.sendCounts[own], " and ", c.recvCounts[own], "; give both the same number"));
      }
      if (sendbuff == recvbuff && (c.sendCounts != c.recvCounts || c.sendDispls != c.recvDispls)) {
        counts.fail(invalidArgument(
            ErrorCode::CountsDisagree,
            "send and receive counts or displacements differ although sendbuff is recvbuff; in place they "
            "must be equal"));
      }
    }
    return enterCounts("AllToAllv", comm, vectorCall(Collective::AllToAll, sendbuff, recvbuff, dtype), &counts, stream);
  });
}

tuttiResult_t tuttiAllGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t recvcounts[],
                              const size_t displs[], tuttiDataType_t dtype, tuttiComm_t comm, tuttiStream_t stream) {
  return guarded("AllGatherv", comm, [&] {
    CountsBuilder counts(comm);
    counts.receive(recvcounts, displs);
    if (counts.status().ok() && comm != nullptr &&
        counts.counts().recvCounts[static_cast<size_t>(comm->rank)] != sendcount) {
      counts.fail(invalidArgument(ErrorCode::CountsDisagree, "sendcount ", sendcount, " differs from recvcounts[",
                                  comm->rank, "] = ", counts.counts().recvCounts[static_cast<size_t>(comm->rank)],
                                  "; give both the same number"));
    }
    Call call = vectorCall(Collective::AllGather, sendbuff, recvbuff, dtype);
    call.count = sendcount;
    return enterCounts("AllGatherv", comm, call, &counts, stream);
  });
}

tuttiResult_t tuttiReduceScatterv(const void* sendbuff, void* recvbuff, const size_t recvcounts[],
                                  const size_t displs[], tuttiDataType_t dtype, tuttiRedOp_t op, tuttiComm_t comm,
                                  tuttiStream_t stream) {
  return guarded("ReduceScatterv", comm, [&] {
    CountsBuilder counts(comm);
    counts.send(recvcounts, displs, "recvcounts");
    Call call = vectorCall(Collective::ReduceScatter, sendbuff, recvbuff, dtype);
    call.op = op;
    if (counts.status().ok() && comm != nullptr) call.count = recvcounts[comm->rank];
    return enterCounts("ReduceScatterv", comm, call, &counts, stream);
  });
}

tuttiResult_t tuttiGatherv(const void* sendbuff, size_t sendcount, void* recvbuff, const size_t recvcounts[],
                           const size_t displs[], tuttiDataType_t dtype, int root, tuttiComm_t comm,
                           tuttiStream_t stream) {
  return guarded("Gatherv", comm, [&] {
    CountsBuilder counts(comm);
    Call call = vectorCall(Collective::Gather, sendbuff, recvbuff, dtype);
    call.count = sendcount;
    call.root = root;
    if (isRoot(comm, root)) {
      counts.receive(recvcounts, displs);
      if (counts.status().ok() && counts.counts().recvCounts[static_cast<size_t>(root)] != sendcount) {
        counts.fail(invalidArgument(
            ErrorCode::CountsDisagree, "sendcount ", sendcount, " of the root differs from recvcounts[", root,
            "] = ", counts.counts().recvCounts[static_cast<size_t>(root)], "; give both the same number"));
      }
    }
    return enterCounts("Gatherv", comm, call, &counts, stream);
  });
}

tuttiResult_t tuttiScatterv(const void* sendbuff, const size_t sendcounts[], const size_t displs[], void* recvbuff,
                            size_t recvcount, tuttiDataType_t dtype, int root, tuttiComm_t comm, tuttiStream_t stream) {
  return guarded("Scatterv", comm, [&] {
    CountsBuilder counts(comm);
    Call call = vectorCall(Collective::Scatter, sendbuff, recvbuff, dtype);
    call.count = recvcount;
    call.root = root;
    if (isRoot(comm, root)) {
      counts.send(sendcounts, displs);
      if (counts.status().ok() && counts.counts().sendCounts[static_cast<size_t>(root)] != recvcount) {
        counts.fail(invalidArgument(
            ErrorCode::CountsDisagree, "recvcount ", recvcount, " of the root differs from sendcounts[", root,
            "] = ", counts.counts().sendCounts[static_cast<size_t>(root)], "; give both the same number"));
      }
    }
    return enterCounts("Scatterv", comm, call, &counts, stream);
  });
}

}  // extern "C"
