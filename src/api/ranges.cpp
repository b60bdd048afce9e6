#include "src/api/ranges.hpp"

#if TUTTI_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#endif

namespace tutti {

#if TUTTI_HAVE_NVTX
void beginRange(const char* name) {
  char text[64];
  std::snprintf(text, sizeof text, "tutti%s", name);
  nvtxRangePushA(text);
}
void endRange() { nvtxRangePop(); }
#else
void beginRange(const char*) {}
void endRange() {}
#endif

}  // namespace tutti
