#include "src/topology/one_line.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

#include "src/topology/complete.hpp"
#include "src/topology/named_machines.hpp"
#include "src/topology/rates.hpp"

namespace tutti::topology {
namespace {

struct Machine {
  int nodes = 1, packages = 0, numas = 1, l3s = 1, cores = 8;
  double socketGBps = 22;
  int gpus = 0, sm = 90;
  std::string gcn;
  int switches = -1;
  double pcieGTps = 32;
  int pcieWidth = 16;
  int nvlinks = 0, xgmis = 0;
  double nvlinkGBps = 0, xgmiGBps = 0, c2cGBps = 0;
  int nvswitches = 1;
  int nics = 0;
  double nicGBps = 0, nicUs = 0;
  int nicVendor = -1, nicDevice = -1;
};

Status whole(const std::string& word, std::string_view text, int least, int most, int* value) {
  if (!parseNumber(text, value))
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "': '", text, "' is not a whole number");
  if (*value < least || *value > most) {
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "': ", *value, " is outside ", least, "..",
                           most);
  }
  return {};
}

Status bandwidth(const std::string& word, std::string_view text, double* value) {
  if (parseNumber(text, value) && std::isfinite(*value) && *value >= 1e-3 && *value <= 1e6) return {};
  return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "': '", text,
                         "' is not a bandwidth in GB/s (0.001 to 1000000)");
}

Status microseconds(const std::string& word, std::string_view text, double* value) {
  if (parseNumber(text, value) && std::isfinite(*value) && *value >= 0 && *value <= 1e6) return {};
  return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "': '", text,
                         "' is not a time in microseconds (0 to 1000000)");
}

/// "18x25": a number of links and the bandwidth of each.
Status times(const std::string& word, std::string_view text, int least, int most, int* count, double* each) {
  const size_t x = text.find('x');
  if (x == std::string_view::npos)
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "' is not NUMBERxBANDWIDTH, e.g. 8x50");
  TUTTI_TRY(whole(word, text.substr(0, x), least, most, count));
  return bandwidth(word, text.substr(x + 1), each);
}

Status pcie(const std::string& word, std::string_view text, Machine* m) {
  const size_t x = text.find('x');
  if (x == std::string_view::npos)
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "' is not SPEEDxLANES, e.g. 32x16");
  TUTTI_TRY(bandwidth(word, text.substr(0, x), &m->pcieGTps));
  if (m->pcieGTps > 1024)
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "': more than 1024 GT/s");
  return whole(word, text.substr(x + 1), 1, 64, &m->pcieWidth);
}

/// Vendor and device, as lspci writes them.
Status pciIds(const std::string& word, std::string_view text, Machine* m) {
  const auto id = [](std::string_view hex, int* value) {
    const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), *value, 16);
    return hex.size() == 4 && error == std::errc() && end == hex.data() + hex.size() && *value >= 0;
  };
  if (text.size() == 9 && text[4] == ':' && id(text.substr(0, 4), &m->nicVendor) && id(text.substr(5), &m->nicDevice))
    return {};
  return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "' is not VENDOR:DEVICE, e.g. 1d0f:efa1");
}

