#include "tools/cluster/cluster.hpp"

#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "src/base/nearest.hpp"
#include "src/topology/load.hpp"
#include "src/topology/named_machines.hpp"
#include "src/topology/one_line.hpp"
#include "tools/cluster/machine_defaults.hpp"

namespace tutti::sim {
namespace {

using topology::NodeKind;

std::vector<std::string> wordsOf(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

bool parseNumber(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(*value);
}

/// Reads statements of one description; remembers where it is for messages.
class Reader {
 public:
  Reader(std::string origin, bool files) : origin_(std::move(origin)), files_(files) {}

  Status statement(const std::string& text, int line) {
    line_ = line;
    const std::vector<std::string> words = wordsOf(text);
    if (words.empty()) return {};
    const std::string& key = words[0];
    if (key != "near" && key != "far" && !key.starts_with("machine") && !seen_.insert({key, line}).second) {
      return wrong("'", key, "' is there already, in line ", seen_[key]);
    }
    if (key == "machine" || key == "machine-file") return machine(key, text);
    if (key == "fabric") return fabric(words);
    if (key == "near") return protocol(words, &cluster_.near);
    if (key == "far") return protocol(words, &cluster_.far);
    if (key == "memory") return memory(words);
    if (words.size() != 2) return wrong("'", key, "' takes one value");
    return single(key, words[1]);
  }

  Result<Cluster> finish() {
    line_ = 0;
    if (cluster_.machine.nodes.empty()) return wrong("no 'machine' says what a node is");
    cluster_.nearGiven = !cluster_.near.empty();
    cluster_.farGiven = !cluster_.far.empty();
    cluster_.launchGiven = seen_.contains("launch");
    cluster_.reduceGiven = seen_.contains("reduce");
    cluster_.copyGiven = seen_.contains("copy");
    if (!cluster_.nearGiven) cluster_.near = defaultNear();
    if (!cluster_.farGiven) cluster_.far = defaultFar();
    const MachineDefaults defaults = defaultsOf(cluster_.machine);
    if (!seen_.contains("reduce") && defaults.reduceGBps > 0) cluster_.reduceGBps = defaults.reduceGBps;
    if (!seen_.contains("in-flight")) cluster_.inFlight = defaults.inFlight;
    const size_t gpus = cluster_.machine.all(NodeKind::Gpu).size();
    const size_t places = gpus > 0 ? gpus : cluster_.machine.all(NodeKind::Numa).size();
    if (places == 0) return wrong("the machine has neither GPUs nor NUMA nodes for ranks to be on");
    if (places > kMostPlaces) return wrong("the machine has ", places, " places for ranks, at most ", kMostPlaces);
    if (cluster_.ranksPerNode == 0) cluster_.ranksPerNode = static_cast<int>(places);
    if (int64_t{cluster_.nodes} * cluster_.ranksPerNode > kMostRanks) {
      return wrong(cluster_.nodes, " nodes of ", cluster_.ranksPerNode, " ranks are more than ", kMostRanks, " ranks");
    }
    TUTTI_TRY(checkFabric());
    return std::move(cluster_);
  }

 private:
  template <class... Args>
  Status wrong(const Args&... args) const {
    return line_ > 0 ? invalidArgument(origin_, ":", line_, ": ", args...) : invalidArgument(origin_, ": ", args...);
  }

  Status number(const std::string& what, std::string_view text, double least, double most, double* value) const {
    if (!parseNumber(text, value)) return wrong(what, ": '", text, "' is not a number");
    if (*value < least || *value > most) return wrong(what, ": ", *value, " is outside ", least, "..", most);
    return {};
  }

  Status whole(const std::string& what, std::string_view text, int least, int most, int* value) const {
    double number = 0;
    TUTTI_TRY(this->number(what, text, least, most, &number));
    if (number != std::floor(number)) return wrong(what, ": '", text, "' is not a whole number");
    *value = static_cast<int>(number);
    return {};
  }

  Status single(const std::string& key, const std::string& value) {
    if (key == "nodes") return whole(key, value, 1, kMostNodes, &cluster_.nodes);
    if (key == "ranks-per-node") return whole(key, value, 1, 1024, &cluster_.ranksPerNode);
    if (key == "cores") return whole(key, value, 1, 4096, &cluster_.cores);
    if (key == "turn") return number(key, value, 0, 1e6, &cluster_.turnUs);
    if (key == "pass") return number(key, value, 0, 1e6, &cluster_.passUs);
    if (key == "in-flight") return whole(key, value, 1, 1024, &cluster_.inFlight);
    if (key == "launch") return number(key, value, 0, 1e6, &cluster_.launchUs);
    if (key == "reduce") return number(key, value, 1e-3, 1e6, &cluster_.reduceGBps);
    if (key == "combine") return number(key, value, 0, 1e6, &cluster_.combineUs);
    if (key == "copy") return number(key, value, 1e-3, 1e6, &cluster_.copyGBps);
    if (key == "slice") {
      size_t bytes = 0;
      if (!parseBytes(value, &bytes) || bytes < 64 || bytes > size_t{1} << 40) {
        return wrong("slice: '", value, "' is not a size of 64 bytes or more, such as 512K");
      }
      cluster_.sliceBytes = static_cast<double>(bytes);
      cluster_.sliceGiven = true;
      return {};
    }
    static const std::vector<std::string> statements = {
        "nodes",   "machine", "machine-file", "ranks-per-node", "fabric", "near", "far",  "launch", "reduce",
        "combine", "copy",    "slice",        "in-flight",      "cores",  "turn", "pass", "memory"};
    std::string all;
    for (const std::string& one : statements) all += cat(all.empty() ? "" : ", ", one);
    const bool part = key.find(':') != std::string::npos;
    return wrong("'", key, "' is no statement", didYouMean(key, statements), "; there are ", all,
                 part ? cat(" (a machine is described as 'machine ", key, " ...')") : "");
  }

  Status machine(const std::string& key, const std::string& text) {
    if (!cluster_.machine.nodes.empty()) return wrong("the machine is described already");
    const size_t begin = text.find(key) + key.size();
    const size_t first = text.find_first_not_of(" \t", begin);
    if (first == std::string::npos) return wrong("'", key, "' takes a description");
    const std::string rest = text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
    if (key == "machine-file" && !files_) return wrong("machine-file is not allowed here");
    auto graph = key == "machine" ? topology::parseOneLine(rest) : topology::loadTopology(rest);
    if (!graph.ok()) return wrong(graph.status().message());
    const size_t hosts = graph->all(NodeKind::Host).size();
    if (hosts != 1) return wrong("the machine has ", hosts, " hosts; say how many nodes there are with 'nodes'");
    cluster_.machine = std::move(*graph);
    cluster_.machineText = rest;
    return {};
  }

  using Setter = std::function<Status(const std::string&, std::string_view)>;

  /// words[from...] are NAME:VALUE.
  Status settings(const std::vector<std::string>& words, size_t from, const std::map<std::string, Setter>& setters) {
    std::map<std::string, bool> given;
    for (size_t i = from; i < words.size(); ++i) {
      const size_t colon = words[i].find(':');
      const std::string name = words[i].substr(0, colon);
      const auto setter = setters.find(name);
      if (colon == std::string::npos || setter == setters.end()) {
        std::string names;
        for (const auto& [known, set] : setters) names += (names.empty() ? "" : ", ") + known + ":";
        return wrong("'", words[i], "' should be one of ", names.empty() ? "nothing" : names);
      }
      if (given[name]) return wrong("'", name, "' is given twice");
      given[name] = true;
      TUTTI_TRY(setter->second(name, std::string_view(words[i]).substr(colon + 1)));
    }
    return {};
  }

  Setter into(double* value, double least, double most) {
    return [=, this](const std::string& what, std::string_view text) { return number(what, text, least, most, value); };
  }
  Setter into(int* value, int least, int most) {
    return [=, this](const std::string& what, std::string_view text) { return whole(what, text, least, most, value); };
  }

  Status fabric(const std::vector<std::string>& words) {
    FabricSpec& f = cluster_.fabric;
    if (words.size() < 2) return wrong("'fabric' takes a kind: switch, fat-tree, rail, torus, dragonfly");
    std::map<std::string, Setter> setters = {{"hop", into(&f.hopUs, 0, 1e6)}};
    if (words[1] == "switch") {
      f.kind = FabricKind::Switch;
    } else if (words[1] == "fat-tree" || words[1] == "rail") {
      f.kind = words[1] == "rail" ? FabricKind::Rail : FabricKind::FatTree;
      setters["leaf"] = into(&f.leafNodes, 1, kMostNodes);
      setters["oversubscription"] = into(&f.oversubscription, 0.01, 1e4);
    } else if (words[1] == "torus") {
      f.kind = FabricKind::Torus;
      setters["gbps"] = into(&f.gbps, 1e-3, 1e6);
      setters["dims"] = [this](const std::string& what, std::string_view text) { return dims(what, text); };
    } else if (words[1] == "dragonfly") {
      f.kind = FabricKind::Dragonfly;
      setters["group"] = into(&f.groupNodes, 1, kMostNodes);
      setters["gbps"] = into(&f.gbps, 1e-3, 1e6);
      setters["global"] = into(&f.globalGBps, 1e-3, 1e7);
    } else {
      return wrong("fabric '", words[1], "': there are switch, fat-tree, rail, torus, dragonfly");
    }
    return settings(words, 2, setters);
  }

  Status memory(const std::vector<std::string>& words) {
    const auto bytes = [this](double* value) -> Setter {
      return [=, this](const std::string& what, std::string_view text) -> Status {
        if (parseNumber(text, value)) return number(what, text, 1, 1e15, value);
        size_t size = 0;
        if (!parseBytes(text, &size) || size == 0) return wrong(what, ": '", text, "' is not a size such as 2M");
        *value = static_cast<double>(size);
        return {};
      };
    };
    TUTTI_TRY(settings(words, 1,
                       {{"near", bytes(&cluster_.nearBytes)},
                        {"far", bytes(&cluster_.farBytes)},
                        {"copy", into(&cluster_.farCopy, 1e-3, 1)},
                        {"reduce", into(&cluster_.farReduce, 1e-3, 1)}}));
    if (cluster_.farBytes > cluster_.nearBytes) return {};
    return wrong("memory: far:", cluster_.farBytes, " is not more than near:", cluster_.nearBytes);
  }

  Status dims(const std::string& what, std::string_view text) {
    for (const std::string& part : split(text, 'x')) {
      int length = 0;
      TUTTI_TRY(whole(what, part, 1, kMostNodes, &length));
      cluster_.fabric.dims.push_back(length);
    }
    if (cluster_.fabric.dims.empty() || cluster_.fabric.dims.size() > 6) return wrong("dims: 1 to 6 lengths, as 4x4x4");
    return {};
  }

  Status checkFabric() const {
    const FabricSpec& f = cluster_.fabric;
    if (f.kind == FabricKind::Torus) {
      double product = 1;
      for (const int length : f.dims) product *= length;
      if (f.dims.empty() || product != cluster_.nodes) {
        return wrong("the torus has room for ", f.dims.empty() ? 0.0 : product, " nodes, there are ", cluster_.nodes);
      }
    }
    if (f.kind == FabricKind::Dragonfly && (f.groupNodes == 0 || cluster_.nodes % f.groupNodes != 0)) {
      return wrong("dragonfly: ", cluster_.nodes, " nodes cannot be divided into groups of ", f.groupNodes);
    }
    return {};
  }

  Status protocol(const std::vector<std::string>& words, std::vector<ProtocolSpec>* list) {
    if (words.size() < 2 || words[1].find(':') != std::string::npos) {
      return wrong("'", words[0], "' takes the name of a protocol");
    }
    for (const ProtocolSpec& known : *list) {
      if (known.name == words[1]) return wrong("protocol '", words[1], "' is there already");
    }
    if (list->size() == 16) return wrong("more than 16 protocols");
    ProtocolSpec p;
    int once = 0;
    p.name = words[1];
    TUTTI_TRY(settings(words, 2,
                       {{"overhead", into(&p.overheadUs, 0, 1e6)},
                        {"latency", into(&p.latencyUs, 0, 1e6)},
                        {"receive", into(&p.receiveUs, 0, 1e6)},
                        {"efficiency", into(&p.efficiency, 1e-3, 1)},
                        {"gbps", into(&p.mostGBps, 1e-3, 1e6)},
                        {"copy", into(&p.copyGBps, 1e-3, 1e6)},
                        {"gather", into(&p.gatherGBps, 1e-3, 1e6)},
                        {"across", into(&p.acrossUs, 0, 1e6)},
                        {"across-copy", into(&p.acrossGBps, 1e-3, 1e6)},
                        {"across-write", into(&p.acrossWriteGBps, 1e-3, 1e6)},
                        {"once", into(&once, 0, 1)},
                        {"most", into(&p.mostBytes, 1, 1e18)}}));
    p.once = once != 0;
    list->push_back(std::move(p));
    return {};
  }

  Cluster cluster_;
  std::string origin_;
  bool files_;
  int line_ = 0;
  std::map<std::string, int> seen_;  // by keyword: its line
};

}  // namespace

const char* fabricName(FabricKind kind) {
  switch (kind) {
    case FabricKind::Switch: return "switch";
    case FabricKind::FatTree: return "fat-tree";
    case FabricKind::Rail: return "rail";
    case FabricKind::Torus: return "torus";
    case FabricKind::Dragonfly: return "dragonfly";
  }
  return "?";
}

std::vector<ProtocolSpec> defaultNear() {
  return {{.name = "ll", .overheadUs = 0.1, .latencyUs = 0.5, .efficiency = 0.5},
          {.name = "ll128", .overheadUs = 0.1, .latencyUs = 1.8, .efficiency = 0.92},
          {.name = "simple", .overheadUs = 0.1, .latencyUs = 3.3}};
}

std::vector<ProtocolSpec> defaultFar() {
  return {{.name = "ll", .overheadUs = 0.5, .latencyUs = 2.2, .efficiency = 0.5},
          {.name = "ll128", .overheadUs = 0.5, .latencyUs = 3.5, .efficiency = 0.92},
          {.name = "simple", .overheadUs = 0.5, .latencyUs = 13.5}};
}

Result<Cluster> parseCluster(std::string_view text, const std::string& origin, bool files) {
  if (text.size() > kMostClusterBytes) return invalidArgument(origin, ": longer than ", kMostClusterBytes, " bytes");
  if (text.find('\0') != std::string_view::npos) return invalidArgument(origin, ": is not text");
  Reader reader(origin, files);
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    for (const std::string& statement : split(std::string_view(line).substr(0, line.find('#')), ';')) {
      TUTTI_TRY(reader.statement(statement, number));
    }
  }
  return reader.finish();
}

Result<Cluster> loadCluster(const std::string& fileOrText) {
  std::ifstream file(fileOrText);
  if (!file) {
    if (fileOrText.find(' ') != std::string::npos) return parseCluster(fileOrText, "cluster");
    if (topology::findNamedMachine(fileOrText) != nullptr) return parseCluster("machine " + fileOrText, "cluster");
    return invalidUsage("cannot read ", fileOrText, ", and it is no description of a cluster, nor a machine by name: ",
                        topology::namesOfMachines());
  }
  std::string text(kMostClusterBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) return invalidUsage("cannot read ", fileOrText);
  return parseCluster(text, fileOrText);
}

std::string describe(const Cluster& c) {
  std::string text = cat(c.nodes, c.nodes == 1 ? " node of " : " nodes of ", c.ranksPerNode, " ranks");
  if (c.nodes == 1) return text;
  text += cat(", ", fabricName(c.fabric.kind));
  if (c.fabric.kind == FabricKind::FatTree || c.fabric.kind == FabricKind::Rail) {
    text += cat(" of ", c.fabric.leafNodes, " nodes a leaf, ", c.fabric.oversubscription, ":1");
  }
  if (c.fabric.kind == FabricKind::Torus) {
    for (size_t i = 0; i < c.fabric.dims.size(); ++i) text += cat(i == 0 ? " " : "x", c.fabric.dims[i]);
  }
  if (c.fabric.kind == FabricKind::Dragonfly) text += cat(" of ", c.fabric.groupNodes, " nodes a group");
  return text;
}

}  // namespace tutti::sim
