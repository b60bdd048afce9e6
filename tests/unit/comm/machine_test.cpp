// One graph from the reports of several hosts, and the groups of ranks in it; the ranks are descriptors made by hand.
#include "src/comm/machine.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "src/topology/compact.hpp"
#include "src/topology/one_line.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

namespace tutti {
namespace {

using test::Variable;
using topology::Level;

/// A rank bound to one CPU; process 0: one of its own.
PeerDescriptor descriptor(int rank, uint64_t host, int cpu, uint64_t process = 0) {
  PeerDescriptor c;
  c.info.rank = rank;
  c.info.hostId = host;
  c.info.processId = process != 0 ? process : static_cast<uint64_t>(100 + rank);
  c.hostName = cat("h", host);
  c.cpus.assign(static_cast<size_t>(cpu / 8 + 1), '\0');
  c.cpus.back() = static_cast<char>(1 << cpu % 8);
  return c;
}

std::vector<std::string> reportsOf(const std::vector<PeerDescriptor>& descriptors) {
  std::vector<std::string> reports;
  for (size_t r = 0; r < descriptors.size(); ++r) reports.push_back(machineReport(descriptors, static_cast<int>(r)));
  return reports;
}

const std::vector<int>& at(const Machines& m, Level level) { return m.levels[static_cast<size_t>(level)]; }

}  // namespace

TEST_CASE("the lowest rank of every host reports, and all ranks are grouped at every level") {
  const Variable file("TUTTI_TOPO_FILE", "package:2 numa:2 l3:2 core:2");
  // Host 7 has ranks 0, 2, 3, 5 on CPUs 0, 1, 2, 8; host 9 has ranks 1 and 4 on CPUs 0 and 15, as one process.
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0), descriptor(1, 9, 0, 5),  descriptor(2, 7, 1),
                                                   descriptor(3, 7, 2), descriptor(4, 9, 15, 5), descriptor(5, 7, 8)};
  const std::vector<std::string> reports = reportsOf(descriptors);
  for (const size_t r : {0, 1}) CHECK(!reports[r].empty());
  for (const size_t r : {2, 3, 4, 5}) CHECK(reports[r].size() < reports[0].size() / 2);
  const auto machines = mergeReports(descriptors, reports);
  REQUIRE(machines.status().message() == "");
  CHECK(machines->graph.all(topology::NodeKind::Host).size() == 2);
  CHECK(machines->graph.all(topology::NodeKind::Core).empty());
  CHECK(machines->notes.empty());
  CHECK(at(*machines, Level::Process) == std::vector<int>{0, 1, 2, 3, 1, 4});
  CHECK(at(*machines, Level::L3) == std::vector<int>{0, 1, 0, 2, 3, 4});
  CHECK(at(*machines, Level::Numa) == std::vector<int>{0, 1, 0, 0, 2, 3});
  CHECK(at(*machines, Level::Socket) == std::vector<int>{0, 1, 0, 0, 2, 3});
  CHECK(at(*machines, Level::Host) == std::vector<int>{0, 1, 0, 0, 1, 0});
  CHECK(at(*machines, Level::Cluster) == std::vector<int>(6, 0));
  CHECK(describeLevels(*machines) == "2 hosts, 4 sockets, 4 NUMA nodes, 5 L3s, 5 processes, 2 rails");
  // NUMA nodes are as sockets here.
  const std::vector<std::vector<int>> inner = {{0, 1, 0, 0, 2, 3}, {0, 1, 0, 2, 3, 4}};
  CHECK(innerLevels(*machines) == inner);
}

TEST_CASE("levels that separate nobody or everybody are no levels") {
  const Variable file("TUTTI_TOPO_FILE", "package:2 numa:2 l3:2 core:2");
  const std::vector<PeerDescriptor> together = {descriptor(0, 7, 0), descriptor(1, 7, 1)},
                                    apart = {descriptor(0, 7, 0), descriptor(1, 7, 8)};
  CHECK(innerLevels(mergeReports(together, reportsOf(together)).value()).empty());
  CHECK(innerLevels(mergeReports(apart, reportsOf(apart)).value()).empty());
}

