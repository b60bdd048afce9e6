// NCCL's graph XML: written, read, imposed on a machine, refused.
#include "tools/topology/search/graph_xml.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "tests/unit/topology/machines.hpp"
#include "tests/unit/topology/search_machines.hpp"

namespace tutti::topology {
namespace {

std::string channel(const std::string& gpus, const std::string& net = "") {
  std::string text = "<channel>";
  const std::string port = net.empty() ? "" : "<net dev=\"" + net + "\"/>";
  text += port;
  for (const char gpu : gpus) text += std::string("<gpu dev=\"") + gpu + "\"/>";
  return text + port + "</channel>\n";
}

std::string rings(const std::string& channels, const std::string& attributes = "speedintra=\"20\" speedinter=\"10\"") {
  return "<graphs version=\"1\">\n<graph id=\"0\" pattern=\"4\" " + attributes + ">\n" + channels +
         "</graph>\n</graphs>\n";
}

std::string complaint(const Graph& graph, const std::string& text, const ChannelQuestion& q = {}) {
  const auto file = readGraphXml(text, "rings.xml");
  if (!file.ok()) return file.status().message();
  const auto plan = imposeGraph(graph, q, *file);
  return plan.ok() ? "a plan" : plan.status().message();
}

struct Variable {  // of the environment, for the length of a test
  Variable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ~Variable() { ::unsetenv(name_); }
  const char* name_;
};

}  // namespace

TEST_CASE("a plan written as graph XML and imposed again is the same plan") {
  if (!TUTTI_HAVE_PUGIXML) return;
  for (const std::string name : kMachines) {
    if (!readable(name)) continue;
    const auto one = loadTopology(goldenPath(name));
    REQUIRE(one.status().message() == "");
    for (const int hosts : {1, 2, 5}) {
      DYNAMIC_SECTION(name << ", " << hosts) {
        const Graph graph = hosts == 1 ? *one : hostsLike(*one, hosts);
        auto plan = planChannels(graph, {});
        REQUIRE(plan.status().message() == "");
        const std::string text = writeGraphXml(graph, *plan, graph.all(NodeKind::Host).front());
        const auto file = readGraphXml(text, "again");
        REQUIRE(file.status().message() == "");
        const auto again = imposeGraph(graph, {}, *file);
        REQUIRE(again.status().message() == "");
        for (const auto& [was, is] : {std::pair(&plan->rings, &again->rings), {&plan->trees, &again->trees}}) {
          CHECK((is->channels == was->channels));
          CHECK(is->gbps == Approx(was->gbps));
          CHECK(is->intra == was->intra);
          CHECK(is->inter == was->inter);
          CHECK(is->crossNic == was->crossNic);
        }
      }
    }
  }
}

TEST_CASE("a graph file in NCCL's own words is taken as it is") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const Graph graph = twoSockets(4, {}, 20);
  const std::string text = R"(<?xml version="1.0"?>
<graphs version="1">
  <graph id="0" pattern="4" crossnic="0" nchannels="2" speedintra="12" speedinter="12" latencyinter="0"
         typeintra="SYS" typeinter="PIX" samechannels="0">
    <channel><gpu dev="0"/><gpu dev="1"/><gpu dev="2"/><gpu dev="3"/></channel>
    <channel><gpu dev="0x0"/><gpu dev="3"/><gpu dev="2"/><gpu dev="1"/></channel>
  </graph>
  <graph id="1" pattern="1" nchannels="1" speedintra="6" typeintra="XGMI">
    <channel><gpu dev="2" rank="2"/><gpu dev="3"/><gpu dev="0"/><gpu dev="1"/></channel>
  </graph>
  <graph id="3" pattern="5" nchannels="0" speedintra="0" speedinter="0" typeintra="NVL" typeinter="PIX"/>
</graphs>)";
  const auto file = readGraphXml(text, "rings.xml");
  REQUIRE(file.status().message() == "");
  const auto plan = imposeGraph(graph, {}, *file);
  REQUIRE(plan.status().message() == "");
  const std::vector<int> gpus = graph.all(NodeKind::Gpu);
  CHECK(plan->rings.totalGBps() == Approx(24));
  CHECK(plan->rings.intra == PathClass::Sys);
  CHECK((plan->rings.channels[1].stretches[0].devices == std::vector<int>{gpus[0], gpus[3], gpus[2], gpus[1]}));
  CHECK(plan->trees.gbps == 6);
  CHECK(plan->trees.channels[0].stretches[0].devices.front() == gpus[2]);
  CHECK(plan->rings.limits.size() > 0);  // the sockets carry 24 of 10
  CHECK(graph.links[static_cast<size_t>(plan->rings.limits[0].link)].kind == LinkKind::Socket);
}

