// Machines as one graph: a tree of what is inside what (host, package, NUMA node, PCIe switch, device), and links with
// bandwidth between the parts that move data.  A plain value: copies, compares, holds no handle.
//
// Several hosts are several trees in one graph.  A device is known by its PCI bus id within its host, a host by its
// hash (of host name and boot), so graphs that several processes or hosts made can be merged (merge.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.hpp"
#include "src/topology/cpu_set.hpp"

namespace tutti::topology {

enum class NodeKind {
  Host,
  Package,    // a CPU socket
  Numa,       // a NUMA node: memory, and what is near it.  The `cpu` of NCCL's XML
  L3,         // what shares a last-level cache
  Core,       // with its PUs in `cpus`
  PciSwitch,  // a switch as one node, however many bridges (ports) the machine shows it as
  Gpu,
  Nic,  // an adapter: a PCI function, or (without a bus id) something the kernel only has a name for
  Net,  // a port of an adapter, as an interface or RDMA device
  NvSwitch,
  PciDevice,  // anything else on PCI that is worth a line: displays, storage
};
constexpr int kNumNodeKinds = static_cast<int>(NodeKind::PciDevice) + 1;

struct PciInfo {
  int classCode = -1;  // 24 bits, e.g. 0x030200; this and the ids are -1 where unknown
  int vendor = -1, device = -1, subsystemVendor = -1, subsystemDevice = -1;
  double linkGTps = 0;  // giga-transfers per second and lane, 0: unknown
  int linkWidth = 0;    // lanes, 0: unknown
  bool operator==(const PciInfo&) const = default;
};

struct CpuInfo {
  std::string arch;    // x86_64, arm64, ppc64; "" unknown
  std::string vendor;  // as CPUID says it: GenuineIntel
  int family = -1, model = -1;
  bool operator==(const CpuInfo&) const = default;
};

struct GpuInfo {
  int sm = 0;               // CUDA compute capability x 10 (AMD: number of compute units, as RCCL writes it); 0 unknown
  int rank = -1;            // of the job that wrote the file
  std::string gcn;          // AMD architecture: gfx942
  std::string uuid;         // as NVML writes it: "GPU-5a3c..."
  int multiprocessors = 0;  // 0 unknown
  int nvlinkGeneration = 0;  // 1 to 5; 0: no NVLink is up, or nobody told
  int migParts = -1;         // that MIG cuts it into (0: MIG is on and no part made yet); -1: it is whole
  bool linksTold = false;  // whoever described it knew its NVLinks or xGMI links; else that there are none says nothing
  bool operator==(const GpuInfo&) const = default;
};

struct NetInfo {
  int speedMbps = 0;  // 0: unknown
  int port = -1;
  double latencyUs = 0;
  uint64_t guid = 0;
  int rail = -1;
  int plane = -1;
  bool operator==(const NetInfo&) const = default;
};

struct Node {
  NodeKind kind = NodeKind::Host;
  int parent = -1;         // index of the node that holds this one; -1 for hosts.  Always less than the node's own
  int index = -1;          // the system's number: NUMA node, package, core, CUDA device, net device; -1 none
  std::string name;        // shown to people: "GPU 3", "mlx5_0"
  std::string busId;       // canonical "0000:81:00.0"; "" for what is not on PCI
  uint64_t hostHash = 0;   // of a Host; 0 unknown
  size_t memoryBytes = 0;  // of a Numa or Gpu; size of an L3
  CpuSet cpus;             // of Package, Numa, L3, Core
  PciInfo pci;             // of what has a bus id
  CpuInfo cpu;             // of Package and Numa
  GpuInfo gpu;
  NetInfo net;
  /// Attributes of the file that nothing here understands; written back as they came.
  std::vector<std::pair<std::string, std::string>> extra;
  bool operator==(const Node&) const = default;
};

enum class LinkKind {
  Pci,      // a PCIe link, or the way between an adapter and its host where the file does not say what it is
  PciPeer,  // between two switches, beside the tree (`pcilink`)
  NvLink,
  Xgmi,
  C2C,     // NVLink-C2C between GPU and CPU
  Socket,  // between NUMA nodes of a host
  Port,    // between an adapter and one of its ports
};

/// A full-duplex link.
struct Link {
  int a = 0, b = 0;  // nodes
  LinkKind kind = LinkKind::Pci;
  int count = 1;         // lanes of NVLink, xGMI, C2C: 18 for a Hopper GPU to a single switch; else 1
  double gbps = 0;       // GB/s in each direction, all `count` together, as usable by data
  bool assumed = false;  // the bandwidth is a default, the source did not tell
  bool operator==(const Link&) const = default;
};

struct Graph {
  std::vector<Node> nodes;  // a parent before its children
  std::vector<Link> links;
  std::vector<std::string> notes;    // what could not be seen or was odd, a sentence each
  std::vector<std::string> leftOut;  // what a description says and this graph does not hold, a sentence for each kind

  /// The most nodes and links that a description may have; readers refuse more.
  static constexpr size_t kMostNodes = 1 << 20;

  int add(Node node);  // returns its index
  void connect(Link link);
  void note(std::string sentence);  // each only once

  /// All nodes of a kind, in order; of one host if `host` is not -1.
  std::vector<int> all(NodeKind kind, int host = -1) const;
  std::vector<int> children(int node) const;
  std::vector<int> children(int node, NodeKind kind) const;
  /// The nearest node of that kind above (or the node itself), -1 if there is none.
  int enclosing(int node, NodeKind kind) const;
  int hostOf(int node) const { return enclosing(node, NodeKind::Host); }
  /// The device with this bus id (in any form that canonicalBusId takes) on the host, -1 if there is none.
  int byBusId(std::string_view busId, int host) const;
  /// The link between two nodes of a kind, -1 if there is none.
  int linkBetween(int a, int b, LinkKind kind) const;

  bool operator==(const Graph&) const = default;

  /// Parents come first and are of a fitting kind, links join nodes that exist and have a bandwidth, bus ids are
  /// unique within their host.  "" or the first complaint.
  std::string check() const;
};

const char* kindName(NodeKind kind);
const char* kindName(LinkKind kind);

/// "81:0.0", "0000:81:00.0", "00000000:81:00.0" -> "0000:81:00.0".  What has no such form (virtual machines show
/// addresses such as "fffffff:ff:ff.0") comes back in lower case, unchanged otherwise.
std::string canonicalBusId(std::string_view text);

/// "GPU 3 (0000:81:00.0)": how a node is named in messages and tables.
std::string describe(const Graph& graph, int node);

}  // namespace tutti::topology
