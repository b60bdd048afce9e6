#include "src/topology/compact.hpp"

#include <cmath>
#include <cstdio>

namespace tutti::topology {
namespace {

constexpr std::string_view kHead = "tutti-machine 1";
constexpr const char* kNodeKinds[kNumNodeKinds] = {"host", "package", "numa", "l3",       "core",  "switch",
                                                   "gpu",  "nic",     "net",  "nvswitch", "device"};
constexpr const char* kLinkKinds[] = {"pci", "peer", "nvlink", "xgmi", "c2c", "socket", "port"};
constexpr int kNumLinkKinds = static_cast<int>(std::size(kLinkKinds));

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '%' && c != '=' && c != ',') {
      out += c;
      continue;
    }
    char code[4];
    std::snprintf(code, sizeof code, "%%%02x", byte);
    out += code;
  }
  return out;
}

bool unescape(std::string_view text, std::string* out) {
  out->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      *out += text[i];
      continue;
    }
    std::vector<unsigned char> byte;
    if (i + 2 >= text.size() || !fromHex(text.substr(i + 1, 2), &byte)) return false;
    *out += static_cast<char>(byte[0]);
    i += 2;
  }
  return true;
}

std::string exactText(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(value));
  return text;
}

bool parseFinite(std::string_view text, double* out) { return parseNumber(text, out) && std::isfinite(*out); }

/// Writes and reads the fields of a node by one list, so that neither forgets what the other knows.
class Fields {
 public:
  explicit Fields(std::string* out) : out_(out) {}
  Fields(std::string_view key, std::string_view value) : key_(key), value_(value) {}

  bool understood() const { return understood_; }

  void visit(Node& n) {
    integer("i", &n.index, -1);
    text("name", &n.name);
    text("bus", &n.busId);
    wide("hash", &n.hostHash, 16);
    wide("mem", &n.memoryBytes, 10);
    cpus(&n.cpus);
    integer("class", &n.pci.classCode, -1);
    integer("vendor", &n.pci.vendor, -1);
    integer("device", &n.pci.device, -1);
    integer("subvendor", &n.pci.subsystemVendor, -1);
    integer("subdevice", &n.pci.subsystemDevice, -1);
    real("gtps", &n.pci.linkGTps);
    integer("width", &n.pci.linkWidth, 0);
    text("arch", &n.cpu.arch);
    text("cpu", &n.cpu.vendor);
    integer("family", &n.cpu.family, -1);
    integer("model", &n.cpu.model, -1);
    integer("sm", &n.gpu.sm, 0);
    integer("rank", &n.gpu.rank, -1);
    text("gcn", &n.gpu.gcn);
    text("uuid", &n.gpu.uuid);
    integer("sms", &n.gpu.multiprocessors, 0);
    integer("nvgen", &n.gpu.nvlinkGeneration, 0);
    integer("mig", &n.gpu.migParts, -1);
    flag("told", &n.gpu.linksTold);
    integer("mbps", &n.net.speedMbps, 0);
    integer("port", &n.net.port, -1);
    real("latency", &n.net.latencyUs);
    wide("guid", &n.net.guid, 16);
    integer("rail", &n.net.rail, -1);
    integer("plane", &n.net.plane, -1);
    extras(&n);
  }

 private:
  void write(std::string_view key, const std::string& value) { *out_ += cat(" ", key, "=", value); }
  bool wanted(std::string_view key) const { return out_ == nullptr && key == key_; }

  void integer(std::string_view key, int* field, int usual) {
    if (out_ != nullptr && *field != usual) write(key, cat(*field));
    if (wanted(key)) understood_ = parseNumber(value_, field);
  }
  void flag(std::string_view key, bool* field) {
    int value = *field ? 1 : 0;
    integer(key, &value, 0);
    *field = value != 0;
  }
  template <class T>
  void wide(std::string_view key, T* field, int base) {
    if (out_ != nullptr && *field != 0) write(key, base == 16 ? hex(*field) : cat(*field));
    if (wanted(key)) understood_ = parseNumber(value_, field, base);
  }
  void real(std::string_view key, double* field) {
    if (out_ != nullptr && *field != 0) write(key, exactText(*field));
    if (wanted(key)) understood_ = parseFinite(value_, field);
  }
  void text(std::string_view key, std::string* field) {
    if (out_ != nullptr && !field->empty()) write(key, escaped(*field));
    if (wanted(key)) understood_ = unescape(value_, field);
  }
  void cpus(CpuSet* field) {
    if (out_ != nullptr && !field->empty()) write("cpus", escaped(field->list()));
    if (!wanted("cpus")) return;
    std::string list;
    if (!unescape(value_, &list)) return;
    auto set = CpuSet::parseList(list);
    understood_ = set.ok();
    if (set.ok()) *field = std::move(*set);
  }
  void extras(Node* n) {
    if (out_ != nullptr) {
      for (const auto& [name, value] : n->extra) write("x", escaped(name) + "," + escaped(value));
    }
    if (!wanted("x")) return;
    const size_t comma = value_.find(',');
    std::string name, value;
    understood_ = comma != std::string_view::npos && unescape(value_.substr(0, comma), &name) &&
                  unescape(value_.substr(comma + 1), &value);
    if (understood_) n->extra.emplace_back(std::move(name), std::move(value));
  }

  std::string* out_ = nullptr;
  std::string_view key_, value_;
  bool understood_ = false;
};

