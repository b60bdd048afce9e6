// Communicators on a machine that is given, and the machine that a communicator writes.
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

#include "src/topology/load.hpp"
#include "tests/support/collective_check.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"

using namespace tutti::test;

namespace {

std::string sum(int nRanks) {
  return onRanks(nRanks, [](const Rank& r) { return checkAllReduce(r, {.count = 1000}); });
}

}  // namespace

TEST_CASE("the topology dump has what the given machine has and the format can hold") {
  if (!TUTTI_HAVE_PUGIXML) return;  // to read it back
  const TempFolder folder;
  const std::string dump = folder.path() + "/machine.xml";
  const Variable out("TUTTI_TOPO_DUMP_FILE", dump);
  const Variable in("TUTTI_TOPO_FILE", "package:2 numa:2 gpu:4 nvlink:6x25 nic:2x50");
  REQUIRE(sum(3) == "");
  const auto graph = tutti::topology::loadTopology(dump);
  REQUIRE(graph.status().message() == "");
  using tutti::topology::NodeKind;
  CHECK(graph->all(NodeKind::Host).size() == 1);
  CHECK(graph->all(NodeKind::Numa).size() == 4);
  CHECK(graph->all(NodeKind::Gpu).size() == 4);
  CHECK(graph->all(NodeKind::Nic).size() == 2);
  CHECK(graph->nodes.front().hostHash != 0);
}

TEST_CASE("the topology dump of the detected machine can be given again") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const TempFolder folder;
  const std::string dump = folder.path() + "/machine.xml";
  {
    const Variable out("TUTTI_TOPO_DUMP_FILE", dump);
    REQUIRE(sum(2) == "");
  }
  const Variable in("TUTTI_TOPO_FILE", dump);
  CHECK(sum(2) == "");
}

TEST_CASE("a topology file that is odd in ways that NCCL goes on with ends no join") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const TempFolder folder;
  const std::string path = folder.path() + "/odd.xml";
  const Variable in("TUTTI_TOPO_FILE", path);
  for (const char* text :
       {"<system version='1'/>", "<system version='1'><cpu numaid='0'><pci busid='0000:00:16.0'/></cpu></system>",
        "<system version='1'><cpu numaid='0'><pci busid='1:0.0'><gpu><nvlink target='1:0.0' count='12' "
        "tclass='0x030200'/></gpu></pci></cpu><cpu numaid='0' affinity='all'/></system>",
        "<system version='2'><cpu numaid='0'><pci busid='1:0.0' class='0x060400' link_speed='fast'><pci busid='2:0.0'>"
        "<gpu/></pci></pci><pci busid='1:0.0'><nic><net name='a' speed='?'/></nic></pci></cpu></system>"}) {
    CAPTURE(text);
    std::ofstream(path) << text;
    CHECK(sum(3) == "");
  }
}

