#include "src/base/assert.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tutti {

void assertionFailed(const char* file, int line, const char* text, const std::string& operands) {
  std::fprintf(stderr, "tutti: %s:%d: assertion failed: %s%s%s\n", file, line, text, operands.empty() ? "" : ", with ",
               operands.c_str());
  std::abort();
}

}  // namespace tutti
