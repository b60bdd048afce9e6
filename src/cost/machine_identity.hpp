// The machine that a calibration's figures belong to.
#pragma once

#include <string>

namespace tutti {

struct MachineIdentity {
  std::string cpu;  // model name, as the system gives it
  int cores = 1;    // online, whether this process may use them or not
  std::string host;
  bool operator==(const MachineIdentity&) const = default;
};
/// The machine we are on.  TUTTI_HOSTID, where set, is its host.
MachineIdentity thisMachine();

}  // namespace tutti
