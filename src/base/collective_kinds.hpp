// What collectives have in common: which of them have a root, reduce, or are about one vector.
#pragma once

#include "src/base/types.hpp"

namespace tutti {

/// From one rank or to one.
constexpr bool isRooted(Collective c) {
  return c == Collective::Broadcast || c == Collective::Reduce || c == Collective::Gather || c == Collective::Scatter;
}

/// Every rank's input or output is the whole vector; else it is a block for each rank.
constexpr bool isOneVector(Collective c) {
  return c == Collective::AllReduce || c == Collective::Broadcast || c == Collective::Reduce;
}

constexpr bool reduces(Collective c) {
  return c == Collective::AllReduce || c == Collective::Reduce || c == Collective::ReduceScatter;
}

}  // namespace tutti
