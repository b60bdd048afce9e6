#include "tools/topology/search/graph_xml.hpp"

#if TUTTI_HAVE_PUGIXML
#include <set>

#include "src/base/xml_text.hpp"

namespace tutti::topology {
namespace {

constexpr int kMostDev = 1 << 20, kMostChannels = 1024;

class Reader {
 public:
  Result<GraphFile> read(std::string_view text, const std::string& origin) {
    file_.origin = origin;
    TUTTI_TRY(xml_.parse(text, origin));
    const pugi::xml_node root = xml_.root();
    if (std::string_view(root.name()) != "graphs") return xml_.error(root, "a graph file begins with <graphs>");
    TUTTI_ASSIGN(const int64_t version, xml_.integer(root, "version", 1, 0, kMostDev));
    if (version != 1) return xml_.error(root, "version ", version, " is not known, only 1");
    for (const pugi::xml_node e : root.children()) {
      if (e.type() == pugi::node_element && std::string_view(e.name()) == "graph") TUTTI_TRY(readSet(e));
    }
    return std::move(file_);
  }

 private:
  Status readSet(pugi::xml_node e) {
    if (!e.attribute("id")) return xml_.error(e, "it has no id");
    TUTTI_ASSIGN(const int64_t id, xml_.integer(e, "id", 0, 0, kMostDev));
    if (id > 1) return {};  // CollNet and NVLS
    if (!seen_.insert(id).second) return xml_.error(e, "there are two of id ", id);
    GraphFileSet set;
    set.line = xml_.line(e);
    TUTTI_ASSIGN(const int64_t pattern, xml_.integer(e, "pattern", id == 0 ? 4 : 3, 1, 6));
    if (id == 0 && pattern != 4) return xml_.error(e, "id 0 is for rings, pattern 4, not ", pattern);
    if (id == 1 && pattern > 3) return xml_.error(e, "id 1 is for trees, pattern 1, 2 or 3, not ", pattern);
    set.pattern = id == 0 ? Pattern::Ring : Pattern::Tree;
    TUTTI_ASSIGN(set.speedIntra, xml_.number(e, "speedintra", 0));
    TUTTI_ASSIGN(set.speedInter, xml_.number(e, "speedinter", set.speedIntra));
    TUTTI_TRY(checkType(e, "typeintra"));
    TUTTI_TRY(checkType(e, "typeinter"));
    for (const char* flag : {"crossnic", "samechannels"}) TUTTI_TRY(asStatus(xml_.integer(e, flag, 0, 0, 2)));
    TUTTI_TRY(asStatus(xml_.number(e, "latencyinter", 0)));
    TUTTI_ASSIGN(const int64_t announced, xml_.integer(e, "nchannels", -1, 0, kMostChannels));
    for (const pugi::xml_node c : e.children()) {
      if (c.type() != pugi::node_element) continue;
      if (std::string_view(c.name()) != "channel") return xml_.error(c, "only <channel> stands in a <graph>");
      if (set.channels.size() == kMostChannels) return xml_.error(c, "there are more than ", kMostChannels);
      TUTTI_TRY(readChannel(c, &set));
    }
    if (announced >= 0 && static_cast<size_t>(announced) != set.channels.size())
      return xml_.error(e, "nchannels is ", announced, ", but there are ", set.channels.size());
    if (set.channels.empty()) return {};
    if (!(set.speedIntra > 0)) return xml_.error(e, "speedintra must be above 0");
    if (!(set.speedInter > 0)) return xml_.error(e, "speedinter must be above 0");
    file_.sets.push_back(std::move(set));
    return {};
  }

  Status checkType(pugi::xml_node e, const char* name) {
    const std::string_view value = e.attribute(name).value();
    if (value.empty() || value == "XGMI") return {};  // RCCL's word for NVL
    for (int c = 0; c <= static_cast<int>(PathClass::Dis); ++c) {
      if (value == className(static_cast<PathClass>(c))) return {};
    }
    return xml_.error(e, name, "='", value, "' is no path class such as NVL or PIX");
  }

  Status readChannel(pugi::xml_node e, GraphFileSet* set) {
    GraphFileChannel channel;
    channel.line = xml_.line(e);
    for (const pugi::xml_node d : e.children()) {
      if (d.type() != pugi::node_element) continue;
      const std::string_view tag = d.name();
      if (!d.attribute("dev")) return xml_.error(d, "it has no dev");
      TUTTI_ASSIGN(const int64_t dev, xml_.integer(d, "dev", 0, 0, kMostDev));
      if (tag == "net") {
        if (channel.devices.empty() && channel.entry < 0)
          channel.entry = static_cast<int>(dev);
        else if (!channel.devices.empty() && channel.exit < 0)
          channel.exit = static_cast<int>(dev);
        else
          return xml_.error(d, "a net stands before the first GPU or after the last, one each");
      } else if (tag == "gpu" || tag == "numa") {
        if (channel.exit >= 0) return xml_.error(d, "it stands behind the net by which the channel leaves");
        const bool first = set->channels.empty() && channel.devices.empty();
        if (first) set->numas = tag == "numa";
        if (set->numas != (tag == "numa")) return xml_.error(d, "GPUs and NUMA nodes are mixed");
        channel.devices.push_back(static_cast<int>(dev));
      } else {
        return xml_.error(d, "a channel is made of <gpu> and <net>");
      }
    }
    if (channel.devices.empty()) return xml_.error(e, "no device is in it");
    if ((channel.entry < 0) != (channel.exit < 0)) return xml_.error(e, "one end has a net, the other has none");
    set->channels.push_back(std::move(channel));
    return {};
  }

  XmlText xml_{ErrorCode::TopologyFile};
  GraphFile file_;
  std::set<int64_t> seen_;
};

}  // namespace

Result<GraphFile> readGraphXml(std::string_view text, const std::string& origin) { return Reader().read(text, origin); }

}  // namespace tutti::topology

#else
namespace tutti::topology {

Result<GraphFile> readGraphXml(std::string_view, const std::string& origin) {
  return invalidUsage(origin, ": this build of Tutti reads no XML (Meson option pugixml)");
}

}  // namespace tutti::topology
#endif
