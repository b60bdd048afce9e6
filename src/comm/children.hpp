// Communicators made from communicators: split, shrink, grow.  Each gives a function that joins the child.
#pragma once

#include "src/comm/handle.hpp"

namespace tutti {

/// Who joins what.  Members find each other by the endpoints that the parent's ranks know of each other.
struct ChildPlan {
  std::shared_ptr<Session> session;
  JoinRequest request;  // rank and nRanks are the child's
};

/// Collective over parent.  color < 0: takes part; the result has no session.
Result<ChildPlan> planSplit(Comm& parent, int color, int key, bool share);

/// Not collective: every survivor computes the same.  excluded: sorted, without doubles.
Result<ChildPlan> planShrink(Comm& parent, const std::vector<int>& excluded, bool share);

/// Collective over parent; exactly one rank passes an id.
Result<ChildPlan> planGrow(Comm& parent, int nRanks, const tuttiUniqueId* id);

}  // namespace tutti
