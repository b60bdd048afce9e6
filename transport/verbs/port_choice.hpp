// Which of several ports a rank takes: near ones, and not the ones that its neighbours take.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "transport/verbs/gid.hpp"

namespace tutti::verbs {

/// A port that may be used.
struct PortFacts {
  size_t listed = 0;    // entries of TUTTI_IB_HCA before the one that names it
  int numaNode = -1;    // of its adapter; -1: unknown, or there is one node
  uint64_t fabric = 0;  // ports of one fabric and speed are alike
  uint64_t speed = 0;
};

/// The ports in the order in which a rank takes them, by index.  A list that names them apart decides alone.  Else
/// those come first whose adapter is on one of `nodes`, where the rank may run, and among these the ones that are like
/// the first of them by turns: `localRank` begins behind the `rails` each of the ranks before it on its host.  A
/// function of its arguments alone.
std::vector<size_t> orderOfPorts(std::span<const PortFacts> ports, std::span<const int> nodes, int localRank,
                                 uint32_t rails);

/// Nodes of the processors that this thread may run on; empty where the system does not say.
std::vector<int> nodesOfThread();
/// What ports have in common that reach the same peers, as far as their addresses tell: the network of the interface
/// that has the address, or its IPv6 prefix.  Link-local addresses tell nothing: no two are of one network.
uint64_t networkOf(const Gid& gid);
/// Of an adapter; -1: the system does not say.
int nodeOfAdapter(const std::string& device);

}  // namespace tutti::verbs