Status readWord(const std::string& word, std::string_view key, std::string_view value, Machine* m) {
  if (key == "node") return whole(word, value, 1, 1 << 17, &m->nodes);
  if (key == "package") return whole(word, value, 1, 64, &m->packages);
  if (key == "numa") return whole(word, value, 1, 64, &m->numas);
  if (key == "l3") return whole(word, value, 1, 64, &m->l3s);
  if (key == "core") return whole(word, value, 1, 1024, &m->cores);
  if (key == "socket") return bandwidth(word, value, &m->socketGBps);
  if (key == "gpu") return whole(word, value, 0, 128, &m->gpus);
  if (key == "sm") return whole(word, value, 10, 999, &m->sm);
  if (key == "gcn") {
    m->gcn = value;
    if (mayHaveXgmi(value) && value.starts_with("gfx")) return {};
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", word,
                           "': no architecture with xGMI links, e.g. gfx942");
  }
  if (key == "switch") return whole(word, value, 0, 128, &m->switches);
  if (key == "pcie") return pcie(word, value, m);
  if (key == "nvlink") return times(word, value, 1, 1024, &m->nvlinks, &m->nvlinkGBps);
  if (key == "xgmi") return times(word, value, 1, 1024, &m->xgmis, &m->xgmiGBps);
  if (key == "nvswitch") return whole(word, value, 0, 64, &m->nvswitches);
  if (key == "c2c") return bandwidth(word, value, &m->c2cGBps);
  if (key == "nic") return times(word, value, 0, 128, &m->nics, &m->nicGBps);
  if (key == "nic-latency") return microseconds(word, value, &m->nicUs);
  if (key == "nic-pci") return pciIds(word, value, m);
  return invalidArgument(ErrorCode::TopologyLine, "topology: '", word,
                         "': the words are node, package, numa, l3, core, socket, gpu, sm, gcn, switch, "
                         "pcie, nvlink, nvswitch, xgmi, c2c, nic, nic-latency, nic-pci");
}

/// The words of a named machine; those that follow the name in the text take their place.
Status readNamed(const std::string& name, Machine* m) {
  const NamedMachine* found = findNamedMachine(name);
  if (found == nullptr) {
    return invalidArgument(ErrorCode::TopologyLine, "topology: '", name,
                           "' is not KEY:VALUE, e.g. gpu:8, and no machine has that name; there are ",
                           namesOfMachines());
  }
  for (const std::string& word : split(found->words, ' ')) {
    const size_t colon = word.find(':');
    TUTTI_TRY(readWord(word, std::string_view(word).substr(0, colon), std::string_view(word).substr(colon + 1), m));
  }
  return {};
}

Status checkLinks(const Machine& m) {
  if (m.nvlinks > 0 && m.gpus == 0) return invalidArgument(ErrorCode::TopologyLine, "topology: nvlink without gpu");
  if (m.xgmis > 0 && m.gpus == 0) return invalidArgument(ErrorCode::TopologyLine, "topology: xgmi without gpu");
  if (m.xgmis > 0 && m.gcn.empty())
    return invalidArgument(ErrorCode::TopologyLine, "topology: xgmi without gcn, e.g. gcn:gfx942");
  if (m.nvlinks > 0 && !m.gcn.empty())
    return invalidArgument(ErrorCode::TopologyLine, "topology: nvlink with gcn: GPUs of AMD have xgmi");
  if (m.c2cGBps > 0 && m.gpus == 0) return invalidArgument(ErrorCode::TopologyLine, "topology: c2c without gpu");
  const int meshed = m.nvlinks > 0 && m.nvswitches == 0 ? m.nvlinks : m.xgmis;
  if (meshed > 0 && (m.gpus < 2 || meshed % (m.gpus - 1) != 0)) {
    return invalidArgument(ErrorCode::TopologyLine, "topology: ", meshed, " links of a GPU do not go evenly to ",
                           m.gpus - 1, " others");
  }
  if (m.nvlinks > 0 && m.nvswitches > m.nvlinks)
    return invalidArgument(ErrorCode::TopologyLine, "topology: more NVSwitches than links of a GPU");
  return {};
}