TEST_CASE("CPUs may be given by rank, and CPUs that the description lacks count as everywhere") {
  const Variable file("TUTTI_TOPO_FILE", "package:1 l3:2 core:2");
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0), descriptor(1, 7, 1), descriptor(2, 7, 40),
                                                   descriptor(3, 7, 2)};
  const auto bound = mergeReports(descriptors, reportsOf(descriptors));
  REQUIRE(bound.status().message() == "");
  REQUIRE(bound->notes.size() == 1);
  CHECK(bound->notes[0].find("rank 2 runs on CPUs 40") != std::string::npos);
  CHECK(at(*bound, Level::L3) == std::vector<int>{0, 0, 1, 2});
  const Variable cpus("TUTTI_TOPO_CPUS", "0-1/2-3");
  const auto given = mergeReports(descriptors, reportsOf(descriptors));
  REQUIRE(given.status().message() == "");
  CHECK(given->notes.empty());
  CHECK(at(*given, Level::L3) == std::vector<int>{0, 1, 0, 1});
}

TEST_CASE("a description of several hosts gives each its own") {
  const Variable file("TUTTI_TOPO_FILE", "node:2 package:1 l3:2 core:1 nic:2x25");
  const std::vector<PeerDescriptor> two = {descriptor(0, 7, 0), descriptor(1, 9, 0), descriptor(2, 9, 1),
                                           descriptor(3, 7, 1)};
  const auto machines = mergeReports(two, reportsOf(two));
  REQUIRE(machines.status().message() == "");
  CHECK(machines->graph.all(topology::NodeKind::Nic).size() == 4);
  CHECK(at(*machines, Level::Rail) == std::vector<int>(4, 0));
  const std::vector<PeerDescriptor> three = {descriptor(0, 7, 0), descriptor(1, 9, 0), descriptor(2, 11, 1)};
  const auto complaint = mergeReports(three, reportsOf(three)).status();
  CHECK(complaint.code() == tuttiInvalidUsage);
  CHECK(complaint.message().find("it describes 2 hosts, and the ranks are on 3") != std::string::npos);
}

#if TUTTI_HAVE_PUGIXML
TEST_CASE("a device of which only the place is known is a GPU where a rank computes on it") {
  // As the file for AWS's g5.48xlarge: bus ids under their NUMA nodes, nothing else.
  const test::TempFolder folder;
  const std::string path = folder.path() + "/places.xml";
  std::ofstream(path)
      << "<system version='1'><cpu numaid='0'><pci busid='0000:00:16.0'/><pci busid='0000:00:17.0'/></cpu>"
         "<cpu numaid='1'><pci busid='0000:00:1a.0'/><pci busid='0000:00:15.0'/></cpu></system>";
  const Variable file("TUTTI_TOPO_FILE", path);
  std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0), descriptor(1, 7, 0), descriptor(2, 7, 0)};
  descriptors[0].busId = "0000:00:16.0";
  descriptors[1].busId = "0000:00:1A.0";
  descriptors[2].busId = "0000:00:17.0";
  const auto machines = mergeReports(descriptors, reportsOf(descriptors));
  REQUIRE(machines.status().message() == "");
  CHECK(machines->graph.all(topology::NodeKind::Gpu).size() == 3);
  CHECK(machines->graph.all(topology::NodeKind::PciDevice).size() == 1);
  CHECK(at(*machines, Level::Numa) == std::vector<int>{0, 1, 0});
  for (const std::string& note : machines->notes) CHECK(note.find("computes on") == std::string::npos);
}
#endif

TEST_CASE("ranks are on the rail of the adapter nearest to them, in whatever order hosts have them") {
  const Variable file("TUTTI_TOPO_FILE", "node:2 package:2 core:2 nic:2x25");
  // The first host's ranks are on packages 0 and 1, the second one's on 1 and 0.
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0), descriptor(1, 7, 2), descriptor(2, 9, 3),
                                                   descriptor(3, 9, 1)};
  const auto machines = mergeReports(descriptors, reportsOf(descriptors));
  REQUIRE(machines.status().message() == "");
  CHECK(railsOf(*machines) == std::vector<int>{0, 1, 1, 0});
  const std::vector<PeerDescriptor> alone = {descriptor(0, 7, 0),
                                             descriptor(1, 9, 2)};  // a host with one rank has nothing to choose
  CHECK(railsOf(mergeReports(alone, reportsOf(alone)).value()).empty());
}

