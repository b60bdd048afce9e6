// hwloc's functions, found when they are first asked for: a process that does not ask does not load the library.
// Only for builds with hwloc.
#pragma once

#include <hwloc.h>

#include <memory>
#include <string>

#include "src/base/status.hpp"

namespace tutti::topology {

struct Hwloc {
  decltype(&hwloc_topology_init) init;
  decltype(&hwloc_topology_destroy) destroy;
  decltype(&hwloc_topology_load) load;
  decltype(&hwloc_topology_set_io_types_filter) setIoTypesFilter;
  decltype(&hwloc_topology_set_components) setComponents;
  decltype(&hwloc_topology_set_synthetic) setSynthetic;
  decltype(&hwloc_topology_set_xmlbuffer) setXmlBuffer;
  decltype(&hwloc_get_obj_by_depth) objectAt;
  decltype(&hwloc_bitmap_first) bitmapFirst;
  decltype(&hwloc_bitmap_next) bitmapNext;
  decltype(&hwloc_get_api_version) apiVersion;
#if HWLOC_API_VERSION >= 0x00020100
  decltype(&hwloc_distances_get_by_name) distancesByName;  // null in libraries older than 2.1, as the next
  decltype(&hwloc_distances_release) releaseDistances;
#endif
  bool found = false;

  /// "2.8": of its interface, which libraries of newer versions have, too.
  std::string interface() const;
};

const Hwloc& hwloc();

struct DestroyTopology {
  void operator()(hwloc_topology_t t) const { hwloc().destroy(t); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, DestroyTopology>;

/// One that keeps all devices and asks no GPU driver; not loaded yet.
/// Errors: InvalidUsage if the system has no hwloc; SystemError.
Result<HwlocTopology> makeHwlocTopology();

}  // namespace tutti::topology