TEST_CASE("hierarchical algorithms run on the levels of a machine that is given") {
  const Variable off("TUTTI_CALIBRATION", "off");
  const Variable in("TUTTI_TOPO_FILE", "package:2 numa:2 l3:2 core:1");
  const Variable cpus("TUTTI_TOPO_CPUS", "0/0/1/2/4/4/6/7");
  const Variable algorithms("TUTTI_ALGO", "hierarchical"), strict("TUTTI_ALGO_STRICT", "1");
  for (const int nRanks : {5, 8, 11}) {
    const std::string complaints = onRanks(nRanks, [](const Rank& r) {
      for (const size_t count : {1, 777, 40'000}) {
        for (const bool inPlace : {false, true}) {
          const CheckOptions o{.count = count, .inPlace = inPlace, .root = r.nRanks - 2};
          for (auto* check : {checkAllReduce, checkAllGather, checkReduceScatter, checkAllToAll, checkBroadcast}) {
            if (std::string why = check(r, o); !why.empty()) return why;
          }
        }
      }
      return std::string();
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("blocks of several sizes pass through other ranks, with other sizes in every call") {
  const Variable off("TUTTI_CALIBRATION", "off");
  const Variable in("TUTTI_TOPO_FILE", "package:2 numa:2 l3:2 core:1");
  const Variable cpus("TUTTI_TOPO_CPUS", "0/0/1/2/4/4/6/7");
  const Variable algorithms("TUTTI_ALGO", "alltoall:hierarchical"), strict("TUTTI_ALGO_STRICT", "1");
  for (const int nRanks : {5, 8}) {
    const std::string complaints = onRanks(nRanks, [](const Rank& r) {
      for (const size_t count : {1, 0, 777, 60'000, 1}) {
        if (std::string why = checkVectors(r, {.count = count}); !why.empty()) return why;
      }
      return std::string();
    });
    CHECK(complaints == "");
  }
}

TEST_CASE("ranks that do not agree on a size are told so by name, all of them") {
  const Variable off("TUTTI_CALIBRATION", "off");
  const Variable in("TUTTI_TOPO_FILE", "package:2 core:2");
  const Variable cpus("TUTTI_TOPO_CPUS", "0/0/2/2");
  const Variable algorithms("TUTTI_ALGO", "alltoall:hierarchical"), strict("TUTTI_ALGO_STRICT", "1");
  const std::string complaints = onRanks(4, [](const Rank& r) {
    std::vector<size_t> send(4, 1), receive(4, 1), places = {0, 8, 16, 24};
    if (r.rank == 1) send[3] = 5;
    std::vector<float> from(32), to(32);
    const tuttiResult_t result = tuttiAllToAllv(from.data(), send.data(), places.data(), to.data(), receive.data(),
                                                places.data(), tuttiFloat32, r.comm, nullptr);
    const std::string why = result == tuttiInvalidUsage ? tuttiGetLastError(r.comm) : "no error";
    const bool told = why.find("rank 1 sends 5 elements to rank 3, which expects 1") != std::string::npos;
    if (!told) return why;
    send[3] = 1;  // and the communicator is as good as before
    return std::string(tuttiAllToAllv(from.data(), send.data(), places.data(), to.data(), receive.data(), places.data(),
                                      tuttiFloat32, r.comm, nullptr) == tuttiSuccess
                           ? ""
                           : tuttiGetLastError(r.comm));
  });
  CHECK(complaints == "");
}

TEST_CASE("without levels a hierarchical algorithm is set aside, or refused by name") {
  const Variable off("TUTTI_CALIBRATION", "off");
  const Variable in("TUTTI_TOPO_FILE", "package:1 core:64");
  const Variable cpus("TUTTI_TOPO_CPUS", "0");
  const Variable algorithms("TUTTI_ALGO", "allreduce:hierarchical");
  CHECK(sum(3) == "");
  const Variable strict("TUTTI_ALGO_STRICT", "1");
  const std::string complaints = sum(3);
  CAPTURE(complaints);
  CHECK(complaints.find("hierarchical does not serve") != std::string::npos);
  CHECK(complaints.find("it needs ranks on several nodes, or in groups of several on one") != std::string::npos);
  CHECK(complaints.find(", hierarchical") == std::string::npos);  // it is none of those that would do
}

TEST_CASE("a topology that cannot be read or written ends the join on every rank with the reason") {
  const TempFolder folder;
  const std::string file = folder.path() + "/missing/machine.xml";
  {
    const Variable in("TUTTI_TOPO_FILE", file);
    const std::string complaints = sum(3);
    CAPTURE(complaints);
    for (const char* rank : {"rank 0: join", "rank 1: join", "rank 2: join"}) {
      CHECK(complaints.find(rank) != std::string::npos);
    }
    CHECK(complaints.find("TUTTI_TOPO_FILE=" + file + ": cannot read") != std::string::npos);
  }
  const Variable out("TUTTI_TOPO_DUMP_FILE", file);
  const std::string why = "TUTTI_TOPO_DUMP_FILE: cannot write " + file + ": No such file";
  for (const char* transports : {"shm", "tcp"}) {
    const Variable only("TUTTI_TRANSPORTS", transports);
    const std::string complaints = sum(3);
    CAPTURE(transports, complaints);
    CHECK(complaints.find("tuttiCommInitRankConfig: " + why) != std::string::npos);  // rank 0, which writes it
    size_t told = 0;
    for (size_t at = 0;
         (at = complaints.find("rank 0 failed while ranks were joining: " + why, at)) != std::string::npos; ++at) {
      ++told;
    }
    CHECK(told == 2);
  }
}