TEST_CASE("what a rank cannot report, all ranks hear of") {
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0), descriptor(1, 9, 0)};
  struct Row {
    const char *name, *value, *words;
  };
  for (const Row& row : {Row{"TUTTI_TOPO_FILE", "/nonexistent/machine.xml", "rank 0: TUTTI_TOPO_FILE=/nonexistent"},
                         Row{"TUTTI_TOPO_FILE", "node:1 wheels:4", "wheels"},
                         Row{"TUTTI_TOPO_CPUS", "0/many", "TUTTI_TOPO_CPUS='0/many'"}}) {
    const Variable variable(row.name, row.value);
    const auto machines = mergeReports(descriptors, reportsOf(descriptors));
    CAPTURE(row.value, machines.status().message());
    CHECK(machines.status().code() == tuttiInvalidUsage);
    CHECK(machines.status().message().find(row.words) != std::string::npos);
  }
}

TEST_CASE("ranks of a host that were told different things of it are refused with both") {
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0), descriptor(1, 9, 0), descriptor(2, 7, 1)};
  struct Row {
    const char *name, *value;
    size_t rank;  // that has it
    const char* words;
  };
  for (const Row& row :
       {Row{"TUTTI_TOPO_FILE", "/nonexistent/machine.xml", 2,
            "rank 2 has TUTTI_TOPO_FILE=/nonexistent/machine.xml, rank 0 of the same host has no "
            "TUTTI_TOPO_FILE; set it alike"},
        Row{"TUTTI_TOPO_CPUS", "0/1", 0,
            "rank 2 has no TUTTI_TOPO_CPUS, rank 0 of the same host has TUTTI_TOPO_CPUS=0/1; set it"}}) {
    std::vector<std::string> reports = reportsOf(descriptors);
    {
      const Variable variable(row.name, row.value);
      reports[row.rank] = machineReport(descriptors, static_cast<int>(row.rank));
    }
    const auto machines = mergeReports(descriptors, reports);
    CAPTURE(row.value, machines.status().message());
    CHECK(machines.status().code() == tuttiInvalidUsage);
    CHECK(machines.status().message().find(row.words) == 0);
  }
  // Other hosts may have other descriptions.
  std::vector<std::string> reports = reportsOf(descriptors);
  const Variable variable("TUTTI_TOPO_FILE", "package:1 l3:2 core:2");
  reports[1] = machineReport(descriptors, 1);
  CHECK(mergeReports(descriptors, reports).status().message() == "");
}

TEST_CASE("a report that is cut, foreign or false is refused with its rank") {
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0)};
  const std::string good = machineReport(descriptors, 0);
  REQUIRE(mergeReports(descriptors, {good}).ok());
  auto other = topology::parseOneLine("node:2");
  for (const std::string& report : {std::string(), std::string("\n"), good.substr(0, good.size() / 2), cat("x", good),
                                    cat("\n\n", topology::toCompact(*other))}) {
    CAPTURE(report);
    const auto machines = mergeReports(descriptors, {report});
    CHECK(machines.status().code() == tuttiRemoteError);
    CHECK(machines.status().message().find("rank 0 sent a report") != std::string::npos);
  }
}

TEST_CASE("this machine reports itself within bounds") {
  const std::vector<PeerDescriptor> descriptors = {descriptor(0, 7, 0)};
  const std::string report = machineReport(descriptors, 0);
  CHECK(report.size() <= size_t{64} * 1024 + 1);
  const auto machines = mergeReports(descriptors, {report});
  REQUIRE(machines.status().message() == "");
  CHECK(machines->graph.all(topology::NodeKind::Numa).size() >= 1);
}

}  // namespace tutti
