// How much of rings or chains one kind of host carries, and how near the ways for them are.
#pragma once

#include "tools/topology/search/packing.hpp"

namespace tutti::topology {

struct Searched {
  ColumnRules rules;
  Packing packing;
};

/// The nearest classes with which all devices are reached; farther ones where they give much more.  Devices that NVLink
/// or xGMI joins stay on it: rings over PCIe beside it would be slow ones, and hold up the others.
Searched searchHost(const HostModel& model, ColumnRules rules);

/// What all ports together could bring in over whatever way there is.
double portsGBps(const HostModel& model);

}  // namespace tutti::topology
