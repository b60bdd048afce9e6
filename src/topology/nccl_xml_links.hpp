// The links of a file of NCCL's form: <nvlink>, <xgmi>, <pcilink>, <c2c>.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "src/topology/graph.hpp"
#include "src/topology/nccl_xml_file.hpp"

namespace tutti::topology {

/// Gathers links while devices are read, and joins the devices once all of them are known: a link may lead to one that
/// comes later in the file.
class NcclLinks {
 public:
  using BusIds = std::map<std::pair<int, std::string>, int>;  // host and bus id: node

  /// Borrows all three.
  NcclLinks(NcclFile& file, Graph& graph, BusIds& busIds) : file_(file), g_(graph), busIds_(busIds) {}

  /// An element that is a link of `from`.  Errors: InvalidArgument for a <c2c> without bw.
  Status add(pugi::xml_node e, int from, int host);
  /// Connect what was added.  Links that lead nowhere are left out.
  /// Errors: InvalidArgument for a <pcilink> of something else than a switch.
  Status connect();

  static bool isLink(std::string_view tag);

 private:
  struct Pending {
    pugi::xml_node element;
    int from, host;
    LinkKind kind;
  };
  struct Lanes {
    int count = 0;
    double gbps = 0;  // given by the file, for all lanes
  };

  Status connectC2c(pugi::xml_node e, int gpu);
  Status resolve(const Pending& pending);
  Status resolvePciPeer(const Pending& pending, int target);
  int targetOf(const Pending& pending, const std::string& target);
  int nvSwitch(int host, const std::string& busId);
  void connectLanes();
  void connectLanes(int from, int to, LinkKind kind, const Lanes& lanes);
  Node& at(int node) { return g_.nodes[static_cast<size_t>(node)]; }

  NcclFile& file_;
  Graph& g_;
  BusIds& busIds_;
  std::vector<Pending> pending_;
  std::map<std::pair<int, int>, std::map<LinkKind, Lanes>> lanes_;  // directed
};

}  // namespace tutti::topology
