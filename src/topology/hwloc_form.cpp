#include "src/topology/hwloc_form.hpp"

#include <cstdio>

#if TUTTI_HAVE_PUGIXML
#include <pugixml.hpp>
#include <sstream>
#endif

namespace tutti::topology {

HwlocForm hwlocFormOf(std::string_view text) {
  HwlocForm form;
  const size_t begin = text.find("<topology");
  if (begin == std::string_view::npos) return form;
  const std::string tag(text.substr(begin, text.find('>', begin) - begin));
  const size_t version = tag.find(" version=");
  if (version == std::string::npos) return form;
  HwlocForm said;
  const int numbers = std::sscanf(tag.c_str() + version, " version=%*[\"']%4d.%4d", &said.major, &said.minor);
  return numbers == 2 ? said : form;
}

#if TUTTI_HAVE_PUGIXML
namespace {

/// Form 3 has a set of bits, form 2 one number: Block 0, GPU 1, Network 2, OpenFabrics 3, DMA 4, CoProc 5.
int osDeviceOfForm2(unsigned bits, std::string_view name) {
  enum : unsigned { Storage = 1, Memory = 2, Gpu = 4, CoProc = 8, Network = 16, OpenFabrics = 32, Dma = 64 };
  if ((bits & (Storage | Memory)) != 0) return 0;
  if ((bits & OpenFabrics) != 0) return 3;
  if ((bits & Network) != 0) return 2;
  if ((bits & Dma) != 0) return 4;
  const bool managed = name.starts_with("nvml") || name.starts_with("rsmi");
  return (bits & CoProc) != 0 && !managed ? 5 : 1;
}

/// In document order, without a stack: files may be deep.
pugi::xml_node following(pugi::xml_node node) {
  pugi::xml_node next = node.first_child();
  for (; node && !next; node = node.parent()) next = node.next_sibling();
  return next;
}

bool isKept(pugi::xml_node e) {
  const std::string_view tag = e.name();
  const bool distances = tag == "distances2" || tag == "distances2hetero";
  return tag == "object" || (distances && std::string_view(e.attribute("name").value()) == "NVLinkBandwidth");
}

void rewrite(pugi::xml_node topology) {
  topology.remove_attributes();
  topology.append_attribute("version") = "2.0";
  pugi::xml_node root = topology.child("object");
  for (pugi::xml_node e = topology.first_child(); e;) {
    const pugi::xml_node next = e.next_sibling();
    if (std::string_view(e.name()) == "info" && root) {
      root.prepend_move(e);  // form 2 has what is said of the whole in the outermost object
    } else if (!isKept(e)) {
      topology.remove_child(e);
    }
    e = next;
  }
  for (pugi::xml_node e = topology; e; e = following(e)) {
    if (pugi::xml_attribute type = e.attribute("osdev_type"); type) {
      type.set_value(osDeviceOfForm2(type.as_uint(), e.attribute("name").value()));
    }
  }
}

}  // namespace

Result<std::string> toHwlocForm2(std::string_view text, const std::string& origin) {
  pugi::xml_document document;
  const auto parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8);
  const pugi::xml_node topology = document.document_element();
  if (!parsed || !topology)
    return invalidArgument(ErrorCode::TopologyFile, origin, ": not XML: ", parsed.description());
  rewrite(topology);
  std::ostringstream out;
  topology.print(out, "", pugi::format_raw, pugi::encoding_utf8);
  return std::move(out).str();
}

#else
Result<std::string> toHwlocForm2(std::string_view, const std::string& origin) {
  return invalidUsage(ErrorCode::NotInBuild, origin, ": this build of Tutti rewrites no XML (Meson option pugixml)");
}
#endif

}  // namespace tutti::topology
