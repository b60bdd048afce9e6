// NCCL's environment variables: which are understood, what they become, and what all of them together ask for.
//
// Values come from the environment, then from ~/.nccl.conf (or NCCL_CONF_FILE) and /etc/nccl.conf: KEY=VALUE a line.
// They are read once per process, at the first call that makes something.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/nccl/log.hpp"

namespace tutti::nccl {

/// What the variables ask for, beyond what became defaults of tutti's own variables.
struct Environment {
  LogSettings log;
  std::string logFile;
  std::optional<bool> blocking;  // these override what a program says in its ncclConfig_t
  std::optional<int> minCtas, maxCtas;
  std::optional<bool> splitShare, shrinkShare;
  std::string netName;
  std::string commId;                           // "host:port" of a rendezvous that all ranks know
  std::vector<std::string> excluded;            // transports
  std::map<std::string, std::string> defaults;  // variables of tutti
  std::map<std::string, std::string> origins;   // of those, by name: the variable of NCCL's that asks for it
  std::vector<std::string> warnings;            // what has no effect here, and why
  std::vector<std::string> infos;
  std::string error;  // the first value that cannot be honoured; empty: none
};

/// One variable of NCCL's.
struct NcclVariable {
  const char* name;
  const char* becomes;  // what it does in Tutti, for docs and ncclParamDumpAll
  /// Takes over `value`, which is not empty, of the variable `name`.
  void (*read)(const std::string& name, const std::string& value, Environment* into);
};

/// All that are understood.
std::span<const NcclVariable> ncclVariables();

/// The value of any variable by its name; "" if it is not set.
std::string ncclValue(const std::string& name);

/// What all variables ask for.
Environment readEnvironment();

/// Read it and put it into force, once per process; later calls return the same.
const Environment& environment();

/// Look at NCCL_DEBUG, NCCL_DEBUG_SUBSYS and NCCL_DEBUG_FILE again (ncclResetDebugInit).
void readLogAgain();

/// `why` is the error, if it is the first.
void reject(const std::string& why, Environment* into);

/// NCCL_ALGO and NCCL_PROTO in tutti's words; see algorithms.cpp.
void readAlgorithms(const std::string& name, const std::string& value, Environment* into);
void readProtocols(const std::string& name, const std::string& value, Environment* into);

/// Tutti's transport for a network by the name that NCCL has for it, or that a plugin may have; "" if there is none.
std::string networkTransport(const std::string& name);

/// "a,b" into its parts, without empty ones.
std::vector<std::string> splitList(const std::string& text, char separator);
/// In small letters.
std::string lower(std::string text);

}  // namespace tutti::nccl