Result<Machine> readMachine(std::string_view text) {
  Machine m;
  std::set<std::string, std::less<>> seen;
  std::string plain(text);
  for (char& c : plain) c = c == '\n' || c == '\t' || c == '\r' || c == ',' ? ' ' : c;
  for (const std::string& word : split(plain, ' ')) {
    if (word.empty()) continue;
    const size_t colon = word.find(':');
    if (colon == std::string::npos && seen.empty()) {
      TUTTI_TRY(readNamed(word, &m));
      seen.insert(word);
      continue;
    }
    if (colon == std::string::npos)
      return invalidArgument(ErrorCode::TopologyLine, "topology: '", word, "' is not KEY:VALUE, e.g. gpu:8");
    const std::string_view key = std::string_view(word).substr(0, colon);
    if (!seen.insert(std::string(key)).second)
      return invalidArgument(ErrorCode::TopologyLine, "topology: '", key, "' is there twice");
    TUTTI_TRY(readWord(word, key, std::string_view(word).substr(colon + 1), &m));
  }
  if (seen.empty())
    return invalidArgument(ErrorCode::TopologyLine, "topology: nothing in it; e.g. node:4 gpu:8 nvlink:18x25 nic:8x50");
  TUTTI_TRY(checkLinks(m));
  const int devices = std::max(m.gpus, m.nics);
  if (m.packages == 0) m.packages = devices >= 2 ? 2 : 1;
  const int fewest = m.gpus > 0 && m.nics > 0 ? std::min(m.gpus, m.nics) : 0;
  if (m.switches < 0) m.switches = fewest;
  const int64_t cpuParts = int64_t{m.packages} * m.numas * m.l3s * m.cores;
  if (cpuParts > CpuSet::kMost)
    return invalidArgument(ErrorCode::TopologyTooLarge, "topology: more than ", CpuSet::kMost, " cores in a host");
  const int64_t perHost = 2 * cpuParts + m.gpus + 2 * m.nics + m.switches + m.nvswitches + 64;
  if (perHost * m.nodes > static_cast<int64_t>(Graph::kMostNodes)) {
    return invalidArgument(ErrorCode::TopologyTooLarge, "topology: too large a machine: about ", perHost * m.nodes,
                           " parts, at most ", Graph::kMostNodes);
  }
  return m;
}

class Builder {
 public:
  explicit Builder(const Machine& machine) : m_(machine) {}

  Graph build() {
    for (int host = 0; host < m_.nodes; ++host) buildHost(host);
    return std::move(g_);
  }

 private:
  int add(NodeKind kind, int parent, int index) {
    Node n{.kind = kind, .parent = parent, .index = index};
    return g_.add(std::move(n));
  }

  void buildHost(int host) {
    // A hash that can be told from an unknown one, the same in every process that reads the same line.
    host_ = add(NodeKind::Host, -1, host);
    g_.nodes.back().hostHash = static_cast<uint64_t>(host) + 1;
    numas_.clear();
    bus_ = 1;
    int core = 0;
    for (int package = 0; package < m_.packages; ++package) buildPackage(package, &core);
    for (size_t i = 0; i < numas_.size(); ++i) {
      for (size_t j = i + 1; j < numas_.size(); ++j) {
        g_.connect({numas_[i], numas_[j], LinkKind::Socket, 1, m_.socketGBps, false});
      }
    }
    buildDevices();
  }

  void buildPackage(int package, int* core) {
    const int socket = add(NodeKind::Package, host_, package);
    for (int i = 0; i < m_.numas; ++i) {
      const int numa = add(NodeKind::Numa, socket, package * m_.numas + i);
      numas_.push_back(numa);
      for (int l3 = 0; l3 < m_.l3s; ++l3) {
        const int cache = add(NodeKind::L3, numa, (package * m_.numas + i) * m_.l3s + l3);
        for (int c = 0; c < m_.cores; ++c, ++*core) {
          const int node = add(NodeKind::Core, cache, *core);
          for (const int holder : {socket, numa, cache, node}) g_.nodes[static_cast<size_t>(holder)].cpus.add(*core);
        }
      }
    }
  }

  /// The i-th of n things among m places in order: 0 0 1 1 for 4 among 2.
  static int spread(int i, int n, int places) { return static_cast<int>(int64_t{i} * places / n); }

  int onPci(NodeKind kind, int parent, int index, int classCode, int vendor) {
    const int node = add(kind, parent, index);
    Node& n = g_.nodes.back();
    char busId[32];
    std::snprintf(busId, sizeof busId, "%04x:%02x:00.0", bus_ >> 8, bus_ & 0xff);
    ++bus_;
    n.busId = busId;
    n.pci = {classCode, vendor, -1, -1, -1, m_.pcieGTps, m_.pcieWidth};
    g_.connect({parent, node, LinkKind::Pci, 1, pcieGBps(m_.pcieGTps, m_.pcieWidth), false});
    return node;
  }

