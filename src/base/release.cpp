#include "src/base/release.hpp"

#include <src/base/revision.h>  // made by meson
#include "src/base/text.hpp"
#include "tutti/tutti.h"

namespace tutti {

std::string releaseText() {
  return cat(TUTTI_MAJOR, ".", TUTTI_MINOR, ".", TUTTI_PATCH, " (revision ", TUTTI_REVISION, ")");
}

}  // namespace tutti
