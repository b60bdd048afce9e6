#include "src/sim/memory.hpp"

#include <algorithm>
#include <map>

namespace tutti::sim {

double footprintOf(const Shape& s, double ranksOfHost) {
  const double n = s.nRanks;
  const auto blocksOf = [&](const Side& side) {
    return chunksIn(side, s.nRanks, 1) * (side.holders == Holders::All ? n : 1);
  };
  const Geometry& g = geometryOf(s.collective);
  double blocks = blocksOf(g.input) + blocksOf(g.output);
  // Ranks that are no root combine in a vector, too; what is not combined is in place, as programs call it.
  if (isOneVector(s.collective)) blocks = g.reduces ? 2 * n : n;
  return blocks * static_cast<double>(s.bytes) * ranksOfHost / n;
}

namespace {

/// [edge]: a message leaves by it that is copied into an endpoint.
std::vector<bool> edgesUsed(const LaneProgram& lane, size_t nEdges) {
  std::vector<bool> used(nEdges);
  for (const Step& step : lane.steps) {
    if (step.direct || step.chunks <= 0 || step.nTo == 0) continue;
    used[static_cast<size_t>(lane.peers[step.firstPeer + step.nFrom].edge)] = true;
  }
  return used;
}

/// Chunks that a member's peers read where they lie.
double chunksRead(const LaneProgram& lane) {
  double chunks = 0;
  for (const Step& step : lane.steps) {
    if (step.direct) chunks += static_cast<double>(step.chunks) * step.nTo;
  }
  return chunks;
}

}  // namespace

NearEndpoints nearEndpointsOf(const Roles& roles) {
  NearEndpoints endpoints;
  const size_t nLanes = roles.programs.front()->lanes->size();
  std::vector<std::vector<bool>> used(roles.edges.size());
  for (size_t lane = 0; lane < nLanes; ++lane) {
    for (size_t m = 0; m < roles.edges.size(); ++m) {
      endpoints.read += chunksRead((*roles.programs[m]->lanes)[lane]);
      used[m] = edgesUsed((*roles.programs[m]->lanes)[lane], roles.edges[m].size());
    }
    for (size_t m = 0; m < roles.edges.size(); ++m) {
      for (size_t e = 0; e < used[m].size(); ++e) {
        const RoleEdge& edge = roles.edges[m][e];
        const bool near = roles.places[static_cast<size_t>(edge.rank)].node ==
                          roles.places[static_cast<size_t>(roles.rankOf[m])].node;
        if (!used[m][e] || !near) continue;
        const bool answered = used[static_cast<size_t>(edge.member)][static_cast<size_t>(edge.toEdge)];
        (answered ? endpoints.answered : endpoints.streams) += 1;
      }
    }
  }
  return endpoints;
}

// An endpoint has four slots, and a ring for small messages, of which 16 KiB are used between ranks that answer each
// other and 240 KiB else.  Larger ones of up to 64 KiB go round these 240 KiB as well, but between ranks of one core
// that answer each other; they are counted as what goes by slots, which comes to 64 to 256 KiB.
double roomBytes(const NearEndpoints& endpoints, double messageBytes) {
  constexpr double kSmallBytes = 8 << 10, kAnswers = 16 << 10, kStreams = 240 << 10, kSlots = 4;
  const double all = endpoints.answered + endpoints.streams;
  if (messageBytes <= 0 || all <= 2) return 0;
  if (messageBytes > kSmallBytes) return (all - 2) * kSlots * messageBytes;
  return (all - 2) / all * (endpoints.answered * kAnswers + endpoints.streams * kStreams);
}

double readBytes(const NearEndpoints& endpoints, double chunkBytes, double footprint) {
  return std::min(endpoints.read * chunkBytes, footprint);
}

namespace {

/// Chunks that a step reads and writes: its operands, its result where that is stored, and copies for receivers.
double chunksTouched(const Step& step) {
  const bool copiesOut = step.nTo > 0 && !step.direct;
  const bool works = step.nFrom > 0 || copiesOut || step.copied > 0 || step.reduced > 0;
  if (!works) return 0;
  const bool stores = step.nFrom > 0 ? step.nTo == 0 || step.direct : step.copied > 0 || step.nTo == 0;
  const double value = step.chunks;
  return value + static_cast<double>(step.reduced) + (stores ? value : 0) + (copiesOut ? value * step.nTo : 0);
}

}  // namespace

double trafficOf(const Roles& roles, const std::vector<int>& groupOf, double chunkBytes) {
  std::map<int, double> chunks;
  std::map<int, int> ranks;
  for (const int group : groupOf) ++ranks[group];
  double most = 0;
  for (size_t m = 0; m < roles.programs.size(); ++m) {
    double own = 0;
    for (const LaneProgram& lane : *roles.programs[m]->lanes) {
      for (const Step& step : lane.steps) own += chunksTouched(step);
    }
    const int group = groupOf[static_cast<size_t>(roles.rankOf[m])];
    chunks[group] += own;
    most = std::max(most, roles.classes ? own * ranks[group] : chunks[group]);
  }
  return most * chunkBytes;
}

}  // namespace tutti::sim
