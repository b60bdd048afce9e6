// What textbooks say an algorithm sends: closed forms beside the bytes that are counted on its schedules.
#pragma once

#include <string_view>

#include "src/base/types.hpp"

namespace tutti::sim {

/// What formulas speak of.  S is a vector and B a block; formulas give multiples of them.
struct TextbookShape {
  double n = 1;  // ranks
  double L = 0;  // ceil(log2 n)
  double g = 1;  // ranks of a node
  double m = 1;  // nodes
  double k = 1;  // chunks that the schedule divides a vector into
};

/// Bytes that the rank sends that sends most.
struct Textbook {
  enum class Says { Exactly, AtMost };
  Collective collective;
  std::string_view algorithm;
  std::string_view formula;  // "2(n-1)/n S"
  double (*sent)(const TextbookShape&);
  Says says = Says::Exactly;
  bool onlyPowersOfTwo = false;  // of ranks; for others textbooks differ
};

/// nullptr where there is none.
const Textbook* findTextbook(Collective collective, std::string_view algorithm);

}  // namespace tutti::sim
