// Roles of classes; see roles.hpp.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "src/sim/roles.hpp"

namespace tutti::sim {
namespace {

constexpr int kChecked = 4;              // nodes that a class is checked on
constexpr int kSampled = 1024;           // nodes that a mean is taken over
constexpr size_t kMostMembers = 100000;  // more, and there is nothing to gain

/// Some numbers of 1 .. n-1, the first, the last, and others by no pattern.
std::vector<int> sample(int n, int most) {
  std::vector<int> result;
  for (int i = 1; i < n && static_cast<int>(result.size()) < most; ++i) {
    result.push_back(n - 1 <= most ? i
                     : i == 1      ? 1
                     : i == 2      ? n - 1
                                   : 1 + static_cast<int>(mix(static_cast<uint64_t>(n), static_cast<uint64_t>(i)) %
                                                     static_cast<uint64_t>(n - 1)));
  }
  return result;
}

/// Ranks as a grid that closes in itself: going from rank 0 to the first rank of node k, every rank goes as far in each
/// dimension, which turns node 0 into node k.
class Action {
 public:
  /// dims: the fastest first; their product is the number of ranks.
  Action(std::vector<int> dims, int perNode) : dims_(std::move(dims)), perNode_(perNode) {}
  int rank(int rank, int k) const { return moved(rank, k * perNode_, 1); }
  int node(int node, int k) const { return rank(node * perNode_, k) / perNode_; }
  /// Where rank `rank` goes when node k goes to node 0.
  int back(int rank, int k) const { return moved(rank, k * perNode_, -1); }

 private:
  int moved(int rank, int by, int sign) const {
    int result = 0, unit = 1;
    for (const int d : dims_) {
      result += ((rank % d + sign * (by % d)) % d + d) % d * unit;
      rank /= d;
      by /= d;
      unit *= d;
    }
    return result;
  }
  std::vector<int> dims_;
  int perNode_;
};

bool sameUnder(const Action& action, int k, const Program& first, const Program& moved) {
  if (first.edges.size() != moved.edges.size() || fingerprint(first) != fingerprint(moved)) return false;
  for (size_t e = 0; e < first.edges.size(); ++e) {
    if (action.rank(first.edges[e], k) != moved.edges[e]) return false;
  }
  return true;
}

class Classes {
 public:
  Classes(const ProgramSource& source, int perNode)
      : source_(source), nodes_(source.shape.nRanks / perNode), perNode_(perNode), shape_(source.shape) {
    roles_.places = placesOf(shape_);
    roles_.classes = true;
  }

  Result<Roles> find() {
    if (!source_.symmetryOnly || !turnFirst()) buildNode(0, shape_);
    for (const std::vector<int>& dims : grids()) {
      const Action action(dims, perNode_);
      if (holds(action)) return bySymmetry(action);
    }
    if (source_.symmetryOnly)
      return invalidArgument(ErrorCode::NotSimulated, source_.name, " has no symmetry by nodes");
    return byRefinement();
  }

 private:
  /// All go round by whole nodes; of a power of two of nodes each changes places with another; as the algorithm says.
  std::vector<std::vector<int>> grids() const {
    std::vector<std::vector<int>> all = {{shape_.nRanks}};
    if ((nodes_ & (nodes_ - 1)) == 0) {
      std::vector<int> pairs = {perNode_};
      for (int rest = nodes_; rest > 1; rest /= 2) pairs.push_back(2);
      all.push_back(std::move(pairs));
    }
    if (!source_.grid.empty()) all.insert(all.begin(), source_.grid);
    return all;
  }

  std::vector<std::shared_ptr<const Program>>& buildNode(int node, Shape& shape) {
    auto& programs = built_[node];
    if (programs.empty()) {
      for (int local = 0; local < perNode_; ++local) {
        programs.push_back(
            std::make_shared<const Program>(interner_.intern(*buildProgram(source_, &shape, node * perNode_ + local))));
      }
    }
    return programs;
  }

