// What every rank tells every other at init: who and where it is, and how its transports are reached.
#pragma once

#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "transport/transport.hpp"

namespace tutti {

struct PeerDescriptor {
  PeerInfo info;
  std::string release;  // of its library
  std::string hostName;
  std::string cpus;                                         // that this rank may run on: a bit mask, lowest first
  std::string settings;                                     // what must be set alike on all ranks, as text
  std::vector<std::pair<std::string, Address>> transports;  // those this rank has, by name
  std::string calibration;                                  // rank 0's is used by all
  std::string tuning;                                       // the same
  std::string plans;                                        // see planReport(); with the transports
  std::string device;                                       // names its CUDA device; "" on the host
  std::string trouble;                                      // why it cannot take part; "" if it can
  std::string busId;                                        // of that device
  std::vector<std::string> reached;                         // devices whose memory that one can use; its own not named
  std::string ipcProbe;                                     // see ipcProbe(); on a device
  uint32_t deviceBlocks = 0;                                // of kernels whose blocks wait for each other, at most
  uint32_t computeCapability = 0;                           // of the device, times 10; 0: not told
  uint32_t memoryMBps = 0;                                  // that its memory's bus carries; 0: not told
  std::string ends;                                         // see residentCard(); with the transports
  uint64_t communicator = 0;                                // rank 0's names it to plugins
  std::string machine;                                      // see machineReport(); with the transports
  uint64_t network = 0;                                     // see networkIdentity()
  uint64_t kernel = 0;                                      // see kernelIdentity()
  uint32_t paths = 1;                                       // interfaces that links may go by; with the transports
  uint32_t byAdapters = 0;                                  // 1: see giveAllDeviceMemory(); with the transports
  uint32_t pathsMbps = 0;                                   // what those carry; 0: not known, or not asked
  std::string hostLinks;                                    // what its parent's links between hosts were found to cost

  /// Takes over how the rank is reached, of what it has told with its transports.
  void addWays(PeerDescriptor* told);
};

std::string encodeDescriptor(const PeerDescriptor& descriptor);
/// Errors: RemoteError naming the rank whose descriptor is not understood; InvalidUsage: both releases, where it runs
/// another one.
Result<PeerDescriptor> decodeDescriptor(int rank, const std::string& bytes);

/// Errors: InvalidUsage: a rank runs another release than `rank`, whose library this is.
Status compareReleases(const std::vector<PeerDescriptor>& descriptors, int rank);

/// Same kernel (boot id), same network namespace, and same TUTTI_HOSTID if set.
uint64_t hostIdentity();
/// Without TUTTI_HOSTID: what ranks with the same one send each other passes no wire.
uint64_t networkIdentity();
/// Of a machine: hosts that are containers or namespaces of one share its cores.  Different TUTTI_HOSTID: other
/// machines.
uint64_t kernelIdentity();
/// Random, made once per process: tells one process from another even when pids are reused or namespaces differ.
uint64_t processIdentity();
/// CPUs that this thread may run on, as in PeerDescriptor::cpus.
std::string allowedCpus();

/// CPUs that the ranks of a machine may run on, counted once.
int cpusOfMachine(const std::vector<PeerDescriptor>& descriptors, uint64_t kernel);

/// Whether the ranks of a machine, with so many threads each, outnumber the CPUs that they may run on.
bool oversubscribed(const std::vector<PeerDescriptor>& descriptors, uint64_t kernel, int threadsPerRank = 1);

/// The processes of all ranks on the host of `rank`, including its own.  Each process appears once.
std::vector<int> processesOfHost(const std::vector<PeerDescriptor>& descriptors, int rank);

/// Nodes of the ranks, numbered from 0 in order of their first rank.
std::vector<int> nodesOf(const std::vector<PeerDescriptor>& descriptors);

/// Whether they are of one process and on one CUDA device: each can use all memory that the other can.
bool shareDevice(const PeerDescriptor& a, const PeerDescriptor& b);

}  // namespace tutti
