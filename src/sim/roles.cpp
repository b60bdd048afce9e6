#include "src/sim/roles.hpp"

#include <algorithm>

namespace tutti::sim {
namespace {

/// Joins programs of all ranks.
Result<Roles> joined(std::vector<std::shared_ptr<const Program>> programs, const Shape& shape,
                     const std::function<double(int, int)>& switchesUs) {
  Roles roles;
  roles.places = placesOf(shape);
  roles.programs = std::move(programs);
  std::vector<EdgeIndex> index;
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    const auto r = static_cast<size_t>(rank);
    if (rank == 0 || (!shape.nodeOf.empty() && shape.nodeOf[r] != shape.nodeOf[r - 1])) roles.firstOf.push_back(rank);
    index.emplace_back(roles.programs[r]->edges);
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
      const double us = switchesUs ? switchesUs(rank, peer) : 0;
      roles.edges[static_cast<size_t>(rank)].push_back({peer, back, peer, us});
    }
  }
  return roles;
}

}  // namespace

std::vector<Place> placesOf(const Shape& shape) {
  std::vector<Place> places;
  std::vector<int> count;
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    const int node = shape.nodeOf.empty() ? 0 : shape.nodeOf[static_cast<size_t>(rank)];
    if (static_cast<size_t>(node) >= count.size()) count.resize(static_cast<size_t>(node) + 1);
    places.push_back({node, count[static_cast<size_t>(node)]++});
  }
  return places;
}

int ranksPerNode(const Shape& shape) {
  if (shape.nodeOf.empty()) return shape.nRanks;
  const int nodes = shape.nodeOf.back() + 1;
  if (shape.nRanks % nodes != 0) return 0;
  const int perNode = shape.nRanks / nodes;
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    if (shape.nodeOf[static_cast<size_t>(rank)] != rank / perNode) return 0;
  }
  return perNode;
}

std::shared_ptr<const Program> buildProgram(const ProgramSource& source, Shape* shape, int rank) {
  shape->rank = rank;
  return std::make_shared<const Program>(programOf(source.build(*shape), shape->bytes, source.options));
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
  return internalError(ErrorCode::SchedulesHalt, "rank ", from, " has to do with rank ", to,
                       ", which does not know of it");
}

Result<Roles> allRoles(const ProgramSource& source) {
  Shape shape = source.shape;
  Interner interner;
  std::vector<std::shared_ptr<const Program>> programs;
  for (int rank = 0; rank < shape.nRanks; ++rank) {
    programs.push_back(std::make_shared<const Program>(interner.intern(*buildProgram(source, &shape, rank))));
  }
  return joined(std::move(programs), shape, source.switchesUs);
}

Result<Roles> rolesOf(const std::vector<Schedule>& schedules, const Shape& shape, const ProgramOptions& options,
                      const std::function<double(int, int)>& switchesUs) {
  std::vector<std::shared_ptr<const Program>> programs;
  for (const Schedule& schedule : schedules) {
    programs.push_back(std::make_shared<const Program>(programOf(schedule, shape.bytes, options)));
  }
  return joined(std::move(programs), shape, switchesUs);
}

}  // namespace tutti::sim
