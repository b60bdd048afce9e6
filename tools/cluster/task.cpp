#include "tools/cluster/task.hpp"

namespace tutti::sim {
namespace {

/// `find` with the ways of the network; ranks are where the task has them.
template <class F>
Result<Roles> rolesWith(const Network& network, const Task& task, F find) {
  std::vector<Place> places = placesOf(network.cluster(), task);
  TUTTI_TRY(checkTask(task, places));
  const auto switchesUs = [&](int from, int to) {
    return network.switchesUs(places[static_cast<size_t>(from)], places[static_cast<size_t>(to)]);
  };
  if (task.schedules != nullptr) {
    TUTTI_ASSIGN(Roles roles, rolesOf(*task.schedules, shapeOf(task, places, task.bytes), task.options, switchesUs));
    roles.places = std::move(places);
    return roles;
  }
  ProgramSource source{.name = task.algorithm->name,
                       .build = task.algorithm->build,
                       .shape = shapeOf(task, places, task.bytes),
                       .options = task.options,
                       .switchesUs = switchesUs};
  if (task.algorithm->grid != nullptr) source.grid = task.algorithm->grid(source.shape);
  TUTTI_ASSIGN(Roles roles, find(source));
  roles.places = std::move(places);
  return roles;
}

}  // namespace

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
  if (task.joined) shape.messageBytes = shape.slotBytes;
  if (places.front().node == places.back().node) return shape;
  int node = -1, before = -1;
  for (const Place& place : places) {
    if (place.node != before) ++node;  // a node may have lost all of its ranks
    before = place.node;
    shape.nodeOf.push_back(node);
  }
  return shape;
}

Status checkTask(const Task& task, const std::vector<Place>& places) {
  if (places.empty()) return invalidArgument("no rank is left");
  const Shape shape = shapeOf(task, places, task.bytes);
  if (task.schedules != nullptr) {
    if (static_cast<int>(task.schedules->size()) == shape.nRanks) return {};
    return invalidArgument(task.algorithm->name, " is a plan for ", task.schedules->size(), " ranks; here are ",
                           shape.nRanks);
  }
  if (task.root < 0 || task.root >= shape.nRanks) {
    return invalidArgument("root ", task.root, " is none of ", shape.nRanks, " ranks");
  }
  if (const char* missing = task.algorithm->missing(shape)) {
    return invalidArgument(task.algorithm->name, " does not work for ", shape.nRanks, " ranks",
                           shape.nodeOf.empty() ? " on one node" : "", ": it needs ", missing);
  }
  return {};
}

Result<Roles> allRoles(const Network& network, const Task& task) {
  return rolesWith(network, task, [](const ProgramSource& source) { return allRoles(source); });
}

Result<Roles> classRoles(const Network& network, const Task& task) {
  const Cluster& c = network.cluster();
  TUTTI_TRY(checkTask(task, placesOf(c, task)));
  if (task.schedules != nullptr) return invalidArgument("plans are simulated rank by rank, not by classes of ranks");
  const bool leaves = c.fabric.kind == FabricKind::FatTree || c.fabric.kind == FabricKind::Rail;
  if (c.nodes > 1 && c.fabric.kind != FabricKind::Switch && !(leaves && c.fabric.oversubscription <= 1)) {
    return invalidArgument(
        "classes of ranks need a fabric that holds nobody up: a switch, or a fat-tree or rails of "
        "oversubscription 1");
  }
  if (!task.lostRanks.empty() || network.faulty()) {
    return invalidArgument("classes of ranks need nodes that are alike; something is lost here");
  }
  return rolesWith(network, task, [](const ProgramSource& source) { return classRoles(source); });
}

}  // namespace tutti::sim
