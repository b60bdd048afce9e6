#include "src/comm/settings.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "src/base/config.hpp"
#include "src/base/nearest.hpp"
#include "src/comm/variables.hpp"
#include "src/device/cuda/device.hpp"

namespace tutti {
namespace {

constexpr std::array<std::string_view, 4> kWaitModes = {"auto", "spin", "yield", "block"};  // by tuttiWaitMode_t

Result<CommSettings> fromEnvironment() {
  CommSettings s;
  TUTTI_TRY(checkVariables());
  TUTTI_ASSIGN(const int64_t reproducible, configInteger("TUTTI_REPRODUCIBLE"));
  TUTTI_ASSIGN(const int64_t timeoutMs, configInteger("TUTTI_TIMEOUT_MS"));
  TUTTI_ASSIGN(const int64_t nChannels, configInteger("TUTTI_NCHANNELS"));
  TUTTI_ASSIGN(s.waitMode, parseWaitMode(configText("TUTTI_WAIT")));
  TUTTI_ASSIGN(s.wire, parseWireFormat(configText("TUTTI_WIRE")));
  s.reproducible = reproducible != 0;
  s.timeoutMs = static_cast<int>(std::min<int64_t>(timeoutMs, INT_MAX));
  s.nChannels = static_cast<int>(nChannels);
  s.transports = configText("TUTTI_TRANSPORTS");
  return s;
}

/// A field of config that is set and within its range overrides `value`.
Status take(const char* field, int given, int least, int most, int* value) {
  if (given == TUTTI_CONFIG_UNDEF_INT) return {};
  if (given < least || given > most) {
    return invalidArgument(ErrorCode::ConfigField, "config.", field, " = ", given, " is outside ", least, "..", most,
                           "; leave it as TUTTI_CONFIG_INITIALIZER set it, or pass a number of that range");
  }
  *value = given;
  return {};
}

Status takeFlag(const char* field, int given, bool* value) {
  int number = *value ? 1 : 0;
  TUTTI_TRY(take(field, given, 0, 1, &number));
  *value = number != 0;
  return {};
}

/// Where ranks compute that ask for `device`: a CUDA device's number, or -1 for the host.
Result<int> resolveDevice(int device) {
  const std::string text = configText("TUTTI_DEVICE");
  TUTTI_TRY(checkDeviceName(text));
  const bool asked = device == TUTTI_DEVICE_CUDA;
  if (!asked && (device == TUTTI_DEVICE_HOST || text != "cuda")) return -1;
  Result<cuda::Device> current = cuda::currentDevice();
  if (current.ok()) return *current;
  // Only of what the user has set for sure: config.device may be a library's doing, a default another's.
  const char* const set = std::getenv("TUTTI_DEVICE");
  const bool byVariable = !asked && set != nullptr && text == set;
  return Status(
      tuttiUnhandledCudaError, ErrorCode::NoCudaDriver,
      cat(byVariable ? "TUTTI_DEVICE=cuda" : "ranks are to compute on CUDA devices", ", but ", current.status().text(),
          "; make nvidia-smi work here", byVariable ? ", or set TUTTI_DEVICE=host" : ""));
}

Status checkNetwork(const char* name, TransportTable table) {
  const TransportEntry* const entry = findTransport(name, table);
  if (entry != nullptr && entry->isNetwork()) return {};
  return invalidArgument(ErrorCode::ConfigField, "config.netName = '", name,
                         "' is not a network transport of this build; there are: ", namesOf(table, true));
}

// Reads no more than the caller's header knew of.
Result<tuttiConfig_t> readable(const tuttiConfig_t& config) {
  if (config.magic != TUTTI_CONFIG_MAGIC) {
    return invalidArgument(ErrorCode::ConfigInvalid,
                           "config is not initialised: start it with TUTTI_CONFIG_INITIALIZER");
  }
  if (config.size < offsetof(tuttiConfig_t, blocking)) {
    return invalidArgument(ErrorCode::ConfigInvalid, "config.size = ", config.size,
                           " is too small to be a tuttiConfig_t; start it with TUTTI_CONFIG_INITIALIZER");
  }
  tuttiConfig_t copy = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&copy, &config, std::min(config.size, sizeof copy));
  return copy;
}

}  // namespace

