// A whole *_perf program.
#pragma once

#include "perf/common/collective.hpp"

namespace tutti::perf {

/// Exit codes: 0 all right; 1 wrong data, too little bandwidth, or wrong flags; 3 an error of the library.
int run(int argc, char** argv, const Collective& collective);

}  // namespace tutti::perf
