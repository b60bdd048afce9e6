// The pieces of a step's chunks, laid end to end, that its thread block works on.
#pragma once

#include "src/import/program.hpp"

namespace tutti::foreign {

inline int firstPiece(const Step& step, int refine) { return step.count * refine / step.nShares * step.share; }
inline int lastPiece(const Step& step, int refine) { return step.count * refine / step.nShares * (step.share + 1); }

}  // namespace tutti::foreign
