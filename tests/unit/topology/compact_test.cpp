// The form in which graphs travel between ranks: whatever a graph holds comes back, and nothing else is believed.
#include "src/topology/compact.hpp"

#include <catch2/catch.hpp>

#include "src/topology/one_line.hpp"
#include "tests/unit/topology/machines.hpp"

namespace tutti::topology {

TEST_CASE("a graph comes back from its compact form as it was") {
  for (const char* line : {"core:1", "node:3 package:2 numa:2 l3:3 core:2", "gpu:8 nvlink:18x25 nic:8x50",
                           "gpu:4 nvlink:6x20 nvswitch:0 sm:70 socket:12.5"}) {
    CAPTURE(line);
    auto graph = parseOneLine(line);
    REQUIRE(graph.ok());
    graph->note("with a % and an = in it");
    graph->nodes.front().extra = {{"a key", "a=b,c\nd"}, {"", "%"}};
    const auto again = parseCompact(toCompact(*graph));
    REQUIRE(again.status().message() == "");
    CHECK((*again == *graph));
  }
}

TEST_CASE("recorded machines come back from their compact form, and are short without cores") {
  for (const std::string name : kMachines) {
    if (!readable(name)) continue;
    DYNAMIC_SECTION(name) {
      const auto graph = loadTopology(goldenPath(name));
      REQUIRE(graph.ok());
      const auto again = parseCompact(toCompact(*graph));
      REQUIRE(again.status().message() == "");
      CHECK((*again == *graph));
      const Graph thin = withoutCores(*graph);
      CHECK(thin.check() == "");
      CHECK(thin.all(NodeKind::Core).empty());
      CHECK(thin.all(NodeKind::Numa).size() == graph->all(NodeKind::Numa).size());
      CHECK(thin.links.size() == graph->links.size());
      CHECK(toCompact(thin).size() < 32 * 1024);
    }
  }
}

TEST_CASE("texts that are no graph are refused with the line") {
  struct Row {
    const char *text, *words;
  };
  const std::string head = "tutti-machine 1\n", host = "N host - name=h\n", numa = "N numa 0 i=0 cpus=0-1\n";
  for (const Row& row :
       {Row{"", "line 1"}, Row{"tutti-machine 2\nend\n", "line 1"}, Row{"N host -\n", "ends too early"},
        Row{"N thing -\nend\n", "line 2: no kind of node: thing"}, Row{"N host - name\nend\n", "no field: name"},
        Row{"N host - colour=red\nend\n", "not understood: colour=red"}, Row{"N host - i=1x\nend\n", "not understood"},
        Row{"N host - name=%zz\nend\n", "not understood"}, Row{"N host - name=%4\nend\n", "not understood"},
        Row{"N host - gtps=nan\nend\n", "not understood"}, Row{"N host -\nend\n", "has no NUMA node"},
        Row{"N host -\nN numa 7\nend\n", "comes before its parent"},
        Row{"N host -\nN numa 0 cpus=99999999\nend\n", "not understood"},
        Row{"N host -\nN numa 0\nL 0 9 pci 1\nend\n", "a link from 0 to 9"},
        Row{"N host -\nN numa 0\nL 0 1 pci -3\nend\n", "without bandwidth"},
        Row{"N host -\nN numa 0\nL 0 1 rope 3\nend\n", "not a link"}, Row{"hello\nend\n", "neither a node nor"}}) {
    const std::string text = *row.text == '\0' || *row.text == 't' ? row.text : head + row.text;
    CAPTURE(text);
    const auto graph = parseCompact(text);
    REQUIRE(!graph.ok());
    CHECK(graph.status().message().find(row.words) != std::string::npos);
  }
  CHECK(parseCompact(head + host + numa + "end\n").status().message() == "");
  CHECK(!parseCompact(std::string(kMostCompactBytes + 1, ' ')).ok());
}

}  // namespace tutti::topology
