// A graph as a short text, in which it travels between ranks: everything that a Graph holds, and nothing else.
//
//   tutti-machine 1
//   N host - name=vm hash=edb2d81b5b700701        a node: kind, parent, and those fields that are not the default
//   N package 0 i=0 cpus=0-1 cpu=x86_64,GenuineIntel,6,85
//   L 3 4 pci 12 assumed                           a link: two nodes, kind, GB/s, lanes if more than one
//   # a note
//   end
//
// In values, bytes that would end them are written as %XX.
#pragma once

#include "src/topology/graph.hpp"

namespace tutti::topology {

/// Texts larger than this are refused unread.
inline constexpr size_t kMostCompactBytes = size_t{1} << 20;

std::string toCompact(const Graph& graph);

/// Safe on any bytes; what comes out has passed check(), and every host of it has a NUMA node.
/// Errors: InvalidArgument with the line and what is wrong with it.
Result<Graph> parseCompact(std::string_view text);

/// The graph without cores (the CPUs of caches and NUMA nodes stay): what ranks tell each other, since no level that
/// they are grouped by is finer than a cache.
Graph withoutCores(const Graph& graph);

}  // namespace tutti::topology
