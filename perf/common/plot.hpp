// Bus bandwidth over message size as an SVG picture with logarithmic axes: a line per placement (and type and operator,
// if several were run) with the band in which 8 of 10 calls were, and what the library expected.
#pragma once

#include <string>
#include <vector>

#include "perf/common/table.hpp"

namespace tutti::perf {

/// Text of an SVG file; rows of size 0 are left out.
std::string plotSvg(const Collective& c, const Options& o, const std::vector<Row>& rows,
                    const std::vector<RankLine>& ranks);

}  // namespace tutti::perf