  /// Node 0 from its first rank, where that tells what the others do: as many ranks further on, or with as many bits
  /// of their number exchanged.  Checked on the second and the last.
  bool turnFirst() {
    if (perNode_ < 4) return false;
    const auto first = buildProgram(source_, &shape_, 0);
    const auto second = buildProgram(source_, &shape_, 1), last = buildProgram(source_, &shape_, perNode_ - 1);
    const auto around = [&](int rank, int by) { return (rank + by) % shape_.nRanks; };
    const auto across = [&](int rank, int by) { return rank ^ by; };
    return turnBy(around, *first, *second, *last) || turnBy(across, *first, *second, *last);
  }

  template <class Turn>
  bool turnBy(const Turn& turn, const Program& first, const Program& second, const Program& last) {
    const auto turned = [&](int by) {
      Program program = first;
      for (int32_t& edge : program.edges) edge = turn(edge, by);
      return program;
    };
    const auto same = [&](int rank, const Program& other) {
      return turned(rank).edges == other.edges && *first.lanes == *other.lanes;
    };
    if (!same(1, second) || !same(perNode_ - 1, last)) return false;
    for (int local = 0; local < perNode_; ++local) {
      built_[0].push_back(std::make_shared<const Program>(turned(local)));
    }
    return true;
  }

  /// Whether whole nodes go onto whole nodes.
  bool keepsNodes(const Action& action) const {
    for (int rank = 0; rank < shape_.nRanks; ++rank) {
      if (action.rank(rank % perNode_, rank / perNode_) != rank) return false;
    }
    return true;
  }

  bool holds(const Action& action) {
    if (!keepsNodes(action)) return false;
    const std::vector<int> nodes = sample(nodes_, source_.checked);
    for (size_t i = 0; i < nodes.size(); ++i) {
      for (int local = 0; local < perNode_; ++local) {
        // The whole next node, of the others one rank each.
        const bool one = i >= 1 || source_.checked == 1;
        if (one && local != static_cast<int>(i) % perNode_) continue;
        const auto program = buildProgram(source_, &shape_, nodes[i] * perNode_ + local);
        if (!sameUnder(action, nodes[i], *built_[0][static_cast<size_t>(local)], *program)) return false;
      }
    }
    return true;
  }

  Result<Roles> bySymmetry(const Action& action) {
    for (int local = 0; local < perNode_; ++local) addMember(local, nodes_, built_[0][static_cast<size_t>(local)]);
    roles_.firstOf = {0, perNode_};
    roles_.nodeOf.assign(static_cast<size_t>(perNode_), 0);
    std::vector<EdgeIndex> index;
    for (const auto& program : roles_.programs) index.emplace_back(program->edges);
    std::map<int, double> switches;  // by node that the peer of node 0 is on
    for (int local = 0; local < perNode_; ++local) {
      for (const int peer : roles_.programs[static_cast<size_t>(local)]->edges) {
        const int node = peer / perNode_, like = peer % perNode_;
        // What this rank is to the peer is what its image is to the peer's image on node 0.
        const int back = index[static_cast<size_t>(action.back(peer, node))].of(action.back(local, node));
        if (back < 0) return unmatched(local, peer);
        if (!switches.contains(node)) switches[node] = meanSwitchesUs(action, node);
        roles_.edges[static_cast<size_t>(local)].push_back({like, back, peer, switches[node]});
      }
    }
    return std::move(roles_);
  }

  double meanSwitchesUs(const Action& action, int node) const {
    if (node == 0 || !source_.switchesUs) return 0;
    const int count = std::min(nodes_, kSampled);
    double sum = 0;
    for (int i = 0; i < count; ++i) {
      const int from = static_cast<int>(int64_t{i} * nodes_ / count);
      sum += source_.switchesUs(from * perNode_, action.node(node, from) * perNode_);
    }
    return sum / count;
  }

