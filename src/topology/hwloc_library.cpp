#if TUTTI_HAVE_HWLOC
#include "src/topology/hwloc_library.hpp"

#include <dlfcn.h>

namespace tutti::topology {
namespace {

Hwloc loadHwloc() {
  Hwloc h{};
  // The soname of all of 2.x.  Global, for its plugins (the XML reader is one) look for it there.  It stays loaded.
  void* library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_GLOBAL);
  const auto find = [&](auto* function, const char* name) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
    return *function != nullptr;
  };
  h.found = library != nullptr && find(&h.init, "hwloc_topology_init") && find(&h.destroy, "hwloc_topology_destroy") &&
            find(&h.load, "hwloc_topology_load") && find(&h.setIoTypesFilter, "hwloc_topology_set_io_types_filter") &&
            find(&h.setComponents, "hwloc_topology_set_components") &&
            find(&h.setSynthetic, "hwloc_topology_set_synthetic") &&
            find(&h.setXmlBuffer, "hwloc_topology_set_xmlbuffer") && find(&h.objectAt, "hwloc_get_obj_by_depth") &&
            find(&h.bitmapFirst, "hwloc_bitmap_first") && find(&h.bitmapNext, "hwloc_bitmap_next") &&
            find(&h.apiVersion, "hwloc_get_api_version");
#if HWLOC_API_VERSION >= 0x00020100
  if (h.found && !find(&h.releaseDistances, "hwloc_distances_release")) return h;
  if (h.found) find(&h.distancesByName, "hwloc_distances_get_by_name");
#endif
  return h;
}

}  // namespace

std::string Hwloc::interface() const { return cat(apiVersion() >> 16, ".", apiVersion() >> 8 & 0xff); }

const Hwloc& hwloc() {
  static const Hwloc functions = loadHwloc();
  return functions;
}

Result<HwlocTopology> makeHwlocTopology() {
  if (!hwloc().found) return invalidUsage(ErrorCode::NoLibrary, "hwloc (libhwloc.so.15) cannot be loaded");
  hwloc_topology_t raw = nullptr;
  if (hwloc().init(&raw) != 0) return systemError(ErrorCode::MachineUnreadable, "hwloc_topology_init failed");
  HwlocTopology t(raw);
  hwloc().setIoTypesFilter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
#if HWLOC_API_VERSION >= 0x00020100
  // Asking GPU drivers would start them in a process that may not want them; /sys tells the rest of PCI without
  // libpciaccess, which leaks when hwloc unloads it.
  for (const char* component : {"pci", "opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"}) {
    hwloc().setComponents(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
#endif
  return t;
}

}  // namespace tutti::topology
#endif
