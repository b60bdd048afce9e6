// --version of the programs in tools/ and perf/.
#pragma once

#include <cstdio>
#include <cstring>
#include <string>

#include "tutti/tutti.h"

namespace tutti {

/// "tutti-run 0.1.0"; program: its path or name.
inline std::string programVersion(const char* program) {
  const char* const slash = std::strrchr(program, '/');
  return std::string(slash != nullptr ? slash + 1 : program) + " " + std::to_string(TUTTI_MAJOR) + "." +
         std::to_string(TUTTI_MINOR) + "." + std::to_string(TUTTI_PATCH);
}

/// Whether the command line is --version, which is then answered: for programs that read it themselves.
inline bool printsVersion(int argc, char** argv) {
  if (argc != 2 || std::strcmp(argv[1], "--version") != 0) return false;
  std::puts(programVersion(argv[0]).c_str());
  return true;
}

}  // namespace tutti