  void addMember(int rank, int64_t nRanks, std::shared_ptr<const Program> program) {
    roles_.rankOf.push_back(rank);
    roles_.nRanksOf.push_back(nRanks);
    roles_.programs.push_back(std::move(program));
    roles_.edges.emplace_back();
  }

  struct Known {
    uint64_t print = 0;
    std::vector<int32_t> edges, back;
  };

  /// Programs of all ranks for few bytes: fingerprints and who is joined to whom.
  Status look(size_t bytes) {
    known_.assign(roles_.places.size(), {});
    Shape shape = source_.shape;
    shape.bytes = bytes;
    uint64_t steps = 0;
    for (size_t rank = 0; rank < known_.size(); ++rank) {
      const auto program = buildProgram(source_, &shape, static_cast<int>(rank));
      for (const LaneProgram& lane : *program->lanes) steps += lane.steps.size();
      if (steps > source_.mostSteps) {
        return invalidArgument(ErrorCode::NotSimulated, source_.name, " on ", known_.size(),
                               " ranks has neither symmetry nor few steps");
      }
      known_[rank] = {fingerprint(*program), program->edges, {}};
    }
    for (size_t rank = 0; rank < known_.size(); ++rank) {
      for (const int32_t peer : known_[rank].edges) {
        const auto& theirs = known_[static_cast<size_t>(peer)].edges;
        const auto found = std::find(theirs.begin(), theirs.end(), static_cast<int32_t>(rank));
        if (found == theirs.end()) return unmatched(static_cast<int>(rank), peer);
        known_[rank].back.push_back(static_cast<int32_t>(found - theirs.begin()));
      }
    }
    return {};
  }

  /// Number the colours in order of their first node; how many there are.
  static int number(const std::vector<uint64_t>& colours, std::vector<int>* classOf) {
    std::unordered_map<uint64_t, int> numbers;
    for (size_t node = 0; node < colours.size(); ++node) {
      (*classOf)[node] = numbers.try_emplace(colours[node], static_cast<int>(numbers.size())).first->second;
    }
    return static_cast<int>(numbers.size());
  }

  void refine() {
    classOf_.assign(static_cast<size_t>(nodes_), 0);
    std::vector<uint64_t> colours(classOf_.size());
    for (int before = 0;;) {
      for (size_t node = 0; node < colours.size(); ++node) {
        uint64_t colour = static_cast<uint64_t>(classOf_[node]);
        for (size_t rank = node * static_cast<size_t>(perNode_); rank < (node + 1) * static_cast<size_t>(perNode_);
             ++rank) {
          colour = mix(colour, known_[rank].print);
          for (size_t e = 0; e < known_[rank].edges.size(); ++e) {
            const auto peer = static_cast<size_t>(known_[rank].edges[e]);
            const size_t there = peer / static_cast<size_t>(perNode_);
            colour = mix(colour, static_cast<uint64_t>(classOf_[there]) * 2 + (there == node ? 1 : 0));
            colour = mix(colour, peer % static_cast<size_t>(perNode_));
            colour = mix(colour, static_cast<uint64_t>(known_[rank].back[e]));
          }
        }
        colours[node] = colour;
      }
      nClasses_ = number(colours, &classOf_);
      if (nClasses_ == before) return;
      before = nClasses_;
    }
  }

  /// Whether nodes of a class have the same programs also for the real number of bytes.
  bool holdForAllBytes(const std::vector<std::vector<int>>& nodesOf) {
    for (const auto& nodes : nodesOf) {
      const auto first = buildNode(nodes.front(), shape_);
      for (int local = 0; local < perNode_; ++local) {
        const auto rank = static_cast<size_t>(nodes.front() * perNode_ + local);
        if (first[static_cast<size_t>(local)]->edges != known_[rank].edges) return false;
      }
      for (const int i : sample(static_cast<int>(nodes.size()), kChecked)) {
        const int node = nodes[static_cast<size_t>(i)];
        for (int local = 0; local < perNode_; ++local) {
          const int rank = node * perNode_ + local;
          const auto program = buildProgram(source_, &shape_, rank);
          if (program->edges != known_[static_cast<size_t>(rank)].edges) return false;
          if (fingerprint(*program) != fingerprint(*first[static_cast<size_t>(local)])) return false;
        }
      }
    }
    return true;
  }

