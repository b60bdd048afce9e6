// The table of geometries against what MPI says of each collective, carried out on small numbers of ranks.
//
// Every element of every input is told from all others, and an element of an output is the set of those that it is
// made of; what the rows claim is looked up in the result, without their help.
//   Source: MPI 4.1, chapter 6 (each collective "as if" by sends and receives, and what MPI_IN_PLACE means there)
#include "src/collective/geometry.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/base/text.hpp"

using namespace tutti;

namespace {

constexpr int kCount = 3;
constexpr int kMostRanks = 9;

using Element = std::set<std::pair<int, int>>;  // {rank, index in its input}
using Vector = std::vector<Element>;

struct Buffers {
  Vector in, out;  // empty: the rank has none
};

Vector inputOf(int rank, int elements) {
  Vector v;
  for (int i = 0; i < elements; ++i) v.push_back({{rank, i}});
  return v;
}

void append(Vector* to, const Vector& from, int first, int elements) {
  to->insert(to->end(), from.begin() + first, from.begin() + first + elements);
}

Vector sumOf(const std::vector<Buffers>& ranks) {
  Vector sum(ranks[0].in.size());
  for (const Buffers& rank : ranks) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i].insert(rank.in[i].begin(), rank.in[i].end());
  }
  return sum;
}

/// The buffers of all ranks after a collective.
std::vector<Buffers> carryOut(Collective c, int n, int root) {
  std::vector<Buffers> ranks(static_cast<size_t>(n));
  const auto at = [&](int r) -> Buffers& { return ranks[static_cast<size_t>(r)]; };
  const auto everyoneGives = [&](int elements) {
    for (int r = 0; r < n; ++r) at(r).in = inputOf(r, elements);
  };
  switch (c) {
    case Collective::AllReduce:
      everyoneGives(kCount);
      for (Buffers& rank : ranks) rank.out = sumOf(ranks);
      break;
    case Collective::Broadcast:
      at(root).in = inputOf(root, kCount);
      for (Buffers& rank : ranks) rank.out = at(root).in;
      break;
    case Collective::Reduce:
      everyoneGives(kCount);
      at(root).out = sumOf(ranks);
      break;
    case Collective::AllGather:
      everyoneGives(kCount);
      for (int r = 0; r < n; ++r) {
        for (int from = 0; from < n; ++from) append(&at(r).out, at(from).in, 0, kCount);
      }
      break;
    case Collective::ReduceScatter:
      everyoneGives(n * kCount);
      for (int r = 0; r < n; ++r) append(&at(r).out, sumOf(ranks), r * kCount, kCount);
      break;
    case Collective::AllToAll:
      everyoneGives(n * kCount);
      for (int r = 0; r < n; ++r) {
        for (int from = 0; from < n; ++from) append(&at(r).out, at(from).in, r * kCount, kCount);
      }
      break;
    case Collective::Gather:
      everyoneGives(kCount);
      for (int from = 0; from < n; ++from) append(&at(root).out, at(from).in, 0, kCount);
      break;
    case Collective::Scatter:
      at(root).in = inputOf(root, n * kCount);
      for (int r = 0; r < n; ++r) append(&at(r).out, at(root).in, r * kCount, kCount);
      break;
    case Collective::Barrier: break;
  }
  return ranks;
}

std::string checkSizes(Collective c, int n, int root, const std::vector<Buffers>& ranks) {
  for (int r = 0; r < n; ++r) {
    const auto in = static_cast<int>(ranks[static_cast<size_t>(r)].in.size());
    const auto out = static_cast<int>(ranks[static_cast<size_t>(r)].out.size());
    const std::string who = cat("rank ", r, ": ");
    if (hasInput(c, r, root) != (in > 0)) return who + "input";
    if (hasOutput(c, r, root) != (out > 0)) return who + "output";
    if (mayBeInPlace(c, r, root) != (in > 0 && out > 0)) return who + "both";
    if (inputChunks(c, r, root, n) * kCount != in) return who + cat(inputChunks(c, r, root, n), " chunks of input");
    if (outputChunks(c, r, root, n) * kCount != out) return who + cat(outputChunks(c, r, root, n), " of output");
    // A vector may be cut, here to elements, blocks may not.
    const int cut = std::max(in, out) == kCount && isOneVector(c) ? kCount : 1;
    if (inputChunks(c, r, root, n, kCount) != inputChunks(c, r, root, n) * cut) return who + "cut input";
    if (outputChunks(c, r, root, n, kCount) != outputChunks(c, r, root, n) * cut) return who + "cut output";
  }
  return "";
}

/// What an element of an output is made of, by sourceOf().
Element expected(Collective c, int n, int rank, int root, int index) {
  const Source source = sourceOf(c, rank, root, index / kCount);
  const int at = source.chunk * kCount + index % kCount;
  if (source.rank != kCombined) return {{source.rank, at}};
  Element all;
  for (int r = 0; r < n; ++r) all.insert({r, at});
  return all;
}

