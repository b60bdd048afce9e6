// Entry points, settings and devices.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

Settings parse(const std::string& text) {
  Settings s;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t equals = item.find('=');
    const std::string key = item.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : item.substr(equals + 1);
    if (key == "devices") s.devices = std::atoi(value.c_str());
    if (key == "first") s.first = std::atoi(value.c_str());
    if (key == "queues") s.queues = std::atoi(value.c_str());
    if (key == "slices") s.slices = value;
    if (key == "topology") s.topology = value;
    if (key == "delay") s.delayUs = std::atoi(value.c_str());
    if (key == "ipc") s.ipc = value != "0";
    if (key == "vmm") s.vmm = value != "0";
    if (key == "rdma") s.rdma = value != "0";
    if (key == "dmabuf") s.dmabuf = value != "0";
    if (key == "flush") s.flush = value != "0";
    if (key == "pools") s.pools = value != "0";
    if (key == "torn") s.torn = value != "0";
    if (key == "sync") s.sync = value != "0";
    if (key == "stuck") s.stuckMs = std::atoi(value.c_str());
    if (key == "memops") s.memops = value != "0";
    if (key == "unified") s.unified = value != "0";
    if (key == "occupied") s.occupied = std::atoi(value.c_str());
    char name[64] = "";
    if (key == "fail" && std::sscanf(value.c_str(), "%63[^:]:%d:%d", name, &s.failCall, &s.failWith) == 3) {
      s.failName = name;
    }
  }
  return s;
}

/// With the lock, or before anybody else is there.
void apply(Machine* m, const Settings& settings) {
  m->settings = settings;
  m->topology = settings.topology.empty() ? Topology{} : readTopology(settings.topology);
  if (!settings.topology.empty()) m->settings.devices = static_cast<int>(m->topology.devices.size());
}

struct Entry {
  const char* name;
  int version;
  void* function;
};
const Entry kEntries[] = {
#define TUTTI_FAKE_ENTRY(name, version, parameters) {#name, version, reinterpret_cast<void*>(&name)},
    TUTTI_CUDA_FUNCTIONS(TUTTI_FAKE_ENTRY)
#undef TUTTI_FAKE_ENTRY
};

}  // namespace

Machine& machine() {
  static Machine& m = *[] {
    auto* made = new Machine;
    if (const char* text = std::getenv("TUTTI_TEST_FAKE_CUDA")) apply(made, parse(text));
    return made;
  }();
  return m;
}

void complain(const std::string& text) {
  std::fprintf(stderr, "[fake cuda] %s\n", text.c_str());
  const std::lock_guard lock(machine().mutex);
  machine().complaints.push_back(text);
}

int firstDevice() {
  const std::lock_guard lock(machine().mutex);
  return machine().settings.first;
}

bool isDevice(int ordinal) {
  const std::lock_guard lock(machine().mutex);
  return ordinal >= 0 && ordinal < std::min(machine().settings.devices, kMostDevices);
}

bool reaches(int device, int peer) {
  const std::lock_guard lock(machine().mutex);
  const Topology& topology = machine().topology;
  return topology.devices.empty() || topology.reaches(device, peer);
}

Error cuInit(unsigned flags) {
  TUTTI_FAKE_ENTER(cuInit);
  return flags == 0 ? kSuccess : kErrorInvalidValue;
}
Error cuDriverGetVersion(int* version) {
  TUTTI_FAKE_ENTER(cuDriverGetVersion);
  *version = 13000;
  return kSuccess;
}

