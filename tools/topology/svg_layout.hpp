// Where everything of a host goes in its picture.
//
//   host     title
//     package  side by side
//       NUMA     side by side: head, caches and cores, then the PCIe tree
//                switches are bars over what they hold, one row per level; devices stand in one row for the host
//     lanes    NVLink between GPUs below the devices, NVSwitches in a row
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/topology/graph.hpp"
#include "tools/topology/svg_canvas.hpp"

namespace tutti::topology {

/// A device of the row, or several alike of one parent as one cell.
struct Cell {
  std::vector<int> nodes;
  int parent = -1;  // what it is linked to
  Box box;
};

struct SwitchBar {
  int node = -1;
  int parent = -1;
  Box box;
};

struct CacheBox {
  int node = -1;  // the L3; -1 for cores without one
  std::vector<int> cores;
  Box box;
};

struct NumaBox {
  int node = -1;
  Box box, head;
  std::vector<CacheBox> caches;
};

struct PackageBox {
  int node = -1;  // -1: the description names no packages
  Box box;
};

struct HostLayout {
  int node = -1;
  Box box;
  std::vector<PackageBox> packages;
  std::vector<NumaBox> numas;
  std::vector<SwitchBar> switches;
  std::vector<Cell> cells;
  std::map<int, Box> nvSwitches;
  double rootY = 0;        // of the bars that stand for the processors' PCIe roots
  double lanesTop = 0;     // below the devices
  double lanesHeight = 0;  // room for the arcs or the way to the NVSwitches
};

/// The layout of one host with its upper left corner at (x, y).
HostLayout layoutHost(const Graph& graph, int host, double x, double y);

/// How far an arc between two GPUs dips per control point, by their distance.
double arcDepth(double distance);

constexpr double kCoreSide = 8;  // of a core's square, with the gap

}  // namespace tutti::topology