std::string checkSources(Collective c, int n, int root, const std::vector<Buffers>& ranks) {
  for (int r = 0; r < n; ++r) {
    const Vector& out = ranks[static_cast<size_t>(r)].out;
    for (size_t i = 0; i < out.size(); ++i) {
      if (out[i] != expected(c, n, r, root, static_cast<int>(i))) return cat("rank ", r, " element ", i);
    }
  }
  return "";
}

/// Elements from the beginning of a rank's input to that of its output.
int offsetInPlace(Collective c, int rank) {
  switch (inPlaceOf(c)) {
    case InPlace::Same: return 0;
    case InPlace::InputInOutput: return -rank * kCount;
    case InPlace::OutputInInput: return rank * kCount;
  }
  return 0;
}

// In place, what a rank gives to its own output lies where it goes.
std::string checkInPlace(Collective c, const std::vector<Buffers>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    const int rank = static_cast<int>(r);
    int own = 0;
    for (size_t i = 0; i < ranks[r].out.size(); ++i) {
      for (const auto& [from, index] : ranks[r].out[i]) {
        if (from != rank) continue;
        ++own;
        if (index - static_cast<int>(i) != offsetInPlace(c, rank)) return cat("rank ", r, " element ", i);
      }
    }
    if ((own > 0) != (!ranks[r].in.empty() && !ranks[r].out.empty())) return cat("rank ", r, " gives itself nothing");
  }
  return "";
}

/// Whether any element of a rank's output satisfies what is asked.
bool anyElement(const Buffers& rank, const std::function<bool(const Element&)>& ask) {
  return std::any_of(rank.out.begin(), rank.out.end(), ask);
}

std::string checkKinds(Collective c, int n, int root, const std::vector<Buffers>& ranks) {
  size_t largest = 0;
  bool combines = false, everyoneSends = true, everyoneReceives = true;
  for (int r = 0; r < n; ++r) {
    const Buffers& rank = ranks[static_cast<size_t>(r)];
    largest = std::max({largest, rank.in.size(), rank.out.size()});
    combines = combines || anyElement(rank, [](const Element& e) { return e.size() > 1; });
    everyoneReceives = everyoneReceives && anyElement(rank, [r](const Element& e) {
                         return std::any_of(e.begin(), e.end(), [r](const auto& part) { return part.first != r; });
                       });
    bool sends = false;
    for (int to = 0; to < n; ++to) {
      const auto fromUs = [r](const auto& part) { return part.first == r; };
      sends = sends || (to != r && anyElement(ranks[static_cast<size_t>(to)], [&](const Element& e) {
                          return std::any_of(e.begin(), e.end(), fromUs);
                        }));
    }
    everyoneSends = everyoneSends && sends;
  }
  if (largest > 0 && blocksOfCall(c, n) * kCount != static_cast<int>(largest)) return "blocks of the call";
  if (isOneVector(c) != (largest == kCount)) return "one vector";
  if (reduces(c) != combines) return "reduces";
  if (goesBothWays(c) != (everyoneSends && everyoneReceives)) return "both ways";
  const auto with = [&](int other) {
    std::vector<std::pair<Vector, Vector>> all;
    for (const Buffers& rank : carryOut(c, n, other)) all.emplace_back(rank.in, rank.out);
    return all;
  };
  return isRooted(c) == (with(root) != with((root + 1) % n)) ? "" : "root";
}

}  // namespace

TEST_CASE("the table says of every collective what MPI's text has done") {
  for (int i = 0; i < kNumCollectives; ++i) {
    const auto c = static_cast<Collective>(i);
    for (int n = 1; n <= kMostRanks; ++n) {
      for (int root = 0; root < n; ++root) {
        const std::vector<Buffers> ranks = carryOut(c, n, root);
        CAPTURE(collectiveName(c), n, root);
        CHECK(checkSizes(c, n, root, ranks) == "");
        CHECK(checkSources(c, n, root, ranks) == "");
        CHECK(checkInPlace(c, ranks) == "");
        if (n > 1) CHECK(checkKinds(c, n, root, ranks) == "");
      }
    }
  }
}

TEST_CASE("the root's side of a collective has its buffer on one rank") {
  for (int i = 0; i < kNumCollectives; ++i) {
    const auto c = static_cast<Collective>(i);
    const std::vector<Buffers> ranks = carryOut(c, 4, 2);
    CAPTURE(collectiveName(c));
    const auto having = [&](const Vector Buffers::*buffer) {
      return std::count_if(ranks.begin(), ranks.end(), [&](const Buffers& rank) { return !(rank.*buffer).empty(); });
    };
    CHECK(startsAtRoot(c) == (having(&Buffers::in) == 1));
    CHECK(endsAtRoot(c) == (having(&Buffers::out) == 1));
  }
}

// Their arguments: one list of counts, which is the same on all ranks.  MPI_Alltoallv has two, which no two ranks
// share, and the others have theirs on the root.
TEST_CASE("of two v forms every rank knows all blocks") {
  for (int i = 0; i < kNumCollectives; ++i) {
    const auto c = static_cast<Collective>(i);
    CAPTURE(collectiveName(c));
    CHECK(everyoneKnowsBlocks(c) == (c == Collective::AllGather || c == Collective::ReduceScatter));
  }
}
