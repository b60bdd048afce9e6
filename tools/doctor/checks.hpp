// What tutti-doctor looks at.  Nothing here changes the machine.
//
// `root` stands before /proc, /sys and /dev, so that tests can make machines of their own; "" is the running system.
#pragma once

#include <string>

#include "tools/doctor/finding.hpp"

namespace tutti::doctor {

/// Processors, memory, limits of containers, huge pages, processor frequency: by files.
Findings checkHost(const std::string& root);
/// Limits of this process, and whether the system lets two processes share memory as Tutti's do: by trying.
Findings checkSharing();
/// Interfaces, the name of this host, limits of TCP.
Findings checkNetwork(const std::string& root);
/// InfiniBand adapters and NVIDIA GPUs, their drivers and libraries.
Findings checkDevices(const std::string& root);
/// TUTTI_* variables, variables of NCCL that Tutti does not read, the launcher's environment, versions, calibration.
Findings checkSettings();
/// Two to four processes come up, and reduce over each transport that TUTTI_TRANSPORTS allows.  Takes a second or two.
Findings checkRanks();

}  // namespace tutti::doctor
