#include "tools/topology/search/host_search.hpp"

#include <algorithm>
#include <set>

namespace tutti::topology {
namespace {

constexpr double kWorthFarther = 1.25;  // a farther path class must give a quarter more

std::vector<PathClass> classesOf(const std::vector<std::vector<Route>>& routes) {
  std::set<PathClass> classes;
  for (const auto& row : routes) {
    for (const Route& route : row) classes.insert(route.type);
  }
  classes.erase(PathClass::Dis);
  return {classes.begin(), classes.end()};
}

}  // namespace

double portsGBps(const HostModel& model) {
  double sum = 0;
  for (const auto& row : model.fromPort) {
    double widest = 0;
    for (const Route& route : row) {
      double narrowest = route.type == PathClass::Dis ? 0 : kNoWay;
      for (const int arc : route.arcs) narrowest = std::min(narrowest, model.capacity[static_cast<size_t>(arc)]);
      widest = std::max(widest, narrowest);
    }
    sum += widest;
  }
  return sum;
}

Searched searchHost(const HostModel& model, ColumnRules rules) {
  std::vector<PathClass> intra = classesOf(model.between), inter = classesOf(model.fromPort);
  if (model.nDevices() > 1) std::erase(intra, PathClass::Loc);
  if (rules.nHosts < 2) inter = {PathClass::Loc};
  const double ports = rules.nHosts < 2 ? 0 : portsGBps(model) / std::max(1, treePortUse(rules.nHosts));
  Searched best;
  for (const PathClass farthest : intra) {
    rules.intra = farthest;
    bool wider = false;
    for (const PathClass port : inter) {
      rules.inter = port;
      Packing packing = packFractions(model, rules);
      if (packing.total > best.packing.total * kWorthFarther) {
        best = {rules, std::move(packing)};
        wider = true;
      }
      if (ports > 0 && best.packing.total * kWorthFarther > ports) break;
    }
    if (best.packing.total > 0 && (farthest <= PathClass::Nvb || !wider)) break;
    if (ports > 0 && best.packing.total * kWorthFarther > ports) break;
  }
  return best;
}

}  // namespace tutti::topology
