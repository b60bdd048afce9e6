#include "src/cost/machine_identity.hpp"

#include <unistd.h>

#include <fstream>

#include "src/base/config.hpp"
#include "src/cost/kept_text.hpp"

namespace tutti {
namespace {

std::string cpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name") && !line.starts_with("CPU part")) continue;
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string hostName() {
  if (const std::string given = configText("TUTTI_HOSTID"); !given.empty()) return given;
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

}  // namespace

MachineIdentity thisMachine() {
  MachineIdentity machine;
  machine.cpu = printable(cpuModel());
  machine.host = printable(hostName());
  machine.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return machine;
}

}  // namespace tutti
