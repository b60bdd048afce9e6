// Rings in the picture of a machine: a wheel for all of them together, then one for each, the devices of a host at the
// same place in every wheel, its ports outside.
#pragma once

#include "tools/topology/search/channel_plan.hpp"
#include "tools/topology/svg_canvas.hpp"

namespace tutti::topology {

/// Rings need room for one wheel with its text beside it.
constexpr double kLeastRingsWidth = 640;

/// Draws into the area from its upper left corner on, as high as needed; returns where it ends.
double drawRings(Canvas& canvas, const Graph& graph, const ChannelPlan& plan, const Box& area);

}  // namespace tutti::topology