  void buildDevices() {
    const int places = static_cast<int>(numas_.size());
    std::vector<int> switches;
    for (int i = 0; i < m_.switches; ++i) {
      const int numa = numas_[static_cast<size_t>(spread(i, m_.switches, places))];
      switches.push_back(onPci(NodeKind::PciSwitch, numa, -1, 0x060400, -1));
    }
    const std::vector<int>& holders = switches.empty() ? numas_ : switches;
    const auto holder = [&](int i, int n) {
      return holders[static_cast<size_t>(spread(i, n, static_cast<int>(holders.size())))];
    };
    std::vector<int> gpus;
    for (int i = 0; i < m_.gpus; ++i) {
      gpus.push_back(onPci(NodeKind::Gpu, holder(i, m_.gpus), i, 0x030200, 0x10de));
      buildGpu(&g_.nodes.back());
      const int numa = g_.enclosing(gpus.back(), NodeKind::Numa);
      if (m_.c2cGBps > 0) g_.connect({numa, gpus.back(), LinkKind::C2C, 1, m_.c2cGBps, false});
    }
    for (int i = 0; i < m_.nics; ++i) buildNic(holder(i, m_.nics), i);
    if (m_.nvlinks > 0) buildNvlinks(gpus);
    if (m_.xgmis > 0) buildMesh(gpus, LinkKind::Xgmi, m_.xgmis, m_.xgmiGBps);
  }

  void buildGpu(Node* n) {
    n->gpu.linksTold = true;  // no word for them: there are none
    if (m_.gcn.empty()) {
      n->gpu.sm = m_.sm;
    } else {
      n->gpu.gcn = m_.gcn;
      n->pci.vendor = 0x1002;
    }
  }

  /// The links of a GPU go evenly to all others.
  void buildMesh(const std::vector<int>& gpus, LinkKind kind, int links, double eachGBps) {
    const int each = links / (m_.gpus - 1);
    for (size_t i = 0; i < gpus.size(); ++i) {
      for (size_t j = i + 1; j < gpus.size(); ++j) g_.connect({gpus[i], gpus[j], kind, each, each * eachGBps, false});
    }
  }

  void buildNic(int parent, int i) {
    const int nic = onPci(NodeKind::Nic, parent, -1, 0x020000, -1);
    g_.nodes.back().pci.vendor = m_.nicVendor;
    g_.nodes.back().pci.device = m_.nicDevice;
    const int net = add(NodeKind::Net, nic, i);
    Node& n = g_.nodes.back();
    n.name = cat("nic", i);
    n.net.speedMbps = static_cast<int>(std::lround(m_.nicGBps * 8000));
    n.net.port = 1;
    n.net.rail = i;
    n.net.latencyUs = m_.nicUs;
    n.net.guid = g_.nodes[static_cast<size_t>(host_)].hostHash << 16 | static_cast<uint64_t>(i);
    g_.connect({nic, net, LinkKind::Port, 1, m_.nicGBps, false});
  }

  void buildNvlinks(const std::vector<int>& gpus) {
    if (m_.nvswitches == 0) return buildMesh(gpus, LinkKind::NvLink, m_.nvlinks, m_.nvlinkGBps);
    for (int s = 0; s < m_.nvswitches; ++s) {
      const int node = add(NodeKind::NvSwitch, host_, -1);
      char busId[32];
      std::snprintf(busId, sizeof busId, "%04x:%02x:00.0", bus_ >> 8, bus_ & 0xff);
      ++bus_;
      g_.nodes.back().busId = busId;
      const int lanes = m_.nvlinks / m_.nvswitches + (s < m_.nvlinks % m_.nvswitches ? 1 : 0);
      for (const int gpu : gpus) g_.connect({gpu, node, LinkKind::NvLink, lanes, lanes * m_.nvlinkGBps, false});
    }
  }

  Machine m_;
  Graph g_;
  int host_ = 0;
  int bus_ = 1;
  std::vector<int> numas_;
};

}  // namespace

Result<Graph> parseOneLine(std::string_view text) {
  TUTTI_ASSIGN(const Machine machine, readMachine(text));
  Graph graph = Builder(machine).build();
  TUTTI_TRY(complete(graph));
  return graph;
}

}  // namespace tutti::topology
