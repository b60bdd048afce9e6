// The content of a tuttiUniqueId: where ranks meet, and the secret that proves they may.
#pragma once

#include <string>
#include <string_view>

#include "src/base/clock.hpp"
#include "src/base/status.hpp"
#include "src/control/bootstrap_node.hpp"
#include "src/control/session/interfaces.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// 8 bytes magic and version, 16 commId, 32 secret, then the control address as text; the rest is zero.
struct MeetingPlace {
  CommId commId{};
  Secret secret{};
  bool secretOfUser = false;  // it has none: ranks of its user get one where it is served (place_secret.hpp)
  ControlAddress controlAddress;
};

/// A control address that does not fit loses addresses from its end.
tuttiUniqueId encodeUniqueId(const MeetingPlace& place);
/// Errors: InvalidArgument: not an id made by tuttiGetUniqueId (or one of another version).
Result<MeetingPlace> decodeUniqueId(const tuttiUniqueId& id);

/// The id as ranks tell it each other: its secret hidden under that of the communicator they share, and the whole under
/// a MAC.
std::string sealUniqueId(const Secret& shared, const tuttiUniqueId& id);
/// Errors: RemoteError: not made by sealUniqueId with this secret; those of decodeUniqueId.
Result<MeetingPlace> openSealedUniqueId(const Secret& shared, std::string_view sealed);

/// Open a rendezvous in this process: a Session that serves it and ends when all ranks have met, or after
/// kRendezvousLifeMs (longer if TUTTI_TIMEOUT_MS is), or when the process ends.  A thread of its own keeps it.
Result<tuttiUniqueId> openRendezvousPlace(Reach reach = Reach::Network);
inline constexpr int64_t kRendezvousLifeMs = 3'600'000;

/// TUTTI_TIMEOUT_MS, or its default where it cannot be understood, which is then said elsewhere.
int64_t patienceMs();

/// End a rendezvous of this process that nobody will come to (a communicator of one rank); nothing if there is none.
void closeRendezvousPlace(const CommId& commId);

/// Those who meet at `place`, if this process serves it, hear that this rank's process has ended before it came.
void tellRankEnded(const MeetingPlace& place, int rank, const std::string& how);

/// Those who meet at `place`, or come later, fail at once with the reason why this rank does not join.  Takes until
/// they are told, at most kTellMs: the place may not be there yet, and one of this process stays until all ranks have
/// heard, if this waits for that.  For a communicator of one rank only closes the place.
void tellRendezvousPlace(const MeetingPlace& place, int rank, int nRanks, const Status& why, bool waits = true);
/// Waits, at most kTellMs, until all ranks have heard why a rendezvous of this process has failed.
void awaitRendezvousPlace(const CommId& commId);
inline constexpr int64_t kTellMs = 2000;

/// The same as openRendezvousPlace() for a place that was agreed upon beforehand, at addresses of one port.  Waits
/// for the port to become free until the deadline. Errors: InvalidUsage: another process has opened this very place,
/// where all hear of it now, or it has another secret; SystemError: the port is taken by something else.
Status openRendezvousPlaceAt(const std::vector<SocketAddress>& addresses, const MeetingPlace& place, Deadline deadline);

/// Warns, once in a process, that whoever reaches the place may join: its ranks are on several hosts and nobody has set
/// TUTTI_SECRET.
void warnOfOpenPlace(const std::string& where);

/// The id of a place at "host:port" that was agreed upon beforehand; opens it if `serve` (see tuttiGetUniqueIdAt).
/// Errors: InvalidArgument: not of that form; SystemError: unknown host; those of openRendezvousPlaceAt().
Result<tuttiUniqueId> agreedUniqueId(const std::string& address, bool serve);

/// The environment's answer to "who am I and where do we meet": tutti-run, torchrun, PMIx (Open MPI), PMI-1 (MPICH and
/// Intel MPI), Slurm, or alone; the first of them that is there.
///
/// torchrun and Slurm hand out no secret.  There it is made from TUTTI_SECRET where that is set; else ranks of one host
/// get one from rank 0 by their user, and ranks of several have one from the job's identity (its numbers, addresses and
/// user), which another user of the network can guess: it keeps jobs apart but is not secret, which is warned of.
struct LaunchInfo {
  std::string launcher;  // "tutti-run", "torchrun", "pmix", "pmi", "slurm", "none"
  int rank = 0;
  int nRanks = 1;
  tuttiUniqueId id{};  // valid if nRanks > 1
};
/// May open the rendezvous (on rank 0) and, with PMIx and PMI-1, exchange it.  Every rank calls it equally often:
/// each call gives another rendezvous, except under tutti-run, whose place is good for one communicator.
/// Errors name the variable that is wrong.
Result<LaunchInfo> launchInfo(Deadline deadline);

}  // namespace tutti
