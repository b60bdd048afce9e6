// Files of NCCL's form that NCCL goes on with though they are odd: each text shows one oddity, most of them as files of
// cloud providers and RCCL's models have them.  They are read, and what is not taken over is said, a sentence a kind.
#include <catch2/catch.hpp>

#include "src/topology/nccl_xml.hpp"
#include "src/topology/oddities.hpp"
#include "src/topology/paths.hpp"
#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/write.hpp"

#if TUTTI_HAVE_PUGIXML
namespace tutti::topology {
namespace {

const Node& nodeAt(const Graph& g, int node) { return g.nodes[static_cast<size_t>(node)]; }

std::string onCpu(const std::string& inside) {
  return cat("<system version='1'>\n<cpu numaid='0'>\n", inside, "</cpu></system>");
}

Graph taken(const std::string& text) {
  const auto graph = readNcclXml(text, "f.xml");
  REQUIRE(graph.status().message() == "");
  REQUIRE(graph->check() == "");
  return *graph;
}

std::string inOne(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += cat(text.empty() ? "" : "; ", sentence);
  return text;
}

constexpr const char* kUnknown = "has neither a class nor anything in it: it is not known what it is, but where";
constexpr const char* kAgain = "has the bus id of an earlier one: the id is left out, the device is read";
constexpr const char* kNoPlace = "has no place here: left out with what is in it";
constexpr const char* kNotUnderstood = "is not understood: the attribute is left out";

}  // namespace

TEST_CASE("what NCCL goes on with is read, and what is left out is said once for each kind") {
  struct Row {
    std::string inside, leftOut, notes;
    size_t gpus, nics, switches;
  };
  const std::string gpu = "<gpu dev='0' sm='80'/>", target = "<nvlink target='0000:01:00.0' count='12' tclass=";
  const auto row = GENERATE_COPY(values<Row>({
      // A place alone, as in the file for AWS's g5.48xlarge.
      {"<pci busid='0000:00:16.0'/>\n<pci busid='0000:00:17.0'/>\n<pci busid='0000:00:18.0'/>", "",
       cat("line 3: <pci> 0000:00:16.0 ", kUnknown, " (and 2 more: lines 4, 5)"), 0, 0, 0},
      // A link of a device to itself, as in the file for Azure's NC A100 v4.
      {cat("<pci busid='1:0.0'><gpu>\n", target, "'0x030200'/></gpu></pci>"),
       "line 4: <nvlink> of 0000:01:00.0 to 0000:01:00.0 leads from a device to itself: the link is left out", "", 1, 0,
       0},
      // A bus id twice, as in RCCL's 4p4h (switches) and 8p1h_1 (a switch and an adapter): the devices count.
      {cat("<pci busid='1:0.0' class='0x060400'>\n<pci busid='2:0.0'>", gpu, "</pci></pci>",
           "<pci busid='1:0.0' class='0x060400'>\n<pci busid='3:0.0'>", gpu, "</pci></pci>",
           "<pci busid='1:0.0' class='0x060400'>\n<pci busid='4:0.0'>", gpu, "</pci></pci>"),
       cat("line 4: <pci> 0000:01:00.0 ", kAgain, " (and 1 more: line 5)"), "", 3, 0, 3},
      {"<pci busid='1:0.0'><pci busid='2:0.0' class='0x060400'/></pci>\n<pci busid='1:0.0'><nic><net "
       "name='a'/></nic></pci>",
       cat("line 4: <pci> 0000:01:00.0 ", kAgain), "", 0, 1, 2},
      {"<pci busid='1:0.0' class='0x030200'/>\n<pci busid='0000:01:00.0' class='0x030200'/>",
       "line 4: <pci> 0000:01:00.0 is listed already: left out", "", 1, 0, 0},
      // Speeds as the file for AWS's p5.48xlarge had them are read; what is no speed is not.
      {"<pci busid='1:0.0' class='0x030200' link_speed='32 GT/s PCIe/s' link_width='16'/>", "", "", 1, 0, 0},
      {"<pci busid='1:0.0' class='0x030200' link_speed='fast' link_width='16'/>\n"
       "<pci busid='2:0.0' class='0x030200' link_speed='slow' link_width='16'/>",
       cat("line 3: <pci> link_speed='fast' ", kNotUnderstood, " (and 1 more: line 4)"), "", 2, 0, 0},
      {"<pci busid='1:0.0' class='0x030200' link_speed='' link_width=''/>", "", "", 1, 0, 0},
      {"<pci busid='1:0.0' class='0x030200' link_width='16x'/>",
       "line 3: <pci> link_width='16x' is a number with more behind it, which is left out", "", 1, 0, 0},
      {"<pci busid='1:0.0' class='0x030200' link_width='-1'/>", cat("line 3: <pci> link_width='-1' ", kNotUnderstood),
       "", 1, 0, 0},
      // Classes as NCCL begins them, and none at all.
      {"<pci busid='1:0.0' class='0x03'/><pci busid='2:0.0' class='0x0200'/>", "", "", 1, 1, 0},
      {"<pci busid='1:0.0' class='0x1000000'><nic/></pci>", cat("line 3: <pci> class='0x1000000' ", kNotUnderstood), "",
       0, 1, 0},
      // Elements where NCCL does not look for them.
      {"<gpu dev='0'/><nvlink/>\n<gpu dev='1'/>",
       cat("line 3: <gpu> ", kNoPlace, " (and 1 more: line 4); line 3: <nvlink> ", kNoPlace), "", 0, 0, 0},
      {"<future/><pci busid='1:0.0'><net name='a'/>" + gpu + "</pci>",
       cat("line 3: <future> ", kNoPlace, "; line 3: <net> ", kNoPlace), "", 1, 0, 0},
      {cat("<pci busid='1:0.0'>", gpu, "\n<gpu dev='1'/>\n<nic/>\n<pci busid='2:0.0'>", gpu, "</pci></pci>"),
       "line 4: <gpu> has no place in a GPU: left out with what is in it; "
       "line 5: <nic> has no place in a GPU: left out with what is in it; "
       "line 6: <pci> has no place in a GPU: left out with what is in it",
       "", 1, 0, 0},
      {"<pci>" + gpu + "</pci>", "line 3: <pci> has no busid: left out with what is in it", "", 0, 0, 0},
      // An adapter listed on a switch beside what hangs on it.
      {"<pci busid='1:0.0' class='0x060400'><pci busid='2:0.0'>" + gpu + "</pci><nic><net name='a'/></nic></pci>", "",
       "", 1, 1, 1},
      // Links that lead nowhere.
      {"<pci busid='1:0.0'><gpu>\n<nvlink/></gpu></pci>",
       "line 4: <nvlink> of 0000:01:00.0 has no target: the link is left out", "", 1, 0, 0},
      {"<pci busid='1:0.0'><gpu>\n<nvlink target='7:0.0' tclass='0x030200'/></gpu></pci>",
       "line 4: <nvlink> of 0000:01:00.0 to 0000:07:00.0 leads to what is not in the file: the link is left out", "", 1,
       0, 0},
      {"<pci busid='1:0.0'><gpu>\n<nvlink target='7:0.0' count='6'/></gpu></pci>", "",
       "line 4: <nvlink> to 0000:07:00.0 says not to what it leads: taken for an NVSwitch", 1, 0, 0},
      {"<pci busid='1:0.0'><gpu><nvlink target='7:0.0' tclass='0x068000' count='9999'/></gpu></pci>",
       cat("line 3: <nvlink> count='9999' ", kNotUnderstood), "", 1, 0, 0},
      {"<pci busid='1:0.0'><gpu><nvlink target='7:0.0' tclass='0x068000' count='0'/></gpu></pci>", "", "", 1, 0, 0},
      {"<pci busid='1:0.0'><gpu><c2c bw='0' count='1'/></gpu></pci>",
       "line 3: <c2c> has no bandwidth: the link is left out", "", 1, 0, 0},
      {"<pci busid='1:0.0' class='0x060400'><pcilink target='2:0.0'/></pci><pci busid='2:0.0'><nic/></pci>",
       "line 3: <pcilink> to 0000:02:00.0 leads to what is no switch: the link is left out", "", 0, 1, 1},
      // Ports.
      {"<nic>\n<net name='a' speed='fast' latency='nan' guid='none'/></nic>",
       cat("line 4: <net> speed='fast' ", kNotUnderstood, "; line 4: <net> latency='nan' ", kNotUnderstood,
           "; line 4: <net> guid='none' ", kNotUnderstood),
       "", 0, 1, 0},
  }));
  CAPTURE(row.inside);
  const Graph g = taken(onCpu(row.inside));
  CHECK(inOne(g.leftOut) == row.leftOut);
  CHECK(inOne(g.notes) == row.notes);
  CHECK(g.all(NodeKind::Gpu).size() == row.gpus);
  CHECK(g.all(NodeKind::Nic).size() == row.nics);
  CHECK(g.all(NodeKind::PciSwitch).size() == row.switches);
  CHECK(toText(g).find(g.leftOut.empty() ? "NUMA 0" : "left out\n  line ") != std::string::npos);
  const Graph again = taken(writeNcclXml(g));
  CHECK(again.nodes.size() == g.nodes.size());
  CHECK(again.links.size() == g.links.size());
  CHECK(again.leftOut.empty());
}

TEST_CASE("what is odd of a processor or of the whole file is no reason to refuse it") {
  struct Row {
    const char *text, *leftOut, *notes;
    size_t numas;
  };
  const auto row = GENERATE(values<Row>({
      {"<system version='1'/>", "line 1: <system> has no <cpu>: it says nothing of the machine", "", 1},
      {"<system version='1'>\n<gpu/></system>",
       "line 2: <gpu> has no place here: left out with what is in it; "
       "line 1: <system> has no <cpu>: it says nothing of the machine",
       "", 1},
      {"<system version='1.0'><cpu numaid='0'/></system>", "", "", 1},
      {"<system><cpu numaid='0'/>\n<cpu numaid='0'><pci busid='1:0.0' class='0x0200'/></cpu></system>", "",
       "line 2: <cpu> numaid=0 is there twice: its devices are added to those of the first, which alone counts", 1},
      {"<system><cpu numaid='x'/></system>", "line 1: <cpu> numaid='x' is not understood: the attribute is left out",
       "", 1},
      {"<system><cpu numaid='0' affinity='0-63'/></system>",
       "line 1: <cpu> affinity='0-63' is not understood: the attribute is left out", "", 1},
      {"<system><cpu numaid='0' host_hash='z' familyid='?'/></system>",
       "line 1: <cpu> host_hash='z' is not understood: the attribute is left out; "
       "line 1: <cpu> familyid='?' is not understood: the attribute is left out",
       "", 1},
  }));
  CAPTURE(row.text);
  const Graph g = taken(row.text);
  CHECK(inOne(g.leftOut) == row.leftOut);
  CHECK(inOne(g.notes) == row.notes);
  CHECK(g.all(NodeKind::Numa).size() == row.numas);
  CHECK(g.all(NodeKind::Host).size() == 1);
}

TEST_CASE("devices of which only the place is known are found there") {
  const Graph g = taken(
      "<system version='1'><cpu numaid='0'><pci busid='0000:00:16.0'/></cpu>"
      "<cpu numaid='1'><pci busid='0000:00:1a.0'/></cpu></system>");
  const int device = g.byBusId("0000:00:1a.0", 0);
  REQUIRE(device >= 0);
  CHECK(nodeAt(g, device).kind == NodeKind::PciDevice);
  CHECK(nodeAt(g, g.enclosing(device, NodeKind::Numa)).index == 1);
}

TEST_CASE("devices below switches of one bus id reach each other as below different ones") {
  const Graph g = taken(onCpu(
      "<pci busid='9:0.0' class='0x060400'>"
      "<pci busid='1:0.0' class='0x060400'><pci busid='2:0.0'><gpu dev='0'/></pci><pci busid='3:0.0'><nic/></pci></pci>"
      "<pci busid='1:0.0' class='0x060400'><pci busid='4:0.0'><gpu dev='1'/></pci></pci></pci>"));
  const Paths paths(g);
  const auto type = [&](const char* a, const char* b) {
    return paths.between(g.byBusId(a, 0), g.byBusId(b, 0)).value().type;
  };
  CHECK(type("2:0.0", "3:0.0") == PathClass::Pix);
  CHECK(type("2:0.0", "4:0.0") == PathClass::Pxb);
  CHECK(nodeAt(g, g.byBusId("0000:01:00.0#2", 0)).kind == NodeKind::PciSwitch);
  CHECK(planChannels(g, {}).ok());
}

TEST_CASE("a file of nothing but oddities has a bounded number of sentences, and each names few lines") {
  std::string inside;
  for (int i = 0; i < 2000; ++i) inside += cat("<tag", i % 500, "/>\n<pci busid='1:0.0' class='0x0200' vendor='?'/>\n");
  const Graph g = taken(onCpu(inside));
  CHECK(g.leftOut.size() == Oddities::kMostKinds + 1);
  CHECK(g.leftOut.back().find("oddities of further kinds") != std::string::npos);
  for (const std::string& sentence : g.leftOut) CHECK(sentence.size() < 200);
  const std::string long_ = cat("<pci busid='", std::string(100000, 'a'), "\n'/>");
  for (const std::string& note : taken(onCpu(long_)).notes) {
    CHECK(note.size() < 300);
    CHECK(note.find('\n') == std::string::npos);
  }
}

TEST_CASE("a sentence says how often something was met and where first") {
  Oddities odd;
  CHECK(odd.sentences().empty());
  odd.add(7, "<a> x", "is odd");
  CHECK(odd.sentences() == std::vector<std::string>{"line 7: <a> x is odd"});
  odd.add(7, "<a> y", "is odd");
  CHECK(odd.sentences() == std::vector<std::string>{"line 7: <a> x is odd (and 1 more)"});
  for (const int line : {8, 9, 9, 12, 13}) odd.add(line, "<a> z", "is odd");
  odd.add(9, "<b>", "is odd", "another kind");
  CHECK(odd.sentences() ==
        std::vector<std::string>{"line 7: <a> x is odd (and 6 more: lines 8, 9, 12, ...)", "line 9: <b> is odd"});
}

}  // namespace tutti::topology
#endif
