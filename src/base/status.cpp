#include "src/base/status.hpp"

#include <cstring>

namespace tutti {

Status errnoError(int errnum, std::string what) {
  char buffer[128];
  return {tuttiSystemError, cat(what, ": ", strerror_r(errnum, buffer, sizeof buffer), " (errno ", errnum, ")")};
}

}  // namespace tutti
