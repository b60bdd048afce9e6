// Communicators made from communicators: split, shrink, grow.  Each gives a function that joins the child.
#pragma once

#include "src/comm/handle.hpp"

namespace tutti {

/// A child communicator to join.  Members find each other by the control addresses that the parent's ranks know.
struct ChildPlan {
  std::shared_ptr<Session> session;
  JoinRequest request;  // rank and nRanks are the child's
};

/// Collective over parent.  color < 0: takes part; the result has no session.
/// Errors of this and planGrow, the same on all ranks: InvalidUsage: the ranks have not made the same call;
/// RemoteError: a rank has died or left.  waits: the caller makes no other calls meanwhile.
Result<ChildPlan> planSplit(Comm& parent, int color, int key, bool share, bool waits);

/// Collective over parent; exactly one rank passes an id.
Result<ChildPlan> planGrow(Comm& parent, int nRanks, const tuttiUniqueId* id, bool waits);

/// `why` a grow has failed on this rank; the new ranks hear it, if it has their id.
Status growFailed(Comm& parent, int nRanks, const tuttiUniqueId* id, const Status& why);

/// Join as planned.  A failure of the parent (`parent` is its handle's) ends that; a parent that is freed does not.
Result<std::unique_ptr<Comm>> joinPlanned(AbortState* parent, ChildPlan child, const CommSettings& settings,
                                          AbortState* abortState);

/// Collective over those ranks of parent that neither died nor left nor are excluded; ends once all that are left then
/// have the same child, or on all with the same error.  excluded: of any of them; others may name others.  aborts: the
/// parent has failed, or is in use.
/// Takes no notice of failures of the parent.  Errors: RemoteError: the others go on without this rank, or the child's
/// join has failed on some rank; InvalidUsage: a rank has made another call; Timeout: a rank that lives has not called.
Result<std::unique_ptr<Comm>> joinShrunk(Comm& parent, const std::vector<int>& excluded, bool aborts,
                                         const CommSettings& settings, AbortState* abortState);

}  // namespace tutti
