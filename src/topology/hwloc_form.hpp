// The forms of hwloc's XML, <topology version="...">.  hwloc reads its own and older ones: 2.x those up to 2.0, 3.x
// that of 3.0, too.
#pragma once

#include <string>
#include <string_view>

#include "src/base/status.hpp"

namespace tutti::topology {

struct HwlocForm {
  int major = 1, minor = 0;  // what writes no version is older than 2.0
  std::string text() const { return cat(major, ".", minor); }
};

/// As the first tag of the text says it.
HwlocForm hwlocFormOf(std::string_view text);

/// A text of form 3 in form 2, with all that a graph is made of: objects, the host's name and architecture, NVLinks.
/// Memory attributes, kinds of cores, what hwloc could do where it was, and users' data are not taken over.
/// Errors: InvalidArgument "origin:line: ..." for what is not XML; InvalidUsage if Tutti was built without pugixml.
///   Source: open-mpi/hwloc, hwloc/topology-xml.c (what it exports with HWLOC_TOPOLOGY_EXPORT_XML_FLAG_V2), NEWS.
Result<std::string> toHwlocForm2(std::string_view text, const std::string& origin);

}  // namespace tutti::topology
