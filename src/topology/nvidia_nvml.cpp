#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "src/topology/nvidia.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

// NVML's C interface, as its reference manual documents it (docs.nvidia.com/deploy/nvml-api).
constexpr int kNvmlSuccess = 0, kNvmlNotSupported = 3, kNvmlNotFound = 6;
using NvmlHandle = struct NvmlDevice*;

/// nvmlPciInfo_t of the _v3 functions.
struct NvmlPciInfo {
  char busIdLegacy[16];
  unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
  char busId[32];
};
static_assert(sizeof(NvmlPciInfo) == 68);

constexpr unsigned kMostNvlinks = 18;  // NVML_NVLINK_MAX_LINKS; further ones answer with an error
constexpr unsigned kFeatureOn = 1;     // NVML_FEATURE_ENABLED, NVML_DEVICE_MIG_ENABLE
enum RemoteType : int { RemoteGpu = 0, RemoteCpu = 1, RemoteSwitch = 2, RemoteUnknown = 255 };

struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, NvmlHandle*) = nullptr;
  int (*pciInfo)(NvmlHandle, NvmlPciInfo*) = nullptr;
  // What older drivers lack.
  const char* (*errorText)(int) = nullptr;
  int (*uuid)(NvmlHandle, char*, unsigned) = nullptr;
  int (*capability)(NvmlHandle, int*, int*) = nullptr;
  int (*migMode)(NvmlHandle, unsigned*, unsigned*) = nullptr;
  int (*mostMigDevices)(NvmlHandle, unsigned*) = nullptr;
  int (*migDevice)(NvmlHandle, unsigned, NvmlHandle*) = nullptr;
  int (*linkState)(NvmlHandle, unsigned, unsigned*) = nullptr;
  int (*linkVersion)(NvmlHandle, unsigned, unsigned*) = nullptr;
  int (*remoteType)(NvmlHandle, unsigned, int*) = nullptr;
  int (*remotePci)(NvmlHandle, unsigned, NvmlPciInfo*) = nullptr;

  /// "" or why it cannot be used.
  std::string load(const char* library) {
    void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return cat("cannot be loaded (", dlerror(), ")");
    std::string missing;
    const auto find = [&](auto* function, const char* name, bool needed) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(opened, name));
      if (*function == nullptr && needed && missing.empty()) missing = cat("has no ", name);
    };
    find(&init, "nvmlInit_v2", true);
    find(&shutdown, "nvmlShutdown", true);
    find(&count, "nvmlDeviceGetCount_v2", true);
    find(&handle, "nvmlDeviceGetHandleByIndex_v2", true);
    find(&pciInfo, "nvmlDeviceGetPciInfo_v3", true);
    find(&errorText, "nvmlErrorString", false);
    find(&uuid, "nvmlDeviceGetUUID", false);
    find(&capability, "nvmlDeviceGetCudaComputeCapability", false);
    find(&migMode, "nvmlDeviceGetMigMode", false);
    find(&mostMigDevices, "nvmlDeviceGetMaxMigDeviceCount", false);
    find(&migDevice, "nvmlDeviceGetMigDeviceHandleByIndex", false);
    find(&linkState, "nvmlDeviceGetNvLinkState", false);
    find(&linkVersion, "nvmlDeviceGetNvLinkVersion", false);
    find(&remoteType, "nvmlDeviceGetNvLinkRemoteDeviceType", false);
    find(&remotePci, "nvmlDeviceGetNvLinkRemotePciInfo_v2", false);
    return missing;
  }

  std::string why(int code) const {
    const char* text = errorText != nullptr ? errorText(code) : nullptr;
    return text != nullptr ? text : cat("error ", code);
  }
};

std::string nvmlBusId(const NvmlPciInfo& place) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", place.domain, place.bus, place.device);
  return canonicalBusId(text);
}

class NvmlAsker {
 public:
  /// openOnly: of the graph's GPUs those whose links nobody told, and no others.
  NvmlAsker(Graph& graph, const Nvml& nvml, bool openOnly)
      : g_(graph), nvml_(nvml), openOnly_(openOnly), host_(graph.all(NodeKind::Host).front()) {}

  void run() {
    unsigned count = 0;
    if (!ok(nvml_.count(&count), "nvmlDeviceGetCount_v2", "GPUs")) return;
    for (unsigned i = 0; i < count; ++i) gpu(i);
    for (const int node : g_.all(NodeKind::Gpu, host_)) {
      if (at(node).pci.vendor == 0x10de && isAsked(node) && handles_.count(node) == 0) {
        g_.note(cat(at(node).busId, ": a GPU that NVML does not show: its NVLinks are not known"));
      }
    }
    for (const auto& [node, handle] : handles_) links(node, handle);
    connect();
  }

