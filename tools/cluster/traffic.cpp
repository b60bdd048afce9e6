#include "tools/cluster/traffic.hpp"

#include <algorithm>
#include <numeric>

namespace tutti::sim {
namespace {

Result<LinkClass> classOf(const Network& network, Place from, Place to) {
  TUTTI_ASSIGN(const Route route, network.route(from, to));
  if (!route.far) return LinkClass::Node;
  const bool fabric = std::ranges::any_of(route.links, [&](int link) { return network.inFabric(link); });
  return fabric ? LinkClass::Fabric : LinkClass::Leaf;
}

std::vector<Schedule> schedulesOf(const Task& task, Shape shape) {
  if (task.schedules != nullptr) return *task.schedules;
  std::vector<Schedule> schedules;
  for (shape.rank = 0; shape.rank < shape.nRanks; ++shape.rank) schedules.push_back(task.algorithm->build(shape));
  return schedules;
}

/// Bytes of a chunk: a part of the vector, or a block.
double bytesOfChunk(const Schedule& schedule, size_t bytes) {
  const double all = static_cast<double>(bytes);
  return isOneVector(schedule.collective) ? all / schedule.nChunks : all;
}

Amount sum(const std::array<Amount, kNumLinkClasses>& amounts) {
  return std::accumulate(amounts.begin(), amounts.end(), Amount{}, [](Amount a, const Amount& b) {
    return Amount{a.messages + b.messages, a.bytes + b.bytes};
  });
}

class Tally {
 public:
  Tally(const Network& network, const std::vector<Place>& places, Traffic* traffic, double chunkBytes)
      : network_(network), places_(places), traffic_(*traffic), chunkBytes_(chunkBytes) {}

  Status add(const Schedule& schedule) {
    for (const Lane& lane : schedule.lanes) {
      for (size_t begin = 0; begin < lane.ops.size(); begin = messageEnd(lane.ops, begin)) {
        const Op& op = lane.ops[begin];
        const double chunks = op.token ? 0 : static_cast<double>(messageEnd(lane.ops, begin) - begin);
        for (const int32_t to : op.to) TUTTI_TRY(message(schedule, to, chunks));
      }
    }
    return {};
  }

 private:
  Status message(const Schedule& schedule, int to, double chunks) {
    if (to != kEveryone) return one(schedule.rank, to, chunks);
    for (int peer = 0; peer < schedule.nRanks; ++peer) {
      if (peer != schedule.rank) TUTTI_TRY(one(schedule.rank, peer, chunks));
    }
    return {};
  }

  Status one(int from, int to, double chunks) {
    const auto sender = static_cast<size_t>(from), receiver = static_cast<size_t>(to);
    TUTTI_ASSIGN(const LinkClass which, classOf(network_, places_[sender], places_[receiver]));
    const auto at = static_cast<size_t>(which);
    for (Amount* amount : {&traffic_.ranks[sender].sent[at], &traffic_.ranks[receiver].received[at]}) {
      amount->messages += traffic_.loops;
      amount->bytes += chunks * chunkBytes_;
    }
    return {};
  }

  const Network& network_;
  const std::vector<Place>& places_;
  Traffic& traffic_;
  double chunkBytes_;
};

}  // namespace

const char* linkClassName(LinkClass which) {
  switch (which) {
    case LinkClass::Node: return "inside nodes";
    case LinkClass::Leaf: return "between nodes";
    case LinkClass::Fabric: return "between nodes through the fabric";
  }
  return "?";
}

Amount RankTraffic::allSent() const { return sum(sent); }
Amount RankTraffic::allReceived() const { return sum(received); }

Result<Traffic> trafficOf(const Network& network, const Task& task) {
  const std::vector<Place> places = placesOf(network.cluster(), task);
  if (places.size() > size_t{kMostCounted}) {
    return invalidArgument("bytes are counted rank by rank, for at most ", kMostCounted, " ranks; here are ",
                           places.size());
  }
  TUTTI_TRY(checkTask(task, places));
  const std::vector<Schedule> schedules = schedulesOf(task, shapeOf(task, places, task.bytes));
  const double chunkBytes = bytesOfChunk(schedules.front(), task.bytes);
  Traffic traffic;
  traffic.ranks.resize(places.size());
  traffic.nChunks = schedules.front().nChunks;
  traffic.loops = std::max(1, static_cast<int>((chunkBytes - 1e-6) / task.options.sliceBytes) + 1);
  Tally tally(network, places, &traffic, chunkBytes);
  for (const Schedule& schedule : schedules) TUTTI_TRY(tally.add(schedule));
  return traffic;
}

}  // namespace tutti::sim
