// `tutti-info --topology` and its forms: the machine as Tutti sees it.
#pragma once

#include <string>

#include "src/base/status.hpp"
#include "tools/info/rings_view.hpp"

namespace tutti {

struct TopologyQuestion {
  bool text = false, dot = false, svg = false, xml = false, paths = false, json = false;
  std::string file;  // a file or a line of text; "": TUTTI_TOPO_FILE, else this machine

  RingsQuestion rings;  // alone as text; with svg drawn into the picture; with xml as NCCL's graph XML

  bool asked() const { return text || dot || svg || xml || paths || json || rings.asked; }
};

/// The form that is asked for, text if none is.
/// Errors: InvalidUsage if two forms are asked for; what is wrong with the description.
Result<std::string> topologyView(const TopologyQuestion& question);

}  // namespace tutti
