// A description of a machine in any form that Tutti reads.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// From a text whose form shows: NCCL XML (<system>), hwloc XML (<topology>), one line ("node:4 gpu:8"), or hwloc's
/// synthetic string after the word `hwloc` ("hwloc package:2 core:8 pu:2").  `origin` names it in messages.
/// Errors: InvalidArgument that says where and what.
Result<Graph> parseTopology(std::string_view text, const std::string& origin);

/// From a file in one of these forms; a name that contains ':' and is no file is taken for the text itself.
/// Errors: also InvalidUsage if the file cannot be read.
Result<Graph> loadTopology(const std::string& fileOrText);

}  // namespace tutti::topology
