// A file of NCCL's form while it is read.  NCCL's own reader takes any attribute that it can make a number of (strtol)
// or falls back on a default, and looks only at the part of a file whose devices its machine has; what it would go on
// with is no error here either, but said: in the graph's leftOut or notes, a sentence for each kind.
//   Source: NVIDIA/nccl, src/graph/xml.cc, xml.h (xmlGetAttrInt, kvConvertToInt) and topo.cc.
#pragma once

#include "src/base/xml_text.hpp"
#include "src/topology/oddities.hpp"

namespace tutti::topology {

class NcclFile {
 public:
  /// Errors: InvalidArgument "origin:line: ..." for what is not XML, has another root, or another version than 1 and 2.
  Status open(std::string_view text, const std::string& origin);

  pugi::xml_node root() const { return xml_.root(); }
  int line(pugi::xml_node e) const { return xml_.line(e); }
  template <class... Args>
  Status error(pugi::xml_node e, const Args&... args) const {
    return xml_.error(e, args...);
  }

  /// The attribute as a number within the bounds.  One that is none counts as far as its first characters are a number
  /// ("16x"), else as absent; both are said.
  int integer(pugi::xml_node e, const char* name, int absent, int least, int most);
  uint64_t hex64(pugi::xml_node e, const char* name);  // 0 without it
  double number(pugi::xml_node e, const char* name, double absent);
  /// A PCI class: "0x030200"; shorter ones are the beginning of one, as NCCL's "0x03".  -1 without it.
  int pciClass(pugi::xml_node e, const char* name);

  /// What of the element is not taken over, and what is done instead.  `subject` follows the tag: "busid ...".
  void leaveOut(pugi::xml_node e, const std::string& subject, const std::string& sentence);
  /// The attribute is left out.
  void leaveOut(pugi::xml_node e, const char* attribute);
  /// What is odd and yet taken over.
  void remark(pugi::xml_node e, const std::string& subject, const std::string& sentence);

  std::vector<std::string> leftOut() const { return leftOut_.sentences(); }
  std::vector<std::string> remarks() const { return remarks_.sentences(); }

 private:
  Status checkVersion() const;

  XmlText xml_{ErrorCode::TopologyFile};
  Oddities leftOut_, remarks_;
};

}  // namespace tutti::topology
