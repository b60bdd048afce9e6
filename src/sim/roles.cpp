#include "src/sim/roles.hpp"

#include <algorithm>

#include "src/sim/role_parts.hpp"

namespace tutti::sim {

std::vector<Place> placesOf(const Cluster& cluster, const Task& task) {
  std::vector<bool> lost(static_cast<size_t>(cluster.nRanks()));
  for (const int rank : task.lostRanks) lost[static_cast<size_t>(rank)] = true;
  std::vector<Place> places;
  for (int rank = 0; rank < cluster.nRanks(); ++rank) {
    if (!lost[static_cast<size_t>(rank)]) places.push_back({rank / cluster.ranksPerNode, rank % cluster.ranksPerNode});
  }
  return places;
}

Shape shapeOf(const Task& task, const std::vector<Place>& places, size_t bytes) {
  Shape shape;
  shape.collective = task.algorithm->collective;
  shape.nRanks = static_cast<int>(places.size());
  shape.root = task.root;
  shape.inPlace = task.inPlace;
  shape.bytes = bytes;
  shape.slotBytes = static_cast<size_t>(task.options.sliceBytes);
  if (places.front().node == places.back().node) return shape;
  int node = -1, before = -1;
  for (const Place& place : places) {
    if (place.node != before) ++node;  // a node may have lost all of its ranks
    before = place.node;
    shape.nodeOf.push_back(node);
  }
  return shape;
}

Status checkTask(const Task& task, const std::vector<Place>& places, size_t bytes) {
  if (places.empty()) return invalidArgument("no rank is left");
  const Shape shape = shapeOf(task, places, bytes);
  if (task.root < 0 || task.root >= shape.nRanks) {
    return invalidArgument("root ", task.root, " is none of ", shape.nRanks, " ranks");
  }
  if (!task.algorithm->supports(shape)) {
    return invalidArgument(task.algorithm->name, " does not work for ", shape.nRanks, " ranks",
                           shape.nodeOf.empty() ? " on one node" : "");
  }
  return {};
}

std::shared_ptr<const Program> buildProgram(const Task& task, Shape* shape, int rank) {
  shape->rank = rank;
  return std::make_shared<const Program>(programOf(task.algorithm->build(*shape), shape->bytes, task.options));
}

int edgeTo(const Program& program, int rank) {
  const auto found = std::find(program.edges.begin(), program.edges.end(), rank);
  return found == program.edges.end() ? -1 : static_cast<int>(found - program.edges.begin());
}

EdgeIndex::EdgeIndex(const std::vector<int32_t>& edges) {
  for (size_t i = 0; i < edges.size(); ++i) sorted_.emplace_back(edges[i], static_cast<int32_t>(i));
  std::sort(sorted_.begin(), sorted_.end());
}

int EdgeIndex::of(int rank) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(rank, 0));
  return found == sorted_.end() || found->first != rank ? -1 : found->second;
}

Status unmatched(int from, int to) {
  return internalError("rank ", from, " has to do with rank ", to, ", which does not know of it");
}

Result<Roles> allRoles(const Network& network, const Task& task) {
  Roles roles;
  roles.places = placesOf(network.cluster(), task);
  TUTTI_TRY(checkTask(task, roles.places, task.bytes));
  Shape shape = shapeOf(task, roles.places, task.bytes);
  std::vector<EdgeIndex> index;
  Interner interner;
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    if (rank == 0 || shape.nodeOf.empty() ? rank == 0 : shape.nodeOf[rank] != shape.nodeOf[rank - 1]) {
      roles.firstOf.push_back(rank);
    }
    roles.programs.push_back(std::make_shared<const Program>(interner.intern(*buildProgram(task, &shape, rank))));
    index.emplace_back(roles.programs.back()->edges);
    roles.rankOf.push_back(rank);
    roles.nRanksOf.push_back(1);
    roles.nodeOf.push_back(static_cast<int>(roles.firstOf.size()) - 1);
  }
  roles.firstOf.push_back(shape.nRanks);
  roles.edges.resize(roles.programs.size());
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    for (const int peer : roles.programs[static_cast<size_t>(rank)]->edges) {
      const int back = index[static_cast<size_t>(peer)].of(rank);
      if (back < 0) return unmatched(rank, peer);
      const double us =
          network.switchesUs(roles.places[static_cast<size_t>(rank)], roles.places[static_cast<size_t>(peer)]);
      roles.edges[static_cast<size_t>(rank)].push_back({peer, back, peer, us});
    }
  }
  return roles;
}

}  // namespace tutti::sim
