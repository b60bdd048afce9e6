#include "tests/support/sim/fabric.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "src/base/assert.hpp"
#include "tests/support/sim/link.hpp"

namespace tutti {

struct SimFabric::Core {
  std::shared_ptr<sim::Wires> wires;
  std::vector<int> nodes;                                                 // by rank
  std::map<std::tuple<int, int, int>, std::shared_ptr<sim::Link>> links;  // by lower rank, higher rank, lane

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
          Core{std::make_shared<sim::Wires>(world, options, nodes.size()), std::move(nodes), {}})) {
  TUTTI_ASSERT_CMP(options.slots, >=, 1u);
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
}

void SimFabric::kill(int rank) {
  core_->wires->world.kill(node(rank));
  for (auto& [key, link] : core_->links) {
    if (std::get<0>(key) == rank || std::get<1>(key) == rank) link->breakDown("ended: that rank died");
  }
}

}  // namespace tutti