Error cuGetErrorName(Error error, const char** text) {
  static const std::map<Error, const char*> names = {
      {kSuccess, "CUDA_SUCCESS"},
      {kErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {kErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {kErrorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {kErrorInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {kErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {kErrorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {kErrorContextDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
      {kErrorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {kErrorNotFound, "CUDA_ERROR_NOT_FOUND"},
      {kErrorNotReady, "CUDA_ERROR_NOT_READY"},
      {kErrorCooperativeTooLarge, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"},
      {kErrorNotSupported, "CUDA_ERROR_NOT_SUPPORTED"},
      {kErrorCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
      {kErrorCaptureInvalidated, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {kErrorCaptureIsolation, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
      {kErrorCaptureImplicit, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
      {kErrorCapturedEvent, "CUDA_ERROR_CAPTURED_EVENT"},
  };
  const auto found = names.find(error);
  *text = found == names.end() ? nullptr : found->second;
  return found == names.end() ? kErrorInvalidValue : kSuccess;
}
Error cuGetErrorString(Error, const char** text) {
  *text = "said by the test driver";
  return kSuccess;
}

Error cuDeviceGetCount(int* count) {
  TUTTI_FAKE_ENTER(cuDeviceGetCount);
  const std::lock_guard lock(machine().mutex);
  *count = machine().settings.devices;
  return kSuccess;
}
Error cuDeviceGet(Device* device, int ordinal) {
  TUTTI_FAKE_ENTER(cuDeviceGet);
  *device = ordinal;
  return isDevice(ordinal) ? kSuccess : kErrorInvalidDevice;
}
Error cuDeviceGetName(char* name, int bytes, Device device) {
  TUTTI_FAKE_ENTER(cuDeviceGetName);
  if (!isDevice(device)) return kErrorInvalidDevice;
  std::snprintf(name, static_cast<size_t>(bytes), "test device %d", device);
  return kSuccess;
}
Error cuDeviceGetUuid(Uuid* uuid, Device device) {
  TUTTI_FAKE_ENTER(cuDeviceGetUuid);
  if (!isDevice(device)) return kErrorInvalidDevice;
  std::memset(uuid, 0, sizeof *uuid);
  const std::lock_guard lock(machine().mutex);
  std::snprintf(uuid->bytes, sizeof uuid->bytes, "test-%d", machine().settings.first + device);
  return kSuccess;
}
Error cuDeviceGetPCIBusId(char* text, int bytes, Device device) {
  TUTTI_FAKE_ENTER(cuDeviceGetPCIBusId);
  if (!isDevice(device)) return kErrorInvalidDevice;
  const std::lock_guard lock(machine().mutex);
  const Machine& m = machine();
  char made[16];
  std::snprintf(made, sizeof made, "0000:%02x:00.0", static_cast<unsigned>(m.settings.first + device + 1) % 256);
  const bool given = static_cast<size_t>(device) < m.topology.devices.size();
  std::snprintf(text, static_cast<size_t>(bytes), "%s",
                given ? m.topology.devices[static_cast<size_t>(device)].busId.c_str() : made);
  return kSuccess;
}
Error cuDeviceGetAttribute(int* value, int attribute, Device device) {
  TUTTI_FAKE_ENTER(cuDeviceGetAttribute);
  if (!isDevice(device)) return kErrorInvalidDevice;
  static const std::map<int, int> values = {{kAttributeMultiprocessors, kMultiprocessors},
                                            {kAttributeMemoryClockKHz, 3201000},  // of an H200
                                            {kAttributeMemoryBusBits, 6144},
                                            {kAttributeMajor, 9},
                                            {kAttributeMinor, 0},
                                            {kAttributeRdmaFlushes, kFlushByHost},
                                            {kAttributeCooperativeLaunch, 1}};
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  const std::lock_guard lock(machine().mutex);
  const Settings& settings = machine().settings;
  if (attribute == kAttributeUnifiedAddressing) *value = settings.unified ? 1 : 0;
  if (attribute == kAttributeMemoryPools) *value = settings.pools ? 1 : 0;
  if (attribute == kAttributeRdma) *value = settings.rdma ? 1 : 0;
  if (attribute == kAttributeDmaBuf) *value = settings.dmabuf ? 1 : 0;
  if (attribute == kAttributeRdmaOrdering) *value = settings.flush ? 0 : kOrderedForOwner;
  if (attribute == kAttributeRdmaOfPages) *value = settings.vmm && settings.rdma ? 1 : 0;
  if (attribute == kAttributeVirtualMemory || attribute == kAttributeExportsDescriptors) *value = settings.vmm ? 1 : 0;
  return kSuccess;
}
Error cuDeviceCanAccessPeer(int* can, Device device, Device peer) {
  TUTTI_FAKE_ENTER(cuDeviceCanAccessPeer);
  if (!isDevice(device) || !isDevice(peer)) return kErrorInvalidDevice;
  *can = device != peer && reaches(device, peer);
  return kSuccess;
}

}  // namespace tutti::fake

#define TUTTI_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

/// The only symbol of a driver that Tutti looks up by name.  Of a function's versions it gives the newest that is no
/// newer than asked for.
TUTTI_FAKE_EXPORT int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t, void*) {
  const tutti::fake::Entry* found = nullptr;
  for (const tutti::fake::Entry& entry : tutti::fake::kEntries) {
    if (std::strcmp(entry.name, name) != 0 || entry.version > version) continue;
    if (found == nullptr || entry.version > found->version) found = &entry;
  }
  *function = found != nullptr ? found->function : nullptr;
  return found != nullptr ? tutti::fake::kSuccess : tutti::fake::kErrorNotFound;
}

// ---- For tests, which find these by dlsym.

/// Starts a new test: settings as in Settings, counts and complaints forgotten.
TUTTI_FAKE_EXPORT void fakeCudaReset(const char* settings) {
  tutti::fake::Machine& m = tutti::fake::machine();
  const std::lock_guard lock(m.mutex);
  tutti::fake::apply(&m, tutti::fake::parse(settings));
  m.calls.clear();
  m.journal.clear();
  m.complaints.clear();
}
/// Another number of blocks that a kernel of somebody else's holds; 0: it has ended.
TUTTI_FAKE_EXPORT void fakeCudaOccupy(int blocks) {
  tutti::fake::Machine& m = tutti::fake::machine();
  const std::lock_guard lock(m.mutex);
  m.settings.occupied = blocks;
}
/// Calls of a driver function since then.
TUTTI_FAKE_EXPORT int fakeCudaCalls(const char* name) {
  tutti::fake::Machine& m = tutti::fake::machine();
  const std::lock_guard lock(m.mutex);
  return m.calls[name];
}
/// The calls since then in order, one a line, with how often if several in a row; valid until the thread's next call.
TUTTI_FAKE_EXPORT const char* fakeCudaJournal() {
  static thread_local std::string text;
  text.clear();
  tutti::fake::Machine& m = tutti::fake::machine();
  const std::lock_guard lock(m.mutex);
  for (const auto& [name, times] : m.journal) text += name + (times > 1 ? " " + std::to_string(times) : "") + "\n";
  return text.c_str();
}
/// Mistakes since then, and what has not been freed, one a line; valid until the thread's next call.
TUTTI_FAKE_EXPORT const char* fakeCudaComplaints() {
  static thread_local std::string text;
  text = tutti::fake::memoryLeaks() + tutti::fake::streamLeaks();
  tutti::fake::Machine& m = tutti::fake::machine();
  const std::lock_guard lock(m.mutex);
  for (const std::string& complaint : m.complaints) text += complaint + "\n";
  return text.c_str();
}
