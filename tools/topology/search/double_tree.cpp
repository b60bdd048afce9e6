#include "tools/topology/search/double_tree.hpp"

namespace tutti::topology {
namespace {

/// Host i is at the height of its lowest set bit, so that odd hosts are leaves; 0 is above all.
int firstTree(int host, int n) {
  if (host == 0) return -1;
  const int bit = host & -host;
  const int parent = (host ^ bit) | (bit << 1);
  return parent < n ? parent : host ^ bit;
}

}  // namespace

int treeParent(int host, int n, int form) {
  if (form == 0) return firstTree(host, n);
  // Even and odd hosts change places: by counting from the other end where n is even, else by one further.
  const bool even = n % 2 == 0;
  const int parent = firstTree(even ? n - 1 - host : (host + n - 1) % n, n);
  if (parent < 0) return -1;
  return even ? n - 1 - parent : (parent + 1) % n;
}

}  // namespace tutti::topology