TEST_CASE("what a graph file leaves out is searched") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const Graph graph = dgx1();
  const auto file = readGraphXml(rings(channel("03215674")), "rings.xml");
  REQUIRE(file.status().message() == "");
  const auto plan = imposeGraph(graph, {}, *file);
  REQUIRE(plan.status().message() == "");
  CHECK(plan->rings.channels.size() == 1);
  CHECK((plan->trees == planChannels(graph, {})->trees));
}

TEST_CASE("a graph file for several hosts holds for each of them") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const auto graph = parseTopology("node:3 gpu:2 nvlink:4x25 nic:2x50", "line");
  const auto file = readGraphXml(rings(channel("01", "0") + channel("10", "1")), "rings.xml");
  REQUIRE(file.status().message() == "");
  const auto plan = imposeGraph(*graph, {}, *file);
  REQUIRE(plan.status().message() == "");
  CHECK(plan->rings.gbps == 10);  // the slower of inside and outside
  CHECK(plan->rings.channels[1].stretches.size() == 3);
  CHECK(check(*graph, graph->all(NodeKind::Gpu), plan->rings) == "");
}

TEST_CASE("graph files that do not fit the machine are refused by line and name") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const Graph graph = twoSockets(4, {}, 20);
  const auto hosts = parseTopology("node:2 gpu:2 nvlink:4x25 nic:2x50", "line");
  struct Row {
    const Graph* graph;
    std::string text;
    const char *place, *name;
  };
  const Row rows[] = {
      {&graph, rings(channel("0123") + channel("0124")), "rings.xml:4: <channel>", "box has no GPU 4"},
      {&graph, rings(channel("012")), "rings.xml:3: <channel>", "GPU 3 (0000:03:00.0) is left out"},
      {&graph, rings(channel("01231")), "rings.xml:3: <channel>", "GPU 1 (0000:01:00.0) is passed twice"},
      {&*hosts, rings(channel("01", "5")), "rings.xml:3: <channel>", "host 0 has no net 5"},
      {&*hosts, rings(channel("01")), "rings.xml:3: <channel>", "no net to reach"},
      {&graph, "<graphs version=\"1\"></graphs>", "rings.xml", "neither rings nor trees"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK_THAT(complaint(*row.graph, row.text), Catch::StartsWith(row.place) && Catch::Contains(row.name));
  }
  ChannelQuestion q;
  q.devices = {graph.all(NodeKind::Gpu)[0], graph.all(NodeKind::Gpu)[2]};
  CHECK_THAT(complaint(graph, rings(channel("012")), q), Catch::Contains("GPU 1") && Catch::Contains("not one of"));
}

