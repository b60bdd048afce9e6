// The launchers that launchInfo() knows, one function each; only environment.cpp and its sisters include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/control/session/unique_id.hpp"

namespace tutti::launch {

/// Nothing: this process was not started by that launcher.
using Found = Result<std::optional<LaunchInfo>>;

Found tuttiRun();
Found torchrun(Deadline deadline);
Found pmix(Deadline deadline);
/// Whether libpmix can be loaded, by which ranks of mpirun and srun meet.
bool pmixLoads();
Found pmi(Deadline deadline);
Found slurm(Deadline deadline);

/// An environment variable; empty if unset.
std::string text(const char* name);
/// As a whole number within [least, most].  Errors: InvalidUsage naming the variable.
Result<int64_t> number(const char* name, int64_t least, int64_t most);
/// rank and size from two variables that belong together.  Errors name the one that is missing or wrong.
struct Place {
  int rank = 0;
  int nRanks = 1;
};
Result<Place> place(const char* launcher, const char* rankName, const char* sizeName);

/// The id that rank 0 has published through the launcher.  Errors: SystemError: it is none.
Result<tuttiUniqueId> publishedId(const char* launcher, const std::string& hex);

/// Errors: InvalidUsage: TUTTI_ENCRYPT=1, where ranks of several hosts have no secret but one that can be guessed.
Status checkSecretOf(const std::string& where, bool oneHost);
/// Whether the launcher says that as many ranks are on this host as there are.
bool allRanksHere(int nRanks);

/// How often launchInfo has been called in this process, so that each call meets apart from the one before.
uint64_t generation();

/// Meet at a port of rank 0's host that everyone knows beforehand.
struct FixedPlace {
  std::string launcher;
  Place place;
  std::vector<std::string> hosts;  // names or addresses under which rank 0 may be reached, best first
  int port = 0;                    // unless TUTTI_PORT is set
  bool oneHost = false;            // all ranks are on the host of rank 0
  std::string identity;            // the same on all ranks of the job and different from other jobs'
};
Result<LaunchInfo> meetAt(const FixedPlace& fixed, Deadline deadline);

/// The first host of a Slurm node list: "n[03-05,7],m1" -> "n03".  Empty if the list is malformed.
std::string firstSlurmHost(const std::string& nodeList);
/// Whether the list names exactly one host.
bool singleSlurmHost(const std::string& nodeList);

}  // namespace tutti::launch
