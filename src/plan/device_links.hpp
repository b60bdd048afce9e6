// What joins the CUDA devices of a communicator on one host, by the graph of the machine.
#pragma once

#include <span>
#include <string>

#include "src/cost/device_costs.hpp"
#include "src/topology/graph.hpp"

namespace tutti {

/// busIds[rank]; ranks with the same one share a device.  Devices that the graph does not have, or no way between,
/// leave the rates unknown (0).  Not for ranks on several hosts.
DeviceLinks deviceLinks(const topology::Graph& graph, std::span<const std::string> busIds);

}  // namespace tutti