 private:
  Node& at(int node) { return g_.nodes[static_cast<size_t>(node)]; }
  bool isAsked(int node) { return !openOnly_ || (node >= 0 && !at(node).gpu.linksTold); }

  /// Whether the call succeeded; else a note, but where the device simply has no such thing.
  bool ok(int code, const char* call, const std::string& what) {
    if (code != kNvmlSuccess && code != kNvmlNotSupported) g_.note(cat(what, ": ", call, " failed: ", nvml_.why(code)));
    return code == kNvmlSuccess;
  }

  void gpu(unsigned number) {
    const std::string what = cat("GPU ", number, " of NVML");
    NvmlHandle handle = nullptr;
    NvmlPciInfo place{};
    if (!ok(nvml_.handle(number, &handle), "nvmlDeviceGetHandleByIndex_v2", what)) return;
    const int code = nvml_.pciInfo(handle, &place);
    if (code != kNvmlSuccess) {
      g_.note(cat(what, ": nvmlDeviceGetPciInfo_v3 failed: ", nvml_.why(code), "; it is left out"));
      return;
    }
    const std::string busId = nvmlBusId(place);
    int node = g_.byBusId(busId, host_);
    if (!isAsked(node)) return;
    if (node >= 0 && at(node).kind != NodeKind::Gpu) {
      g_.note(cat(busId, ": NVML says that this is a GPU, the system that it is a ", kindName(at(node).kind)));
      return;
    }
    if (node < 0) node = addHidden(busId, place);
    handles_[node] = handle;
    about(node, handle);
  }

  /// A GPU that NVML knows and /sys does not, as in containers without the host's /sys.
  int addHidden(const std::string& busId, const NvmlPciInfo& place) {
    Node n{.kind = NodeKind::Gpu, .parent = g_.all(NodeKind::Numa, host_).front(), .busId = busId};
    n.pci.vendor = static_cast<int>(place.pciDeviceId & 0xffff);
    n.pci.device = static_cast<int>(place.pciDeviceId >> 16);
    n.pci.classCode = 0x030200;
    const int parent = n.parent, node = g_.add(std::move(n));
    g_.connect({parent, node, LinkKind::Pci, 1, assumedPcieGBps(), true});
    g_.note(cat(busId, ": a GPU that the system does not show on PCI: its NUMA node and PCIe link are guessed"));
    return node;
  }

  void about(int node, NvmlHandle handle) {
    Node& n = at(node);
    char uuid[96] = "";
    if (nvml_.uuid != nullptr && ok(nvml_.uuid(handle, uuid, sizeof uuid), "nvmlDeviceGetUUID", n.busId)) {
      uuid[sizeof uuid - 1] = '\0';
      n.gpu.uuid = uuid;
    }
    int major = 0, minor = 0;
    if (nvml_.capability != nullptr &&
        ok(nvml_.capability(handle, &major, &minor), "nvmlDeviceGetCudaComputeCapability", n.busId)) {
      n.gpu.sm = major * 10 + minor;
    }
    unsigned now = 0, pending = 0;
    if (nvml_.migMode != nullptr && ok(nvml_.migMode(handle, &now, &pending), "nvmlDeviceGetMigMode", n.busId) &&
        now == kFeatureOn) {
      n.gpu.migParts = migParts(handle, n.busId);
    }
  }

  int migParts(NvmlHandle handle, const std::string& what) {
    unsigned most = 0;
    if (nvml_.mostMigDevices == nullptr || nvml_.migDevice == nullptr) return 0;
    if (!ok(nvml_.mostMigDevices(handle, &most), "nvmlDeviceGetMaxMigDeviceCount", what)) return 0;
    int parts = 0;
    for (unsigned i = 0; i < std::min(most, 64U); ++i) {
      NvmlHandle part = nullptr;
      const int code = nvml_.migDevice(handle, i, &part);  // numbers have holes
      if (code != kNvmlNotFound && ok(code, "nvmlDeviceGetMigDeviceHandleByIndex", what)) ++parts;
    }
    return parts;
  }