Result<CommSettings> resolveSettings(const tuttiConfig_t* config, const CommSettings* parent) {
  CommSettings s;
  int device = TUTTI_DEVICE_AUTO;
  if (parent != nullptr) {
    s = *parent;
  } else {
    TUTTI_ASSIGN(s, fromEnvironment());
  }
  if (config != nullptr) {
    TUTTI_ASSIGN(const tuttiConfig_t c, readable(*config));
    TUTTI_TRY(takeFlag("blocking", c.blocking, &s.blocking));
    TUTTI_TRY(takeFlag("reproducible", c.reproducible, &s.reproducible));
    TUTTI_TRY(takeFlag("splitShare", c.splitShare, &s.splitShare));
    TUTTI_TRY(take("timeoutMs", c.timeoutMs, 0, INT_MAX, &s.timeoutMs));
    TUTTI_TRY(take("nChannels", c.nChannels, 0, 64, &s.nChannels));
    TUTTI_TRY(take("minChannels", c.minChannels, 1, 64, &s.minChannels));
    TUTTI_TRY(take("maxChannels", c.maxChannels, s.minChannels, 64, &s.maxChannels));
    int waitMode = s.waitMode;
    TUTTI_TRY(take("waitMode", c.waitMode, TUTTI_WAIT_AUTO, TUTTI_WAIT_BLOCK, &waitMode));
    s.waitMode = static_cast<tuttiWaitMode_t>(waitMode);
    int wire = static_cast<int>(s.wire);
    TUTTI_TRY(take("wire", c.wire, TUTTI_WIRE_FULL, TUTTI_WIRE_INT8, &wire));
    s.wire = static_cast<WireFormat>(wire);
    TUTTI_TRY(take("device", c.device, TUTTI_DEVICE_AUTO, TUTTI_DEVICE_CUDA, &device));
    if (c.transports != nullptr) s.transports = c.transports;
    if (c.netName != nullptr) TUTTI_TRY(checkNetwork(c.netName, s.table));
    if (c.commName != nullptr) s.name = c.commName;
  }
  if (parent == nullptr || device != TUTTI_DEVICE_AUTO) {
    TUTTI_ASSIGN(s.cudaDevice, resolveDevice(device));
  }
  TUTTI_TRY(checkTransportList(s.transports, s.table));
  return s;
}

Result<tuttiWaitMode_t> parseWaitMode(const std::string& name) {
  const auto* const found = std::find(kWaitModes.begin(), kWaitModes.end(), name);
  if (found != kWaitModes.end()) return static_cast<tuttiWaitMode_t>(found - kWaitModes.begin());
  return invalidUsage(ErrorCode::VariableValue, "TUTTI_WAIT='", name, "' is unknown",
                      didYouMean(name, {kWaitModes.begin(), kWaitModes.end()}), "; set auto, spin, yield or block");
}

std::string_view waitModeName(tuttiWaitMode_t mode) { return kWaitModes[static_cast<size_t>(mode)]; }

Status checkDeviceName(const std::string& name) {
  if (name == "auto" || name == "host" || name == "cuda") return {};
  return invalidUsage(ErrorCode::VariableValue, "TUTTI_DEVICE='", name, "' is unknown",
                      didYouMean(name, {"auto", "host", "cuda"}), "; set auto, host or cuda");
}

Result<int> defaultDevice() { return resolveDevice(TUTTI_DEVICE_AUTO); }

bool transportAllowed(const std::string& list, std::string_view name) {
  if (list.empty()) return true;
  const bool exclude = list.front() == '^';
  bool named = false;
  for (const std::string& part : split(exclude ? std::string_view(list).substr(1) : std::string_view(list), ',')) {
    named = named || part == name;
  }
  return named != exclude;
}

bool isAllowed(const TransportEntry& entry, const CommSettings& settings) {
  if (configText("TUTTI_ENCRYPT") == "1" && !entry.canEncrypt()) return false;
  const bool listNames = !settings.transports.empty() && settings.transports.front() != '^';
  return entry.links.empty() || ((listNames || !entry.onlyNamed) && transportAllowed(settings.transports, entry.name));
}

Status checkEncryption(const CommSettings& settings) {
  if (configText("TUTTI_ENCRYPT") != "1") return {};
  const bool listNames = !settings.transports.empty() && settings.transports.front() != '^';
  for (const TransportEntry* entry : settings.table) {
    const bool plugin =
        entry->name == "ncclnet" && !configText("TUTTI_NET_PLUGIN").empty() && configText("TUTTI_NET_PLUGIN") != "none";
    const bool asked = (listNames || plugin) && transportAllowed(settings.transports, entry->name);
    if (entry->canEncrypt() || !asked) continue;
    return invalidUsage(ErrorCode::NotEncrypted, "TUTTI_ENCRYPT=1, but ", entry->name, ", which ",
                        listNames ? "TUTTI_TRANSPORTS (or config.transports)" : "TUTTI_NET_PLUGIN",
                        " asks for, does not encrypt what it sends between hosts; tcp does");
  }
  return {};
}

Status checkTransportList(const std::string& list, TransportTable table) {
  if (list.empty()) return {};
  const bool exclude = list.front() == '^';
  std::vector<std::string> names;
  for (const TransportEntry* entry : table) names.emplace_back(entry->name);
  for (std::string part : split(list, ',')) {
    if (!part.empty() && part.front() == '^') part.erase(0, 1);
    if (findTransport(part, table) != nullptr || (exclude && isTransportElsewhere(part))) continue;
    return invalidUsage(ErrorCode::TransportUnknown, "TUTTI_TRANSPORTS (or config.transports) = '", list,
                        "': there is no transport '", part, "'", didYouMean(part, names), "; known are ",
                        namesOf(table));
  }
  return {};
}

Status checkWireOnDevices(WireFormat wire) {
  if (wire == WireFormat::Full) return {};
  return invalidUsage(ErrorCode::NotHonoured, "TUTTI_WIRE=", wireFormatName(wire),
                      " (or config.wire) is for ranks on the host alone, not on CUDA devices; set full");
}

}  // namespace tutti