TEST_CASE("malformed graph files are refused with line and tag") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const Graph graph = twoSockets(2, {}, 20);
  struct Row {
    std::string text;
    const char *place, *what;
  };
  const std::string ok = channel("01");
  const Row rows[] = {
      {"", "rings.xml:1", "not XML"},
      {"<graphs", "rings.xml:1", "not XML"},
      {"<system version=\"1\"/>", "rings.xml:1: <system>", "begins with <graphs>"},
      {"<graphs version=\"2\"/>", "rings.xml:1: <graphs>", "version 2"},
      {"<graphs>\n<graph pattern=\"4\"/></graphs>", "rings.xml:2: <graph>", "no id"},
      {"<graphs>\n<graph id=\"0\" pattern=\"1\"/></graphs>", "rings.xml:2: <graph>", "pattern 4"},
      {"<graphs>\n<graph id=\"1\" pattern=\"4\"/></graphs>", "rings.xml:2: <graph>", "pattern 1, 2 or 3"},
      {"<graphs>\n<graph id=\"0\"/>\n<graph id=\"0\"/></graphs>", "rings.xml:3: <graph>", "two of id 0"},
      {rings(ok, ""), "rings.xml:2: <graph>", "speedintra must be above 0"},
      {rings(ok, "speedintra=\"20\" speedinter=\"0\""), "rings.xml:2: <graph>", "speedinter must be above 0"},
      {rings(ok, "speedintra=\"fast\""), "rings.xml:2: <graph>", "not a number"},
      {rings(ok, "speedintra=\"1\" typeintra=\"NEAR\""), "rings.xml:2: <graph>", "'NEAR' is no path class"},
      {rings(ok, "speedintra=\"1\" nchannels=\"2\""), "rings.xml:2: <graph>", "nchannels is 2, but there are 1"},
      {rings(ok, "speedintra=\"1\" crossnic=\"7\""), "rings.xml:2: <graph>", "outside 0..2"},
      {rings("<ring/>"), "rings.xml:3: <ring>", "only <channel>"},
      {rings("<channel/>"), "rings.xml:3: <channel>", "no device"},
      {rings("<channel>\n<gpu/></channel>"), "rings.xml:4: <gpu>", "no dev"},
      {rings("<channel>\n<gpu dev=\"-1\"/></channel>"), "rings.xml:4: <gpu>", "outside"},
      {rings("<channel>\n<nic dev=\"1\"/></channel>"), "rings.xml:4: <nic>", "made of <gpu> and <net>"},
      {rings("<channel><net dev=\"0\"/><gpu dev=\"0\"/></channel>"), "rings.xml:3: <channel>", "the other has none"},
      {rings("<channel><net dev=\"0\"/><net dev=\"1\"/></channel>"), "rings.xml:3: <net>", "one each"},
      {rings("<channel><gpu dev=\"0\"/><net dev=\"1\"/><gpu dev=\"1\"/></channel>"), "rings.xml:3: <gpu>", "behind"},
      {rings("<channel><gpu dev=\"0\"/><numa dev=\"1\"/></channel>"), "rings.xml:3: <numa>", "mixed"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK_THAT(complaint(graph, row.text), Catch::StartsWith(row.place) && Catch::Contains(row.what));
  }
}

TEST_CASE("TUTTI_GRAPH_FILE imposes rings and TUTTI_GRAPH_DUMP_FILE shows them") {
  if (!TUTTI_HAVE_PUGIXML) return;
  const Graph graph = twoSockets(2, {{0, 1, 2}}, 20);
  const auto folder = std::filesystem::temp_directory_path() / cat("tutti-graph-", ::getpid());
  std::filesystem::create_directory(folder);
  const std::string in = folder / "in.xml", out = folder / "out.xml";
  std::ofstream(in) << rings(channel("10"));
  {
    const Variable file("TUTTI_GRAPH_FILE", in), dump("TUTTI_GRAPH_DUMP_FILE", out);
    const auto plan = currentChannels(graph, {});
    REQUIRE(plan.status().message() == "");
    CHECK(plan->rings.gbps == 20);
    const auto dumped = readGraphXml(readFile(out), "out.xml");
    REQUIRE(dumped.status().message() == "");
    CHECK((dumped->sets.front().channels.front().devices == std::vector<int>{1, 0}));
  }
  {
    const Variable file("TUTTI_GRAPH_FILE", (folder / "absent.xml").string());
    CHECK_THAT(currentChannels(graph, {}).status().message(), Catch::Contains("absent.xml: No such file"));
  }
  {
    const Variable dump("TUTTI_GRAPH_DUMP_FILE", (folder / "absent" / "out.xml").string());
    CHECK_THAT(currentChannels(graph, {}).status().message(), Catch::Contains("cannot write the graph file"));
  }
  std::filesystem::remove_all(folder);
}

}  // namespace tutti::topology