  void links(int node, NvmlHandle handle) {
    if (nvml_.linkState == nullptr || nvml_.remotePci == nullptr) {
      g_.note("NVLinks are not known: this NVML has no functions for them");
      return;
    }
    at(node).gpu.linksTold = true;
    for (unsigned link = 0; link < kMostNvlinks; ++link) {
      unsigned on = 0;
      // A GPU has fewer links than asked for: the first number that it does not know is the end.
      const int code = nvml_.linkState(handle, link, &on);
      if (code == kNvmlNotSupported || code == 2 /* invalid argument */) break;
      const std::string what = cat(at(node).busId, " NVLink ", link);
      if (!ok(code, "nvmlDeviceGetNvLinkState", what) || on != kFeatureOn) continue;
      unsigned version = 0;
      if (nvml_.linkVersion != nullptr && nvml_.linkVersion(handle, link, &version) == kNvmlSuccess) {
        at(node).gpu.nvlinkGeneration = std::max(at(node).gpu.nvlinkGeneration, static_cast<int>(version));
      }
      if (at(node).gpu.migParts < 0) neighbour(node, handle, link, what);
    }
    if (at(node).gpu.migParts >= 0 && at(node).gpu.nvlinkGeneration > 0) {
      g_.note(cat(at(node).busId, ": MIG is on: its parts cannot use its NVLinks, which are left out"));
    }
  }

  void neighbour(int node, NvmlHandle handle, unsigned link, const std::string& what) {
    NvmlPciInfo place{};
    if (!ok(nvml_.remotePci(handle, link, &place), "nvmlDeviceGetNvLinkRemotePciInfo_v2", what)) return;
    int type = RemoteUnknown;
    if (nvml_.remoteType != nullptr) {
      (void)ok(nvml_.remoteType(handle, link, &type), "nvmlDeviceGetNvLinkRemoteDeviceType", what);
    }
    const std::string busId = nvmlBusId(place);
    int to = g_.byBusId(busId, host_);
    const bool isSwitch = type == RemoteSwitch || (to >= 0 && at(to).kind == NodeKind::NvSwitch);
    if (to < 0 && isSwitch) to = addSwitch(busId);
    if (type == RemoteCpu) to = g_.enclosing(node, NodeKind::Numa);  // POWER9
    if (to < 0) {
      g_.note(cat(at(node).busId, ": NVLinks to ", busId, ", which is not to be seen here"));
    } else if (to != node) {
      ++lanes_[{node, to}];
    }
  }

  /// Virtual machines and most containers are not shown the switches.
  int addSwitch(const std::string& busId) {
    Node n{.kind = NodeKind::NvSwitch, .parent = host_, .busId = busId};
    return g_.add(std::move(n));
  }

  /// Both ends tell of a link between GPUs: one link of the graph, with the larger count should they disagree.
  void connect() {
    for (const auto& [ends, count] : lanes_) {
      const auto [from, to] = ends;
      const auto back = lanes_.find({to, from});
      const int other = back != lanes_.end() ? back->second : 0;
      if (back != lanes_.end() && to < from) continue;
      const bool bothGpus = at(from).kind == NodeKind::Gpu && at(to).kind == NodeKind::Gpu;
      if (bothGpus && at(to).gpu.migParts >= 0) continue;  // noted with that GPU
      if (bothGpus && count != other) {
        g_.note(cat("the ends disagree on the number of NVLinks between ", at(from).busId, " and ", at(to).busId, ": ",
                    count, " and ", other));
      }
      const GpuInfo& gpu = at(from).gpu;
      const double each = gpu.sm > 0 ? nvlinkGBps(gpu.sm) : nvlinkGBpsOfGeneration(gpu.nvlinkGeneration);
      const int most = std::max(count, other);
      g_.connect({std::min(from, to), std::max(from, to), LinkKind::NvLink, most, each * most, false});
    }
  }

  Graph& g_;
  const Nvml& nvml_;
  bool openOnly_;
  int host_;
  std::map<int, NvmlHandle> handles_;  // by node
  std::map<std::pair<int, int>, int> lanes_;
};

}  // namespace

bool showsNvidia(const Graph& graph) {
  for (const int gpu : graph.all(NodeKind::Gpu)) {
    if (graph.nodes[static_cast<size_t>(gpu)].pci.vendor == 0x10de) return true;
  }
  return ::access("/dev/nvidiactl", F_OK) == 0;
}

namespace {

void askNvml(Graph& graph, const char* library, bool openOnly) {
  const auto without = [&](const std::string& why) {
    if (showsNvidia(graph)) graph.note(cat("NVLinks and MIG are not known: ", library, " ", why));
  };
  Nvml nvml;
  if (const std::string why = nvml.load(library); !why.empty()) return without(why);
  if (const int code = nvml.init(); code != kNvmlSuccess) return without(cat("does not start: ", nvml.why(code)));
  NvmlAsker(graph, nvml, openOnly).run();
  (void)nvml.shutdown();
}

}  // namespace

void addByNvml(Graph& graph, const char* library) { askNvml(graph, library, false); }
void completeByNvml(Graph& graph, const char* library) { askNvml(graph, library, true); }

}  // namespace tutti::topology
