#include "algorithms/phases.hpp"

#include <algorithm>

namespace tutti {

namespace {

// The blocks of positions [first, end), wrapped.
std::vector<int> blocksOf(const Parts& parts, int first, int end) {
  std::vector<int> list;
  for (int p = first; p < end; ++p) {
    const std::vector<int>& part = parts[wrap(p, static_cast<int>(parts.size()))];
    list.insert(list.end(), part.begin(), part.end());
  }
  return list;
}

}  // namespace

int Group::at(int position) const { return ranks[wrap(position, size())]; }

Group everyone(const Shape& shape) { return {range(0, shape.nRanks), shape.rank}; }

Group groupOf(std::vector<int> ranks, int rank) {
  const auto me = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
  return {std::move(ranks), static_cast<int>(me)};
}

Parts partPerPosition(int n) {
  Parts parts(n);
  for (int p = 0; p < n; ++p) parts[p] = {p};
  return parts;
}

size_t longest(const Parts& parts) {
  size_t most = 0;
  for (const auto& list : parts) most = std::max(most, list.size());
  return most;
}

Parts partPerRank(const Group& group) {
  Parts parts;
  for (int rank : group.ranks) parts.push_back({rank});
  return parts;
}

void exchange(Blocks& blocks, int to, const std::vector<int>& sent, int from, const std::vector<int>& received,
              Arrival arrival) {
  blocks.step();
  for (size_t i = 0; i < std::max(sent.size(), received.size()); ++i) {
    if (i < sent.size()) blocks.send(to, sent[i]);
    if (i >= received.size()) continue;
    if (arrival == Arrival::Reduce) {
      blocks.recvReduce(from, received[i]);
    } else {
      blocks.recv(from, received[i]);
    }
  }
  blocks.endStep();
}

void ringReduceScatter(Blocks& blocks, const Group& group, const Parts& parts) {
  const int n = group.size();
  for (int step = 0; step < n - 1; ++step) {
    exchange(blocks, group.at(group.me + 1), parts[wrap(group.me - step - 1, n)], group.at(group.me - 1),
             parts[wrap(group.me - step - 2, n)], Arrival::Reduce);
  }
}

void ringAllGather(Blocks& blocks, const Group& group, const Parts& parts) {
  const int n = group.size();
  for (int step = 0; step < n - 1; ++step) {
    exchange(blocks, group.at(group.me + 1), parts[wrap(group.me - step, n)], group.at(group.me - 1),
             parts[wrap(group.me - step - 1, n)], Arrival::Store);
  }
}

void directReduceScatter(Blocks& blocks, const Group& group, const Parts& parts) {
  const int n = group.size();
  const std::vector<int>& mine = parts[group.me];
  blocks.step();
  for (size_t i = 0; i < longest(parts); ++i) {
    for (int d = 1; d < n; ++d) {
      const std::vector<int>& theirs = parts[wrap(group.me + d, n)];
      if (i < theirs.size()) blocks.send(group.at(group.me + d), theirs[i]);
    }
    for (int d = 1; d < n && i < mine.size(); ++d) blocks.recvReduce(group.at(group.me - d), mine[i]);
  }
  blocks.endStep();
}

void directAllGather(Blocks& blocks, const Group& group, const Parts& parts, int complete) {
  const int n = group.size();
  const std::vector<int>& mine = parts[group.me];
  blocks.step();
  for (size_t i = 0; i < longest(parts); ++i) {
    for (int d = 1; d < n && i < mine.size(); ++d) {
      if (wrap(group.me + d, n) != complete) blocks.send(group.at(group.me + d), mine[i]);
    }
    for (int d = 1; d < n && group.me != complete; ++d) {
      const std::vector<int>& theirs = parts[wrap(group.me - d, n)];
      if (i < theirs.size()) blocks.recv(group.at(group.me - d), theirs[i]);
    }
  }
  blocks.endStep();
}

// Before the round from skip s to skip h, position p holds partial sums for positions p .. p+s-1; it hands those for
// p+h .. p+s-1 to p+h, and gets the ones for p .. p+s-h-1 from p-h.
void skipReduceScatter(Blocks& blocks, const Group& group, const Parts& parts, const std::vector<int>& skips) {
  for (size_t k = 0; k + 1 < skips.size(); ++k) {
    const int s = skips[k];
    const int h = skips[k + 1];
    exchange(blocks, group.at(group.me + h), blocksOf(parts, group.me + h, group.me + s), group.at(group.me - h),
             blocksOf(parts, group.me, group.me + s - h), Arrival::Reduce);
  }
}

// The same backwards: from p .. p+h-1 to p .. p+s-1.
void skipAllGather(Blocks& blocks, const Group& group, const Parts& parts, const std::vector<int>& skips,
                   int complete) {
  for (size_t k = skips.size() - 1; k-- > 0;) {
    const int s = skips[k];
    const int h = skips[k + 1];
    std::vector<int> sent = blocksOf(parts, group.me, group.me + s - h);
    std::vector<int> received = blocksOf(parts, group.me + h, group.me + s);
    if (wrap(group.me - h, group.size()) == complete) sent.clear();
    if (group.me == complete) received.clear();
    exchange(blocks, group.at(group.me - h), sent, group.at(group.me + h), received, Arrival::Store);
  }
}

void halvingReduceScatter(Blocks& blocks, const Group& group, const Parts& parts) {
  for (int mask = group.size() / 2; mask >= 1; mask /= 2) {
    const int partner = group.me ^ mask;
    const int theirs = partner & ~(mask - 1);
    const int mine = group.me & ~(mask - 1);
    exchange(blocks, group.at(partner), blocksOf(parts, theirs, theirs + mask), group.at(partner),
             blocksOf(parts, mine, mine + mask), Arrival::Reduce);
  }
}

void doublingAllGather(Blocks& blocks, const Group& group, const Parts& parts) {
  for (int mask = 1; mask < group.size(); mask *= 2) {
    const int partner = group.me ^ mask;
    const int theirs = partner & ~(mask - 1);
    const int mine = group.me & ~(mask - 1);
    exchange(blocks, group.at(partner), blocksOf(parts, mine, mine + mask), group.at(partner),
             blocksOf(parts, theirs, theirs + mask), Arrival::Store);
  }
}

void doublingAllReduce(Blocks& blocks, const Group& group, const std::vector<int>& list) {
  const int core = floorPowerOfTwo(group.size());
  if (group.me >= core) {
    const int partner = group.at(group.me - core);
    exchange(blocks, partner, list, 0, {}, Arrival::Store);
    exchange(blocks, 0, {}, partner, list, Arrival::Store);
    return;
  }
  const bool hasExtra = group.me + core < group.size();
  if (hasExtra) exchange(blocks, 0, {}, group.at(group.me + core), list, Arrival::Reduce);
  for (int mask = 1; mask < core; mask *= 2) {
    const int partner = group.at(group.me ^ mask);
    exchange(blocks, partner, list, partner, list, Arrival::Reduce);
  }
  if (hasExtra) exchange(blocks, group.at(group.me + core), list, 0, {}, Arrival::Store);
}

namespace {

/// Calls `handle` with as many blocks of the list as a message has, then with the next.
template <class Handle>
void byMessage(const Blocks& blocks, const std::vector<int>& list, Handle handle) {
  for (size_t begin = 0, end = 0; begin < list.size(); begin = end) {
    end = begin + std::min(blocks.mostChunks(), list.size() - begin);
    handle(std::vector<int>(list.begin() + static_cast<std::ptrdiff_t>(begin),
                            list.begin() + static_cast<std::ptrdiff_t>(end)));
  }
}

}  // namespace

void treeBroadcast(Blocks& blocks, const TreeNode& node, const std::vector<int>& list) {
  byMessage(blocks, list, [&](const std::vector<int>& message) {
    if (node.parent >= 0) exchange(blocks, 0, {}, node.parent, message, Arrival::Store);
    for (int child : node.children) exchange(blocks, child, message, 0, {}, Arrival::Store);
  });
}

void treeReduce(Blocks& blocks, const TreeNode& node, const std::vector<int>& list) {
  byMessage(blocks, list, [&](const std::vector<int>& message) {
    for (size_t i = node.children.size(); i-- > 0;) {
      exchange(blocks, 0, {}, node.children[i], message, Arrival::Reduce);
    }
    if (node.parent >= 0) exchange(blocks, node.parent, message, 0, {}, Arrival::Store);
  });
}

}  // namespace tutti
