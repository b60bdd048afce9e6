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

#include "src/base/config.hpp"

namespace tutti {
namespace {

// Fixed-width little-endian numbers and length-prefixed texts.  All ranks run the same version (a version number
// leads).
constexpr uint64_t kCardVersion = 0x7474'6361'7264'0007;
constexpr uint64_t kMostTransports = 16;
constexpr uint64_t kMostReached = 256;

void put(std::string* out, uint64_t value) {
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out->append(bytes, 8);
}
void put(std::string* out, const std::string& text) {
  put(out, uint64_t{text.size()});
  *out += text;
}

class Reader {
 public:
  explicit Reader(const std::string& bytes) : bytes_(bytes) {}
  uint64_t number() {
    uint64_t value = 0;
    if (bytes_.size() - at_ < 8) {
      ok_ = false;
      return 0;
    }
    for (size_t i = 0; i < 8; ++i) value |= uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += 8;
    return value;
  }
  std::string text() {
    const uint64_t size = number();
    if (!ok_ || size > bytes_.size() - at_) {
      ok_ = false;
      return {};
    }
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  bool finished() const { return ok_ && at_ == bytes_.size(); }
  bool ok() const { return ok_; }

 private:
  const std::string& bytes_;
  size_t at_ = 0;
  bool ok_ = true;
};

uint64_t hashText(const std::string& text, uint64_t hash = 0xcbf29ce484222325) {  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

std::string encodeDescriptor(const PeerDescriptor& descriptor) {
  std::string out;
  put(&out, kCardVersion);
  put(&out, descriptor.info.hostId);
  put(&out, descriptor.info.processId);
  put(&out, static_cast<uint64_t>(descriptor.info.pid));
  put(&out, uint64_t{descriptor.info.uid});
  put(&out, descriptor.hostName);
  put(&out, descriptor.cpus);
  put(&out, descriptor.settings);
  put(&out, descriptor.calibration);
  put(&out, descriptor.tuning);
  put(&out, descriptor.plans);
  put(&out, descriptor.device);
  put(&out, descriptor.trouble);
  put(&out, descriptor.busId);
  put(&out, uint64_t{descriptor.reached.size()});
  for (const std::string& device : descriptor.reached) put(&out, device);
  put(&out, descriptor.ipcProbe);
  put(&out, uint64_t{descriptor.deviceBlocks});
  put(&out, uint64_t{descriptor.computeCapability});
  put(&out, uint64_t{descriptor.memoryMBps});
  put(&out, descriptor.ends);
  put(&out, descriptor.machine);
  put(&out, uint64_t{descriptor.transports.size()});
  for (const auto& [name, address] : descriptor.transports) {
    put(&out, name);
    put(&out, address);
  }
  return out;
}

Result<PeerDescriptor> decodeDescriptor(int rank, const std::string& bytes) {
  Reader in(bytes);
  if (in.number() != kCardVersion) {
    return remoteError("rank ", rank, " runs another version of Tutti; use one version on all ranks");
  }
  PeerDescriptor descriptor;
  descriptor.info.rank = rank;
  descriptor.info.hostId = in.number();
  descriptor.info.processId = in.number();
  descriptor.info.pid = static_cast<int32_t>(in.number());
  descriptor.info.uid = static_cast<uint32_t>(in.number());
  descriptor.hostName = in.text();
  descriptor.cpus = in.text();
  descriptor.settings = in.text();
  descriptor.calibration = in.text();
  descriptor.tuning = in.text();
  descriptor.plans = in.text();
  descriptor.device = in.text();
  descriptor.trouble = in.text();
  descriptor.busId = in.text();
  const uint64_t nReached = in.number();
  for (uint64_t i = 0; in.ok() && i < nReached && i < kMostReached; ++i) descriptor.reached.push_back(in.text());
  descriptor.ipcProbe = in.text();
  descriptor.deviceBlocks = static_cast<uint32_t>(in.number());
  descriptor.computeCapability = static_cast<uint32_t>(in.number());
  descriptor.memoryMBps = static_cast<uint32_t>(in.number());
  descriptor.ends = in.text();
  descriptor.machine = in.text();
  const uint64_t nTransports = in.number();
  for (uint64_t i = 0; in.ok() && i < nTransports && i < kMostTransports; ++i) {
    std::string name = in.text();
    descriptor.transports.emplace_back(std::move(name), in.text());
  }
  if (!in.finished()) return remoteError("rank ", rank, " sent a malformed descriptor");
  return descriptor;
}

uint64_t hostIdentity() {
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  struct stat ns {};
  if (stat("/proc/self/ns/net", &ns) == 0) text += cat("/", ns.st_ino);
  return hashText(text + "/" + configText("TUTTI_HOSTID"));
}

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

int cpusOfHost(const std::vector<PeerDescriptor>& descriptors, uint64_t hostId) {
  std::string all;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (descriptor.info.hostId != hostId) continue;
    all.resize(std::max(all.size(), descriptor.cpus.size()));
    for (size_t i = 0; i < descriptor.cpus.size(); ++i) all[i] = static_cast<char>(all[i] | descriptor.cpus[i]);
  }
  int cpus = 0;
  for (const char byte : all) cpus += std::popcount(static_cast<unsigned char>(byte));
  return std::max(cpus, 1);
}

bool oversubscribed(const std::vector<PeerDescriptor>& descriptors, uint64_t hostId) {
  int ranks = 0;
  for (const PeerDescriptor& descriptor : descriptors) ranks += descriptor.info.hostId == hostId ? 1 : 0;
  return ranks > cpusOfHost(descriptors, hostId);
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