int kindNamed(std::string_view name, const char* const* names, int count) {
  for (int i = 0; i < count; ++i) {
    if (name == names[i]) return i;
  }
  return -1;
}

class Parser {
 public:
  Result<Graph> parse(std::string_view text) {
    const std::vector<std::string> lines = split(text, '\n');
    if (lines.empty() || lines.front() != kHead)
      return invalidArgument(ErrorCode::TopologyFile, "line 1: does not start with ", kHead);
    for (size_t i = 1; i < lines.size(); ++i) {
      if (lines[i] == "end") return finish();
      if (lines[i].empty() && i + 1 == lines.size()) break;
      if (std::string why = line(lines[i]); !why.empty())
        return invalidArgument(ErrorCode::TopologyFile, "line ", i + 1, ": ", why);
    }
    return invalidArgument(ErrorCode::TopologyFile, "line ", lines.size(), ": ends too early");
  }

 private:
  std::string line(const std::string& text) {
    if (text.starts_with("# ")) {
      g_.notes.push_back(text.substr(2));
      return "";
    }
    if (text.starts_with("! ")) {
      g_.leftOut.push_back(text.substr(2));
      return "";
    }
    const std::vector<std::string> words = split(text, ' ');
    if (words.size() >= 3 && words[0] == "N") return node(words);
    if (words.size() >= 5 && words[0] == "L") return link(words);
    return "neither a node nor a link nor a note";
  }

  std::string node(const std::vector<std::string>& words) {
    Node n;
    const int kind = kindNamed(words[1], kNodeKinds, kNumNodeKinds);
    if (kind < 0) return "no kind of node: " + words[1];
    n.kind = static_cast<NodeKind>(kind);
    if (words[2] != "-" && !parseNumber(words[2], &n.parent)) return "no number: " + words[2];
    for (size_t i = 3; i < words.size(); ++i) {
      const std::string_view word = words[i];
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos) return "no field: " + words[i];
      Fields field(word.substr(0, equals), word.substr(equals + 1));
      field.visit(n);
      if (!field.understood()) return "not understood: " + words[i];
    }
    g_.add(std::move(n));
    return "";
  }

  std::string link(const std::vector<std::string>& words) {
    Link l;
    const int kind = kindNamed(words[3], kLinkKinds, kNumLinkKinds);
    if (kind < 0 || !parseNumber(words[1], &l.a) || !parseNumber(words[2], &l.b) || !parseFinite(words[4], &l.gbps)) {
      return "not a link";
    }
    l.kind = static_cast<LinkKind>(kind);
    for (size_t i = 5; i < words.size(); ++i) {
      if (words[i] == "assumed") {
        l.assumed = true;
      } else if (!parseNumber(words[i], &l.count)) {
        return "not understood: " + words[i];
      }
    }
    g_.connect(l);
    return "";
  }

  Result<Graph> finish() {
    if (g_.nodes.size() > Graph::kMostNodes)
      return invalidArgument(ErrorCode::TopologyTooLarge, "more than ", Graph::kMostNodes, " nodes");
    if (std::string why = g_.check(); !why.empty()) return invalidArgument(ErrorCode::TopologyFile, why);
    for (const int host : g_.all(NodeKind::Host)) {
      if (g_.all(NodeKind::Numa, host).empty())
        return invalidArgument(ErrorCode::TopologyFile, "host ", host, " has no NUMA node");
    }
    return std::move(g_);
  }

  Graph g_;
};

}  // namespace

std::string toCompact(const Graph& graph) {
  std::string out = cat(kHead, "\n");
  for (Node n : graph.nodes) {
    out += cat("N ", kNodeKinds[static_cast<size_t>(n.kind)], " ", n.parent < 0 ? "-" : cat(n.parent));
    Fields(&out).visit(n);
    out += '\n';
  }
  for (const Link& l : graph.links) {
    out += cat("L ", l.a, " ", l.b, " ", kLinkKinds[static_cast<size_t>(l.kind)], " ", exactText(l.gbps));
    out += cat(l.count != 1 ? cat(" ", l.count) : "", l.assumed ? " assumed\n" : "\n");
  }
  for (const auto& [mark, sentences] : {std::pair("# ", &graph.notes), std::pair("! ", &graph.leftOut)}) {
    for (std::string sentence : *sentences) {
      for (char& c : sentence) c = c == '\n' ? ' ' : c;
      out += cat(mark, sentence, "\n");
    }
  }
  return out + "end\n";
}

Result<Graph> parseCompact(std::string_view text) {
  if (text.size() > kMostCompactBytes)
    return invalidArgument(ErrorCode::TopologyTooLarge, "larger than ", kMostCompactBytes, " bytes");
  return Parser().parse(text);
}

Graph withoutCores(const Graph& graph) {
  Graph thin;
  std::vector<int> image(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].kind == NodeKind::Core) continue;  // leaves, and no link ends at one
    Node n = graph.nodes[i];
    if (n.parent >= 0) n.parent = image[static_cast<size_t>(n.parent)];
    image[i] = thin.add(std::move(n));
  }
  for (Link l : graph.links) {
    l.a = image[static_cast<size_t>(l.a)];
    l.b = image[static_cast<size_t>(l.b)];
    if (l.a >= 0 && l.b >= 0) thin.connect(l);
  }
  thin.notes = graph.notes;
  thin.leftOut = graph.leftOut;
  return thin;
}

}  // namespace tutti::topology
