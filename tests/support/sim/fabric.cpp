#include "tests/support/sim/fabric.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/base/assert.hpp"
#include "tests/support/sim/link.hpp"
#include "tests/support/sim/stream_link.hpp"

namespace tutti {

struct SimFabric::Core {
  std::shared_ptr<sim::Wires> wires;
  std::vector<int> nodes;                 // by rank
  using Key = std::tuple<int, int, int>;  // lower rank, higher rank, lane
  std::map<Key, std::shared_ptr<sim::Link>> links;
  std::map<Key, std::shared_ptr<sim::StreamLink>> streams;  // of a fabric that resumes

  std::shared_ptr<sim::Link> link(int rankA, int rankB, int lane) {
    const auto [low, high] = std::minmax(rankA, rankB);
    std::shared_ptr<sim::Link>& link = links[{low, high, lane}];
    if (link == nullptr) {
      link = std::make_shared<sim::Link>(wires, lane);
      for (int side : {0, 1}) {
        sim::End& end = link->ends[side];
        end.rank = side == 0 ? low : high;
        end.node = nodes[static_cast<size_t>(end.rank)];
        end.slots.resize(wires->options.slots);
      }
    }
    return link;
  }
  std::shared_ptr<sim::StreamLink> stream(int rankA, int rankB, int lane) {
    const auto [low, high] = std::minmax(rankA, rankB);
    std::shared_ptr<sim::StreamLink>& stream = streams[{low, high, lane}];
    if (stream != nullptr) return stream;
    stream = std::make_shared<sim::StreamLink>(wires, lane);
    for (const int side : {0, 1}) {
      stream->end(side).rank = side == 0 ? low : high;
      stream->end(side).node = nodes[static_cast<size_t>(stream->end(side).rank)];
    }
    return stream;
  }
};

namespace {

class SimTransport : public Transport {
 public:
  SimTransport(std::shared_ptr<SimFabric::Core> core, int rank) : core_(std::move(core)), rank_(rank) {}

  std::string_view name() const override { return "sim"; }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override {
    if (self.rank == peer.rank) return invalidUsage("a rank is not its own peer");
    return LinkProfile{.key = "sim"};
  }
  Address address() const override { return cat("sim:", rank_); }
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override {
    return endpointBy([=, this]() -> Result<std::unique_ptr<Endpoint>> {
      if (peerAddress != cat("sim:", peer)) return remoteError("'", peerAddress, "' is not the sim address of ", peer);
      const int side = rank_ < peer ? 0 : 1;
      if (core_->wires->options.resumes) {
        std::unique_ptr<Endpoint> made = std::make_unique<sim::StreamEndpoint>(core_->stream(rank_, peer, lane), side);
        return made;
      }
      return std::unique_ptr<Endpoint>(std::make_unique<sim::SimEndpoint>(core_->link(rank_, peer, lane), side));
    });
  }

 private:
  std::shared_ptr<SimFabric::Core> core_;
  int rank_;
};

std::vector<int> addNodes(SimWorld& world, int count) {
  std::vector<int> nodes;
  for (int i = 0; i < count; ++i) nodes.push_back(world.addNode());
  return nodes;
}

}  // namespace

SimFabric::SimFabric(SimWorld& world, const SimOptions& options, int nRanks)
    : SimFabric(world, options, addNodes(world, nRanks)) {}

SimFabric::SimFabric(SimWorld& world, const SimOptions& options, std::vector<int> nodes)
    : core_(std::make_shared<Core>(
          Core{std::make_shared<sim::Wires>(world, options, nodes.size()), std::move(nodes), {}, {}})) {
  TUTTI_ASSERT_CMP(options.slots, >=, 1u);
}

uint64_t SimFabric::nBreaks() const {
  uint64_t sum = 0;
  for (const auto& [key, stream] : core_->streams) sum += stream->nBreaks();
  return sum;
}

SimFabric::~SimFabric() = default;

std::unique_ptr<Transport> SimFabric::transport(int rank) { return std::make_unique<SimTransport>(core_, rank); }

int SimFabric::node(int rank) const { return core_->nodes.at(static_cast<size_t>(rank)); }

void SimFabric::onArrival(std::function<void(int)> listener) { core_->wires->onArrival = std::move(listener); }

void SimFabric::breakLinks(int rankA, int rankB) {
  const auto [low, high] = std::minmax(rankA, rankB);
  for (auto& [key, link] : core_->links) {
    if (std::get<0>(key) == low && std::get<1>(key) == high) link->breakDown("broke");
  }
  for (auto& [key, stream] : core_->streams) {
    if (std::get<0>(key) == low && std::get<1>(key) == high) stream->breakConnection();
  }
}

void SimFabric::kill(int rank) {
  core_->wires->world.kill(node(rank));
  for (auto& [key, link] : core_->links) {
    if (std::get<0>(key) == rank || std::get<1>(key) == rank) link->breakDown("ended: that rank died");
  }
  for (auto& [key, stream] : core_->streams) {
    if (std::get<0>(key) == rank || std::get<1>(key) == rank) stream->breakDown("ended: that rank died");
  }
}

}  // namespace tutti
