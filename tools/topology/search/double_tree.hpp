// Two binary trees over the same hosts such that who has others below it in one has none in the other (but for the
// first of an odd number of hosts, which has one in the one), so that together they use every port in both directions.
// Sanders, Speck & Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
// 35(12), 2009.
#pragma once

namespace tutti::topology {

/// The host above `host` in the first (form 0) or second (form 1) tree of n hosts; -1 at the root.
int treeParent(int host, int n, int form);

}  // namespace tutti::topology
