#include "algorithms/patterns.hpp"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace tutti {

int floorPowerOfTwo(int n) {
  int power = 1;
  while (power <= n / 2) power *= 2;
  return power;
}

int ceilPowerOfTwo(int n) {
  const int power = floorPowerOfTwo(n);
  return power == n ? n : 2 * power;
}

int ceilLog2(int n) {
  int rounds = 0;
  for (int power = ceilPowerOfTwo(n); power > 1; power /= 2) ++rounds;
  return rounds;
}

std::vector<int> range(int first, int end) {
  std::vector<int> list(static_cast<size_t>(end - first));
  std::iota(list.begin(), list.end(), first);
  return list;
}

int piecesOf(size_t bytes, size_t slotBytes, int most) {
  const size_t pieces = (bytes + slotBytes - 1) / std::max<size_t>(1, slotBytes);
  return static_cast<int>(std::clamp<size_t>(pieces, 1, static_cast<size_t>(most)));
}

std::vector<int> circulantSkips(int n) {
  std::vector<int> skips{n};
  while (skips.back() > 1) skips.push_back((skips.back() + 1) / 2);
  return skips;
}

std::vector<int> powerSkips(int n) {
  std::vector<int> skips{n};
  for (int power = ceilPowerOfTwo(n) / 2; power >= 1; power /= 2) skips.push_back(power);
  return skips;
}

TreeNode binomialTree(int v, int n) {
  TreeNode node;
  if (v > 0) node.parent = v - lowBit(v);
  for (int h = v > 0 ? lowBit(v) / 2 : ceilPowerOfTwo(n) / 2; h >= 1; h /= 2) {
    if (v + h < n) node.children.push_back(v + h);
  }
  return node;
}

namespace {

int binaryParent(int v, int n) {
  if (v == 0) return -1;
  const int bit = lowBit(v);
  const int up = (v ^ bit) | (bit << 1);
  return up < n ? up : v ^ bit;
}

// The second tree is the first one with renamed members: mirrored if that swaps odd and even, else shifted by one.
int renamed(int v, int n) { return n % 2 == 0 ? n - 1 - v : wrap(v - 1, n); }
int renamedBack(int v, int n) { return n % 2 == 0 ? n - 1 - v : wrap(v + 1, n); }

}  // namespace

TreeNode binaryTree(int v, int n) {
  TreeNode node;
  node.parent = binaryParent(v, n);
  // Only these can be: the middle of the half below, and what lies a power of two above within v's lowest bit.
  const auto tryChild = [&](int child) {
    if (child >= 1 && child < n && binaryParent(child, n) == v) node.children.push_back(child);
  };
  if (v > 0 && lowBit(v) > 1) tryChild(v - lowBit(v) / 2);
  for (int h = 1; h < (v > 0 ? lowBit(v) : n) && h < n - v; h *= 2) tryChild(v + h);
  return node;
}

TreeNode secondBinaryTree(int v, int n) {
  TreeNode node = binaryTree(renamed(v, n), n);
  if (node.parent >= 0) node.parent = renamedBack(node.parent, n);
  for (int& child : node.children) child = renamedBack(child, n);
  return node;
}

int secondBinaryRoot(int n) { return renamedBack(0, n); }

TreeNode rooted(TreeNode node, int root, int n) {
  if (node.parent >= 0) node.parent = (node.parent + root) % n;
  for (int& child : node.children) child = (child + root) % n;
  return node;
}

TreeNode doubleTree(int rank, int root, int n, int which) {
  const int v = wrap(rank - root, n);
  const int others = n - 1;
  TreeNode node;  // members u of the tree are v - 1
  if (v == 0) {
    if (others > 0) node.children = {1 + (which == 0 ? 0 : secondBinaryRoot(others))};
  } else {
    node = which == 0 ? binaryTree(v - 1, others) : secondBinaryTree(v - 1, others);
    ++node.parent;  // the tree's root, -1, comes to hang from 0
    for (int& child : node.children) ++child;
  }
  return rooted(std::move(node), root, n);
}

namespace {

// The edges below u in its subtree of `size`, each named by its child: far first, depth first.
void appendPreOrder(int u, int size, std::vector<int>* edges) {
  for (int h = size / 2; h >= 1; h /= 2) {
    edges->push_back(u + h);
    appendPreOrder(u + h, h, edges);
  }
}

}  // namespace

std::vector<std::vector<int>> patSteps(int n, int aggregate) {
  const int all = ceilPowerOfTwo(n);
  const int width = all / std::min(aggregate, all);  // of a subtree
  std::vector<std::vector<int>> steps;
  const auto add = [&](int first, int stride) {
    std::vector<int> children;
    for (int v = first; v < n; v += stride) children.push_back(v);
    if (!children.empty()) steps.push_back(std::move(children));
  };
  for (int h = all / 2; h >= width; h /= 2) add(h, 2 * h);
  std::vector<int> edges;
  appendPreOrder(0, width, &edges);
  for (int edge : edges) add(edge, width);
  return steps;
}

