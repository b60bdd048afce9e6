#include "src/comm/peer_descriptor.hpp"

#include <sched.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <set>

#include "src/base/config.hpp"
#include "src/base/release.hpp"
#include "src/control/wire.hpp"

namespace tutti {
namespace {

// Leads every descriptor, and the release follows: all ranks run the same one.
constexpr uint64_t kCardVersion = 0x7474'7265'6c73'0001;
constexpr uint64_t kCardName = kCardVersion >> 16;  // since the release follows

struct Encoding {
  Writer out;
  void operator()(uint64_t number) { out.u64(number); }
  void operator()(const std::string& text) { out.text(text); }
};
struct Decoding {
  Reader in;
  template <class Number>
  void operator()(Number& number) {
    number = static_cast<Number>(in.u64());
  }
  void operator()(std::string& text) { text = in.text(SIZE_MAX); }
};

/// All fields but the lists, for writing and for reading, so that neither forgets what the other knows.
template <class Field, class Descriptor>
void eachField(Descriptor& descriptor, Field& field) {
  field(descriptor.info.hostId);
  field(descriptor.info.processId);
  field(descriptor.info.pid);
  field(descriptor.info.uid);
  field(descriptor.hostName);
  field(descriptor.cpus);
  field(descriptor.settings);
  field(descriptor.calibration);
  field(descriptor.tuning);
  field(descriptor.plans);
  field(descriptor.device);
  field(descriptor.trouble);
  field(descriptor.busId);
  field(descriptor.ipcProbe);
  field(descriptor.deviceBlocks);
  field(descriptor.computeCapability);
  field(descriptor.memoryMBps);
  field(descriptor.ends);
  field(descriptor.machine);
  field(descriptor.communicator);
  field(descriptor.network);
  field(descriptor.kernel);
  field(descriptor.hostLinks);
  field(descriptor.paths);
  field(descriptor.pathsMbps);
  field(descriptor.byAdapters);
}

Status otherRelease(int rank, std::string theirs) {
  constexpr size_t kMostShown = 80;
  if (theirs.size() > kMostShown || theirs.empty()) theirs = "an unknown one";
  return invalidUsage(ErrorCode::ReleasesDiffer, "rank ", rank, " runs another release of Tutti: ", theirs,
                      ", and this rank ", releaseText(), "; install one on all ranks");
}

}  // namespace

void PeerDescriptor::addWays(PeerDescriptor* told) {
  transports = std::move(told->transports);
  ends = std::move(told->ends);
  paths = told->paths;
  pathsMbps = told->pathsMbps;
  byAdapters = told->byAdapters;
}

std::string encodeDescriptor(const PeerDescriptor& descriptor) {
  Encoding field;
  field(kCardVersion);
  field(descriptor.release);
  eachField(descriptor, field);
  field.out.u32(static_cast<uint32_t>(descriptor.reached.size()));
  for (const std::string& device : descriptor.reached) field(device);
  field.out.u32(static_cast<uint32_t>(descriptor.transports.size()));
  for (const auto& [name, address] : descriptor.transports) {
    field(name);
    field(address);
  }
  return field.out.take();
}

Status compareReleases(const std::vector<PeerDescriptor>& descriptors, int rank) {
  const std::string& mine = descriptors[static_cast<size_t>(rank)].release;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (descriptor.release != mine) return otherRelease(descriptor.info.rank, descriptor.release);
  }
  return {};
}

Result<PeerDescriptor> decodeDescriptor(int rank, const std::string& bytes) {
  Decoding field{Reader(bytes)};
  const uint64_t version = field.in.u64();
  PeerDescriptor descriptor;
  descriptor.info.rank = rank;
  if (version >> 16 == kCardName) field(descriptor.release);
  if (version != kCardVersion) return otherRelease(rank, descriptor.release);
  eachField(descriptor, field);
  descriptor.reached.resize(field.in.count(4));
  for (std::string& device : descriptor.reached) field(device);
  descriptor.transports.resize(field.in.count(8));
  for (auto& [name, address] : descriptor.transports) {
    field(name);
    field(address);
  }
  if (!field.in.done()) return remoteError(ErrorCode::Malformed, "rank ", rank, " sent a malformed descriptor");
  return descriptor;
}

namespace {

std::string kernelName() {
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  return text;
}

std::string networkName() {
  std::string text = kernelName();
  struct stat ns {};
  if (stat("/proc/self/ns/net", &ns) == 0) text += cat("/", ns.st_ino);
  return text;
}

}  // namespace

uint64_t hostIdentity() { return hashText(networkName() + "/" + configText("TUTTI_HOSTID")); }

uint64_t networkIdentity() { return hashText(networkName()); }

uint64_t kernelIdentity() { return hashText(kernelName() + "/" + configText("TUTTI_HOSTID")); }

uint64_t processIdentity() {
  // A constant of the process, not state: made at first use, and again in a forked child.
  static uint64_t identity = 0;
  static pid_t owner = 0;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (owner != getpid()) {
    if (getrandom(&identity, sizeof identity, 0) != sizeof identity) identity = hashText(cat(getpid(), "/", &identity));
    owner = getpid();
  }
  return identity;
}

std::string allowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) CPU_SET(0, &set);
  std::string mask(sizeof set, '\0');
  std::memcpy(mask.data(), &set, sizeof set);
  mask.erase(mask.find_last_not_of('\0') + 1);
  return mask;
}

int cpusOfMachine(const std::vector<PeerDescriptor>& descriptors, uint64_t kernel) {
  std::string all;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (descriptor.kernel != kernel) continue;
    all.resize(std::max(all.size(), descriptor.cpus.size()));
    for (size_t i = 0; i < descriptor.cpus.size(); ++i) all[i] = static_cast<char>(all[i] | descriptor.cpus[i]);
  }
  int cpus = 0;
  for (const char byte : all) cpus += std::popcount(static_cast<unsigned char>(byte));
  return std::max(cpus, 1);
}

bool oversubscribed(const std::vector<PeerDescriptor>& descriptors, uint64_t kernel, int threadsPerRank) {
  const auto ranks = static_cast<int>(std::ranges::count(descriptors, kernel, &PeerDescriptor::kernel));
  return ranks * threadsPerRank > cpusOfMachine(descriptors, kernel);
}

std::vector<int> processesOfHost(const std::vector<PeerDescriptor>& descriptors, int rank) {
  const uint64_t hostId = descriptors[static_cast<size_t>(rank)].info.hostId;
  std::set<int> processes;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (descriptor.info.hostId == hostId) processes.insert(static_cast<int>(descriptor.info.pid));
  }
  return {processes.begin(), processes.end()};
}

std::vector<int> nodesOf(const std::vector<PeerDescriptor>& descriptors) {
  std::map<uint64_t, int> numbers;
  std::vector<int> nodes;
  for (const PeerDescriptor& descriptor : descriptors) {
    const int next = static_cast<int>(numbers.size());
    nodes.push_back(numbers.emplace(descriptor.info.hostId, next).first->second);
  }
  return nodes;
}

bool shareDevice(const PeerDescriptor& a, const PeerDescriptor& b) {
  return !a.device.empty() && a.device == b.device && a.info.processId == b.info.processId;
}

}  // namespace tutti