  Result<Roles> byRefinement() {
    for (const size_t bytes : {size_t{1}, source_.shape.bytes}) {
      TUTTI_TRY(look(bytes));
      refine();
      if (static_cast<size_t>(nClasses_) * static_cast<size_t>(perNode_) > kMostMembers) {
        return invalidArgument(ErrorCode::NotSimulated, source_.name, " on ", nodes_, " nodes has ", nClasses_,
                               " classes of nodes");
      }
      std::vector<std::vector<int>> nodesOf(static_cast<size_t>(nClasses_));
      for (int node = 0; node < nodes_; ++node) {
        nodesOf[static_cast<size_t>(classOf_[static_cast<size_t>(node)])].push_back(node);
      }
      if (bytes == source_.shape.bytes || holdForAllBytes(nodesOf)) return ofClasses(nodesOf);
    }
    return invalidArgument(ErrorCode::NotSimulated, "no classes were found");
  }

  Result<Roles> ofClasses(const std::vector<std::vector<int>>& nodesOf) {
    for (const auto& nodes : nodesOf) {
      roles_.firstOf.push_back(static_cast<int>(roles_.programs.size()));
      const auto programs = buildNode(nodes.front(), shape_);
      for (int local = 0; local < perNode_; ++local) {
        const int rank = nodes.front() * perNode_ + local;
        const auto member = roles_.programs.size();
        addMember(rank, static_cast<int64_t>(nodes.size()), programs[static_cast<size_t>(local)]);
        roles_.nodeOf.push_back(static_cast<int>(roles_.firstOf.size()) - 1);
        const Known& known = known_[static_cast<size_t>(rank)];
        for (size_t e = 0; e < known.edges.size(); ++e) {
          const int peer = known.edges[e];
          const int like = classOf_[static_cast<size_t>(peer / perNode_)] * perNode_ + peer % perNode_;
          roles_.edges[member].push_back({like, known.back[e], peer, meanSwitchesUs(nodes, local, e)});
        }
      }
    }
    roles_.firstOf.push_back(static_cast<int>(roles_.programs.size()));
    return std::move(roles_);
  }

  double meanSwitchesUs(const std::vector<int>& nodes, int local, size_t edge) const {
    if (!source_.switchesUs) return 0;
    const size_t count = std::min<size_t>(nodes.size(), kSampled);
    double sum = 0;
    for (size_t i = 0; i < count; ++i) {
      const int rank = nodes[i * nodes.size() / count] * perNode_ + local;
      const int peer = known_[static_cast<size_t>(rank)].edges[edge];
      sum += source_.switchesUs(rank, peer);
    }
    return sum / static_cast<double>(count);
  }

  const ProgramSource& source_;
  const int nodes_;
  const int perNode_;
  Shape shape_;
  Roles roles_;
  std::map<int, std::vector<std::shared_ptr<const Program>>> built_;  // by node
  Interner interner_;
  std::vector<Known> known_;  // [rank]
  std::vector<int> classOf_;  // [node]
  int nClasses_ = 0;
};

}  // namespace

Result<Roles> classRoles(const ProgramSource& source) {
  const int perNode = source.together > 0 ? source.together : ranksPerNode(source.shape);
  if (perNode == 0) return invalidArgument(ErrorCode::NotSimulated, "classes of ranks need nodes that are alike");
  ProgramSource alike = source;
  alike.options.gathers = false;
  return Classes(alike, perNode).find();
}

}  // namespace tutti::sim
