// The communicators of this process, by what NCCL lets a program do with them and tutti does not.
//
// One thread may own several ranks of a communicator and destroy them one after another.  tutti's destroy and finalize
// end when all ranks have come there, so here the ranks of one process that do so are put aside until the last of them
// comes; then all of them do it, each on a thread.
#pragma once

#include <string>
#include <vector>

#include "src/nccl/abi.hpp"
#include "src/nccl/config.hpp"

namespace tutti::nccl {

/// A rank of this process is about to join the communicator `key` (any text that all its ranks agree on and others do
/// not have).  Every rank announces itself before the first of them can have joined, as joining takes them all.
void joining(const std::string& key);
/// It has a handle, which need not be up yet; or it will not have one.
void joined(const std::string& key, ncclComm_t comm, const char* function, Shares shares);
void notJoined(const std::string& key);

/// A key for a child that ranks of `parent` are about to make: the same on all that make it.
std::string childKey(ncclComm_t parent, const std::string& what);

/// What the children of comm share with it.
Shares sharesOf(ncclComm_t comm);

/// Whether this rank has revoked comm.  Cheap in a process that has revoked none.
bool isRevoked(ncclComm_t comm);

/// A number for the communicator `key`.
unsigned long long hashOf(const std::string& key);
/// The same number on all ranks of comm: the commId of the log.  0: comm is none.
unsigned long long communicatorHash(ncclComm_t comm);

/// Log that comm has come up, if it has and that was not logged.  Cheap when there is nothing to log.
void announce(ncclComm_t comm);

/// The calling thread's groups.  A communicator that is made in one has a handle at once, and loses it again (the
/// caller's variable becomes NULL) if the group fails.
void groupStarted();
void groupEnded();
void joinsInGroup(ncclComm_t* place);
/// A call in the group was refused before tutti saw it: with it nothing of the group is started.
void spoilGroup(ncclResult_t error);
/// What the outermost group, which is about to end, was spoiled with; ncclSuccess if it was not, or is not outermost.
ncclResult_t spoiled();

/// The number of the next call on comm, for the log.
unsigned long nextCall(ncclComm_t comm);

/// As the entry points of these names, without the log.
ncclResult_t finalizeComm(ncclComm_t comm);
ncclResult_t revokeComm(ncclComm_t comm, int flags);
ncclResult_t destroyComm(ncclComm_t comm);
ncclResult_t abortComm(ncclComm_t comm);

}  // namespace tutti::nccl
