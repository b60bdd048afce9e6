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

TEST_CASE("hierarchical algorithms run on the levels of a machine that is given") {
  const Variable off("TUTTI_CALIBRATION", "off");
  const Variable in("TUTTI_TOPO_FILE", "package:2 numa:2 l3:2 core:1");
  const Variable cpus("TUTTI_TOPO_CPUS", "0/0/1/2/4/4/6/7");
  const Variable algorithms("TUTTI_ALGO", "hierarchical");
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
  const Variable algorithms("TUTTI_ALGO", "alltoall:hierarchical");
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
  const Variable algorithms("TUTTI_ALGO", "alltoall:hierarchical");
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

TEST_CASE("without levels a hierarchical algorithm is refused by name") {
  const Variable off("TUTTI_CALIBRATION", "off");
  const Variable in("TUTTI_TOPO_FILE", "package:1 core:64");
  const Variable cpus("TUTTI_TOPO_CPUS", "0");
  const Variable algorithms("TUTTI_ALGO", "allreduce:hierarchical");
  const std::string complaints = sum(3);
  CAPTURE(complaints);
  CHECK(complaints.find("hierarchical does not support") != std::string::npos);
}

TEST_CASE("a topology that cannot be read or written ends the join on every rank with the reason") {
  {
    const Variable in("TUTTI_TOPO_FILE", "/nonexistent/machine.xml");
    const std::string complaints = sum(3);
    CAPTURE(complaints);
    for (const char* rank : {"rank 0: join", "rank 1: join", "rank 2: join"}) {
      CHECK(complaints.find(rank) != std::string::npos);
    }
    CHECK(complaints.find("TUTTI_TOPO_FILE=/nonexistent/machine.xml: cannot read") != std::string::npos);
  }
  const Variable out("TUTTI_TOPO_DUMP_FILE", "/nonexistent/machine.xml");
  const std::string complaints = sum(2);
  CAPTURE(complaints);
  CHECK(complaints.find("TUTTI_TOPO_DUMP_FILE: cannot write /nonexistent/machine.xml") != std::string::npos);
}
