// Endpoints in a simulated world: what shared memory does (slots, credits, memory that peers may read), with every
// store to the other side arriving late.
//
//   SimWorld world(seed);
//   SimFabric fabric(world, {.slots = 2}, nRanks);       // one communicator
//   auto transport = fabric.transport(rank);
//   auto endpoint = transport->beginConnect(peer, ...);   // there at the first poll()
//   while (!done) world.step();
//
// What a message costs: SimWorld::setDelay's latency (with jitter, if its bounds differ) and SimOptions::nsPerByte of
// the sender's and of the receiver's port.  Messages of one endpoint stay in order; those of different endpoints may
// overtake each other.
//
// One thread.  The world and the fabric must outlive the transports and endpoints.  All chance is the world's, so a
// seed replays exactly.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tests/support/sim/world.hpp"
#include "transport/transport.hpp"

namespace tutti {

struct SimOptions {
  uint32_t slots = 4;
  size_t slotBytes = 4096;
  size_t maxDirectBytes = 1 << 20;  // 0: no direct protocol
  /// Time that a byte of payload takes at the port of its sender, and again (side by side with the former, but for what
  /// the latency sets them apart) at the port of its receiver.  A rank has one port each way, for all its endpoints. 0:
  /// as fast as you like.
  double nsPerByte = 0;
  /// Chance that a message breaks the link it travels on, in millionths.
  uint32_t breaksPerMillion = 0;
  /// Endpoints are streams over connections that are made again when they break (stream_link.hpp): the chance is of
  /// what a connection is given at once, slots and offers there are none, and bytes take no time but the latency.
  bool resumes = false;
};

class SimFabric {
 public:
  /// Adds a node per rank to the world.
  SimFabric(SimWorld& world, const SimOptions& options, int nRanks);
  /// Takes nodes that are there: nodes[rank].
  SimFabric(SimWorld& world, const SimOptions& options, std::vector<int> nodes);
  ~SimFabric();
  SimFabric(const SimFabric&) = delete;
  SimFabric& operator=(const SimFabric&) = delete;

  std::unique_ptr<Transport> transport(int rank);
  int node(int rank) const;
  /// Connections that broke, where endpoints resume.
  uint64_t nBreaks() const;

  /// All endpoints between the two ranks fail, at each end after a delay; what is on its way is lost.  Those that
  /// resume have new connections then.
  void breakLinks(int rankA, int rankB);
  /// SimWorld::kill, and the endpoints to it fail as their ends find out.
  void kill(int rank);

  /// Called with a rank after something has arrived in one of its endpoints, or one has failed: what its owner could
  /// not do before, it may be able to do now.
  void onArrival(std::function<void(int rank)> listener);

  struct Core;  // shared with endpoints and events in flight

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace tutti