int subtreesAbreast(const Shape& s) {
  const size_t fit = s.slotBytes / std::max<size_t>(1, s.bytes);
  const int most = ceilPowerOfTwo(s.nRanks);
  return floorPowerOfTwo(static_cast<int>(std::clamp<size_t>(fit, 1, static_cast<size_t>(most))));
}

namespace {

// The block that a member receives for each skip, relative to a phase of as many rounds as there are skips: its base
// block (the first that reaches it: the smallest skip on its way from 0) belongs to this phase, the others, negative,
// to the one before.  The search goes through the ways from 0 to v + n, largest skips first, and each time takes the
// first canonical way that ends no later than v + n - skip[k] and starts with a block that is still wanted.
class ReceiveSearch {
 public:
  ReceiveSearch(const std::vector<int>& skips, int v, int n)
      : skips_(skips), target_(v + n), q_(static_cast<int>(skips.size()) - 1), latest_(2 * n), blocks_(q_ + 1) {
    base_ = q_;
    for (int e = q_ - 1, rest = v; e >= 0 && base_ == q_; --e) {
      if (skips[e] == rest) base_ = e;
      if (skips[e] < rest) rest -= skips[e];
    }
    taken_.assign(q_ + 1, false);
    taken_[base_] = true;
  }

  std::vector<int> run() {
    search(0, q_, 0);
    blocks_.resize(q_);
    for (int& block : blocks_) block = block == q_ ? base_ : block - q_;
    return blocks_;
  }

 private:
  int search(int from, int e, int k) {
    for (; e >= 0; --e) {
      if (taken_[e]) continue;
      const int to = from + skips_[e];
      if (to > target_ - skips_[k] || to >= latest_) continue;
      if (k + 1 <= q_ && to <= target_ - skips_[k + 1]) k = search(to, e, k);
      if (k >= q_ || from > target_ - skips_[k + 1]) return k;
      latest_ = to;
      blocks_[k++] = e;
      taken_[e] = true;
    }
    return k;
  }

  const std::vector<int>& skips_;  // ascending, ending with n
  int target_;
  int q_;
  int latest_;
  int base_;
  std::vector<int> blocks_;
  std::vector<char> taken_;
};

}  // namespace

CirculantBroadcast::CirculantBroadcast(int nMembers, int numBlocks)
    : n(nMembers), nBlocks(numBlocks), nRounds(nMembers > 1 ? numBlocks - 1 + ceilLog2(nMembers) : 0) {
  skips = circulantSkips(n);
  std::reverse(skips.begin(), skips.end());
  skips.pop_back();
  const int q = static_cast<int>(skips.size());
  if (q > 0) firstSkip = static_cast<size_t>(wrap(-(nBlocks - 1), q));  // so that the last round ends a phase
}

std::vector<int> CirculantBroadcast::receives(int v) const {
  std::vector<int> rounds(nRounds, -1);
  if (v == 0 || n == 1) return rounds;
  std::vector<int> all = skips;
  all.push_back(n);
  const std::vector<int> inPhase = ReceiveSearch(all, v, n).run();
  const int q = static_cast<int>(skips.size());
  const int first = static_cast<int>(firstSkip);
  std::vector<char> have(nBlocks);
  for (int round = 0; round < nRounds; ++round) {
    const int phase = (first + round) / q;
    const int block = std::min(nBlocks - 1, inPhase[(first + round) % q] - first + q * phase);
    if (block < 0 || have[block]) continue;
    have[block] = 1;
    rounds[round] = block;
  }
  return rounds;
}

std::vector<int> nearCube(int n, int dims) {
  if (dims == 1) return n >= 2 ? std::vector<int>{n} : std::vector<int>{};
  std::vector<int> best;
  for (int first = 2; first <= n / first; ++first) {  // the smallest factor; larger is nearer to a cube
    if (n % first != 0) continue;
    std::vector<int> rest = nearCube(n / first, dims - 1);
    if (rest.empty() || rest.front() < first) continue;
    rest.insert(rest.begin(), first);
    best = rest;
  }
  return best;
}

std::vector<int> ringOrder(const Shape& shape) {
  if (std::is_sorted(shape.nodeOf.begin(), shape.nodeOf.end())) return range(0, shape.nRanks);
  std::vector<int> order;
  std::unordered_map<int, size_t> indexOf;  // of a node, in order of its first rank
  std::vector<std::vector<int>> nodes;
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    const auto [node, added] = indexOf.try_emplace(shape.nodeOf[rank], nodes.size());
    if (added) nodes.emplace_back();
    nodes[node->second].push_back(rank);
  }
  for (const auto& ranks : nodes) order.insert(order.end(), ranks.begin(), ranks.end());
  return order;
}

TreeNode chainFromRoot(const Shape& shape) {
  const std::vector<int> order = ringOrder(shape);
  const int n = shape.nRanks;
  const auto position = [&](int rank) {
    return static_cast<int>(std::find(order.begin(), order.end(), rank) - order.begin());
  };
  const int me = position(shape.rank);
  const int last = wrap(position(shape.root) - 1, n);
  TreeNode node;
  if (shape.rank != shape.root) node.parent = order[wrap(me - 1, n)];
  if (me != last) node.children = {order[wrap(me + 1, n)]};
  return node;
}

}  // namespace tutti
