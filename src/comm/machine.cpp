#include "src/comm/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "src/base/config.hpp"
#include "src/base/file_limit.hpp"
#include "src/base/log.hpp"
#include "src/topology/compact.hpp"
#include "src/topology/complete.hpp"
#include "src/topology/detect.hpp"
#include "src/topology/load.hpp"
#include "src/topology/merge.hpp"
#include "src/topology/nccl_xml.hpp"
#include "src/topology/nvidia.hpp"
#include "src/topology/untold.hpp"

namespace tutti {
namespace {

using topology::CpuSet;
using topology::Graph;
using topology::Level;
using topology::Node;
using topology::NodeKind;

/// A host's report is longer only if its devices are many; then it goes without them.
constexpr size_t kMostReportBytes = 64 * 1024;

/// The ranks of every host, the hosts in order of their lowest rank.
std::vector<std::vector<int>> ranksByHost(const std::vector<PeerDescriptor>& descriptors) {
  const std::vector<int> nodes = nodesOf(descriptors);
  std::vector<std::vector<int>> hosts(nodes.empty() ? 0 : *std::max_element(nodes.begin(), nodes.end()) + size_t{1});
  for (size_t r = 0; r < nodes.size(); ++r) hosts[static_cast<size_t>(nodes[r])].push_back(static_cast<int>(r));
  return hosts;
}

/// One of the hosts of a description, as a graph of its own.
Graph onlyHost(const Graph& all, int host) {
  Graph one;
  std::vector<int> image(all.nodes.size(), -1);
  for (size_t i = 0; i < all.nodes.size(); ++i) {
    if (all.hostOf(static_cast<int>(i)) != host) continue;
    Node n = all.nodes[i];
    if (n.parent >= 0) n.parent = image[static_cast<size_t>(n.parent)];
    image[i] = one.add(std::move(n));
  }
  for (topology::Link l : all.links) {
    l.a = image[static_cast<size_t>(l.a)];
    l.b = image[static_cast<size_t>(l.b)];
    if (l.a >= 0 && l.b >= 0) one.connect(l);
  }
  one.notes = all.notes;
  one.leftOut = all.leftOut;
  return one;
}

/// TUTTI_TOPO_FILE's host for the communicator's host number `host` of `nHosts`: the one that it describes, or of
/// several the one in the same place.
Result<Graph> givenHost(const std::string& file, size_t host, size_t nHosts) {
  TUTTI_ASSIGN(const Graph all, topology::loadTopology(file));
  const std::vector<int> hosts = all.all(NodeKind::Host);
  if (hosts.size() == 1) return all;
  if (hosts.size() < nHosts) {
    return invalidUsage(ErrorCode::TopologyUnreadable, "it describes ", hosts.size(), " hosts, and the ranks are on ",
                        nHosts);
  }
  return onlyHost(all, hosts[host]);
}

/// Processors alone, for machines whose devices do not fit into a report.
Graph withoutDevices(const Graph& graph) {
  Graph thin;
  std::vector<int> image(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node n = graph.nodes[i];
    const bool processor = n.kind <= NodeKind::L3;
    if (!processor || (n.parent >= 0 && image[static_cast<size_t>(n.parent)] < 0)) continue;
    if (n.parent >= 0) n.parent = image[static_cast<size_t>(n.parent)];
    image[i] = thin.add(std::move(n));
  }
  thin.note(cat("its devices are left out: a description of them is longer than ", kMostReportBytes, " bytes"));
  return thin;
}

/// A device that a rank computes on is a GPU, where its description says only where it is.  Of a machine that has such
/// devices the driver is asked for what the description leaves open, as by NCCL.
Status askOfDevices(const std::vector<PeerDescriptor>& descriptors, const std::vector<int>& ranks, Graph* graph) {
  bool here = false;
  for (const int rank : ranks) {
    const std::string& busId = descriptors[static_cast<size_t>(rank)].busId;
    const int device = busId.empty() ? -1 : graph->byBusId(busId, 0);
    if (device < 0) continue;
    here = true;
    Node& n = graph->nodes[static_cast<size_t>(device)];
    if (n.kind != NodeKind::PciDevice || n.pci.classCode >= 0) continue;
    n.kind = NodeKind::Gpu;
    n.name = "GPU " + n.busId;
  }
  if (!here || !topology::showsNvidia(*graph)) return {};
  topology::completeByNvml(*graph);
  return topology::complete(*graph);
}

Result<Graph> hostGraph(const std::vector<PeerDescriptor>& descriptors, const std::vector<std::vector<int>>& hosts,
                        size_t host) {
  const std::string file = configText("TUTTI_TOPO_FILE");
  if (file.empty()) return topology::detectBySystem();
  Result<Graph> given = givenHost(file, host, hosts.size());
  if (!given.ok()) {
    return Status(given.status().code(), cat("TUTTI_TOPO_FILE=", file, ": ", given.status().text(),
                                             "; leave it unset to have this machine looked at"));
  }
  TUTTI_TRY(askOfDevices(descriptors, hosts[host], &*given));
  for (const std::string& sentence : given->leftOut) TUTTI_WARN("topology", "TUTTI_TOPO_FILE=", file, ": ", sentence);
  for (const std::string& gap : topology::untold(*given)) {
    TUTTI_INFO("topology", "TUTTI_TOPO_FILE=", file, " does not tell: ", gap);
  }
  return given;
}

/// "0/1/2-3": the CPUs of the host's first, second, third rank; then from the start again.
Result<std::vector<CpuSet>> parsePlaces(const std::string& text) {
  std::vector<CpuSet> places;
  if (text.empty()) return places;
  for (const std::string& list : split(text, '/')) {
    Result<CpuSet> cpus = CpuSet::parseList(list);
    if (!cpus.ok())
      return invalidUsage(ErrorCode::TopologyUnreadable, "TUTTI_TOPO_CPUS='", text, "': ", cpus.status().text());
    places.push_back(std::move(*cpus));
  }
  return places;
}

/// What a rank was told of its host, a line each at the head of its report.
constexpr const char* kGiven[] = {"TUTTI_TOPO_CPUS", "TUTTI_TOPO_FILE"};
using Given = std::array<std::string, std::size(kGiven)>;

std::string givenHere() {
  std::string lines;
  for (const char* name : kGiven) {
    std::string value = configText(name);
    std::replace(value.begin(), value.end(), '\n', ' ');
    lines += value + "\n";
  }
  return lines;
}

/// *rest: what comes after, nothing where lines are missing.
Given givenOf(std::string_view report, std::string_view* rest) {
  Given given;
  for (std::string& value : given) {
    const size_t end = report.find('\n');
    value = report.substr(0, end);
    report.remove_prefix(end == std::string_view::npos ? report.size() : end + 1);
  }
  *rest = report;
  return given;
}

/// All ranks of a host leave its description to the lowest, so they have to have been told the same.
Status checkToldAlike(const Given& given, int rank, const Given& tellers, int teller) {
  for (size_t i = 0; i < given.size(); ++i) {
    if (given[i] == tellers[i]) continue;
    const auto has = [&](const std::string& value) {
      return value.empty() ? cat("no ", kGiven[i]) : cat(kGiven[i], "=", value.substr(0, 200));
    };
    return invalidUsage(ErrorCode::SettingsDiffer, "rank ", rank, " has ", has(given[i]), ", rank ", teller,
                        " of the same host has ", has(tellers[i]), "; set it alike on all ranks of a host");
  }
  return {};
}

Result<std::string> writeReport(const std::vector<PeerDescriptor>& descriptors,
                                const std::vector<std::vector<int>>& hosts, size_t host) {
  TUTTI_ASSIGN(Graph graph, hostGraph(descriptors, hosts, host));
  const PeerDescriptor& teller = descriptors[static_cast<size_t>(hosts[host].front())];
  graph.nodes.front().hostHash = teller.info.hostId;  // ranks of one host find themselves by it
  for (const std::string& note : graph.notes) TUTTI_INFO("topology", teller.hostName, ": ", note);
  TUTTI_TRY(asStatus(parsePlaces(configText("TUTTI_TOPO_CPUS"))));
  const std::string text = topology::toCompact(topology::withoutCores(graph));
  return givenHere() + (text.size() <= kMostReportBytes ? text : topology::toCompact(withoutDevices(graph)));
}

/// A report, taken apart: what the rank was told, the places of ranks in that, and the graph.
struct HostReport {
  Given given;
  std::vector<CpuSet> places;
  Graph graph;
};

Result<HostReport> readReport(const std::string& report, const PeerDescriptor& teller) {
  const auto wrong = [&](const std::string& why) {
    return remoteError(ErrorCode::Malformed, "rank ", teller.info.rank,
                       " sent a report of its machine that is not understood: ", why);
  };
  if (report.starts_with("error "))
    return invalidUsage(ErrorCode::TopologyUnreadable, "rank ", teller.info.rank, ": ",
                        report.substr(6, report.find_last_not_of('\n') - 5));
  HostReport host;
  std::string_view text;
  host.given = givenOf(report, &text);
  if (text.empty()) return wrong("it is cut short");
  Result<Graph> graph = topology::parseCompact(text);
  if (!graph.ok()) return wrong(graph.status().text());
  if (graph->all(NodeKind::Host).size() != 1 || graph->nodes.front().hostHash != teller.info.hostId) {
    return wrong("it is of another host");
  }
  Result<std::vector<CpuSet>> places = parsePlaces(host.given[0]);
  if (!places.ok()) return wrong(places.status().text());
  host.places = std::move(*places);
  host.graph = std::move(*graph);
  return host;
}

CpuSet cpusOfCard(const PeerDescriptor& descriptor) {
  CpuSet cpus;
  for (size_t i = 0; i < descriptor.cpus.size() * 8; ++i) {
    if (static_cast<unsigned char>(descriptor.cpus[i / 8]) >> i % 8 & 1) cpus.add(static_cast<int>(i));
  }
  return cpus;
}

/// Whether some processor of the graph holds these CPUs.
bool holds(const Graph& graph, const CpuSet& cpus) {
  CpuSet all;
  for (const Node& n : graph.nodes) {
    if (n.kind == NodeKind::Numa) all.add(n.cpus);
  }
  return all.contains(cpus);
}

int groups(const std::vector<int>& of) { return of.empty() ? 0 : *std::max_element(of.begin(), of.end()) + 1; }

const std::vector<int>& at(const Machines& machine, Level level) { return machine.levels[static_cast<size_t>(level)]; }

}  // namespace

std::string machineReport(const std::vector<PeerDescriptor>& descriptors, int rank) {
  const std::vector<std::vector<int>> hosts = ranksByHost(descriptors);
  const auto own = std::find_if(hosts.begin(), hosts.end(), [&](const auto& ranks) { return ranks.front() == rank; });
  if (own == hosts.end()) return givenHere();
  const Result<std::string> report = writeReport(descriptors, hosts, static_cast<size_t>(own - hosts.begin()));
  return report.ok() ? *report : "error " + report.status().text() + "\n";
}

Result<Machines> mergeReports(const std::vector<PeerDescriptor>& descriptors, const std::vector<std::string>& reports) {
  Machines machine;
  std::vector<Graph> graphs;
  std::vector<topology::RankPlace> places(descriptors.size());
  for (const std::vector<int>& ranks : ranksByHost(descriptors)) {
    const PeerDescriptor& teller = descriptors[static_cast<size_t>(ranks.front())];
    TUTTI_ASSIGN(HostReport report, readReport(reports[static_cast<size_t>(ranks.front())], teller));
    for (size_t i = 0; i < ranks.size(); ++i) {
      const PeerDescriptor& descriptor = descriptors[static_cast<size_t>(ranks[i])];
      std::string_view rest;
      const Given given = givenOf(reports[static_cast<size_t>(ranks[i])], &rest);
      TUTTI_TRY(checkToldAlike(given, ranks[i], report.given, ranks.front()));
      CpuSet cpus = report.places.empty() ? cpusOfCard(descriptor) : report.places[i % report.places.size()];
      if (!holds(report.graph, cpus)) {
        machine.notes.push_back(cat("rank ", ranks[i], " runs on CPUs ", cpus.list(),
                                    ", which the description of its host does not have: it counts as everywhere"));
        cpus = CpuSet();
      }
      const bool known = !descriptor.busId.empty() && report.graph.byBusId(descriptor.busId, 0) >= 0;
      if (!known && !descriptor.busId.empty()) {
        machine.notes.push_back(cat("rank ", ranks[i], " computes on GPU ", descriptor.busId,
                                    ", which the description of its host does not have: it counts as near its CPUs"));
      }
      places[static_cast<size_t>(ranks[i])] = {descriptor.info.hostId, static_cast<int64_t>(descriptor.info.processId),
                                               std::move(cpus), known ? descriptor.busId : ""};
    }
    graphs.push_back(std::move(report.graph));
  }
  TUTTI_ASSIGN(machine.graph, topology::merge(graphs));
  TUTTI_ASSIGN(machine.levels, topology::levelGroups(machine.graph, places));
  return machine;
}

Status checkPlaces(const std::string& text) { return asStatus(parsePlaces(text)); }

std::vector<std::vector<int>> innerLevels(const Machines& machine) { return topology::innerLevels(machine.levels); }

std::vector<int> railsOf(const Machines& machine) {
  const std::vector<int>&hosts = at(machine, Level::Host), &rails = at(machine, Level::Rail);
  std::vector<int> firstOfHost(static_cast<size_t>(groups(hosts)), -1);
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    int& first = firstOfHost[static_cast<size_t>(hosts[rank])];
    if (first < 0) first = rails[rank];
    if (rails[rank] != first) return rails;
  }
  return {};
}

Status dumpMachine(const Machines& machine) {
  const std::string path = configText("TUTTI_TOPO_DUMP_FILE");
  if (path.empty()) return {};
  const FileLimitAsError noSignal;
  const std::string beside = cat(path, ".", getpid(), ".", &machine);  // readers see the old file or the new one
  std::ofstream file(beside, std::ios::binary);
  file << topology::writeNcclXml(machine.graph);
  file.close();
  if (file && std::rename(beside.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  (void)std::remove(beside.c_str());
  return errnoError(error, ErrorCode::TopologyNotWritten, cat("TUTTI_TOPO_DUMP_FILE: cannot write ", path));
}

std::string describeLevels(const Machines& machine) {
  const auto count = [&](Level level, const char* one) {
    const int n = groups(at(machine, level));
    return cat(n, " ", one, n == 1 ? "" : "s");
  };
  return cat(count(Level::Host, "host"), ", ", count(Level::Socket, "socket"), ", ", count(Level::Numa, "NUMA node"),
             ", ", count(Level::L3, "L3"), ", ", groups(at(machine, Level::Process)), " processes, ",
             count(Level::Rail, "rail"));
}

}  // namespace tutti
