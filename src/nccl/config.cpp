#include "src/nccl/config.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "src/nccl/environment.hpp"
#include "src/nccl/errors.hpp"

namespace tutti::nccl {
namespace {

constexpr int kMostChannels = 64;

/// A field, the version that brought it, and what it may be.
struct Field {
  const char* name;
  int Config::*member;
  unsigned since;
  int least, most;
};
constexpr Field kFields[] = {
    {"blocking", &Config::blocking, NCCL_VERSION(2, 14, 0), 0, 1},
    {"cgaClusterSize", &Config::cgaClusterSize, NCCL_VERSION(2, 17, 0), 0, INT_MAX},
    {"minCTAs", &Config::minCTAs, NCCL_VERSION(2, 17, 0), 1, INT_MAX},
    {"maxCTAs", &Config::maxCTAs, NCCL_VERSION(2, 17, 0), 1, INT_MAX},
    {"splitShare", &Config::splitShare, NCCL_VERSION(2, 18, 0), 0, 1},
    {"trafficClass", &Config::trafficClass, NCCL_VERSION(2, 25, 0), INT_MIN, INT_MAX},
    {"collnetEnable", &Config::collnetEnable, NCCL_VERSION(2, 27, 0), 0, 1},
    {"CTAPolicy", &Config::CTAPolicy, NCCL_VERSION(2, 27, 0), 0, 3},
    {"shrinkShare", &Config::shrinkShare, NCCL_VERSION(2, 27, 0), 0, 1},
    {"nvlsCTAs", &Config::nvlsCTAs, NCCL_VERSION(2, 27, 0), 1, INT_MAX},
    {"nChannelsPerNetPeer", &Config::nChannelsPerNetPeer, NCCL_VERSION(2, 28, 0), 1, kMostChannels},
    {"nvlinkCentricSched", &Config::nvlinkCentricSched, NCCL_VERSION(2, 28, 0), 0, 1},
    {"graphUsageMode", &Config::graphUsageMode, NCCL_VERSION(2, 29, 0), 0, 2},
    {"numRmaCtx", &Config::numRmaCtx, NCCL_VERSION(2, 29, 0), 0, INT_MAX},
    {"maxP2pPeers", &Config::maxP2pPeers, NCCL_VERSION(2, 30, 0), 1, INT_MAX},
    {"graphStreamOrdering", &Config::graphStreamOrdering, NCCL_VERSION(2, 30, 5), 0, 1},
    {"launchOrderImplicit", &Config::launchOrderImplicit, NCCL_VERSION(2, 31, 0), INT_MIN, INT_MAX},
    {"numRmaSig", &Config::numRmaSig, NCCL_VERSION(2, 31, 0), INT_MIN, INT_MAX},
    {"rmaEagerInit", &Config::rmaEagerInit, NCCL_VERSION(2, 31, 0), INT_MIN, INT_MAX},
    {"hostCftMode", &Config::hostCftMode, NCCL_VERSION(2, 31, 0), INT_MIN, INT_MAX},
    {"nvlsHostMode", &Config::nvlsHostMode, NCCL_VERSION(2, 32, 0), INT_MIN, INT_MAX},
};

Config undefinedConfig() {
  Config config{};
  for (const Field& field : kFields) config.*field.member = NCCL_CONFIG_UNDEF_INT;
  return config;
}

/// "" or what is wrong.  A field that the caller's version did not have lies in what was padding then, and may hold
/// anything even where the size would cover it.
std::string readConfig(const ncclConfig_t& theirs, Config* config) {
  if (theirs.magic != kMagic) return "config is not initialised: start it with NCCL_CONFIG_INITIALIZER";
  if (theirs.size < offsetof(Config, blocking)) return "config.size is too small to be an ncclConfig_t";
  std::memcpy(config, &theirs, std::min(theirs.size, sizeof *config));
  for (const Field& field : kFields) {
    int& value = config->*field.member;
    if (config->version < field.since) value = NCCL_CONFIG_UNDEF_INT;
    if (value == NCCL_CONFIG_UNDEF_INT || (value >= field.least && value <= field.most)) continue;
    return format("config.%s = %d is not a value of that field", field.name, value);
  }
  if (config->version < NCCL_VERSION(2, 17, 0)) config->netName = nullptr;
  if (config->version < NCCL_VERSION(2, 27, 0)) config->commName = nullptr;
  return "";
}

int asChannels(int ctas) {
  return ctas == NCCL_CONFIG_UNDEF_INT ? TUTTI_CONFIG_UNDEF_INT : std::min(ctas, kMostChannels);
}

// What a config leaves open is NCCL's default and not the parent's, as tutti has it.
void defineAll(tuttiConfig_t* out) {
  if (out->blocking == TUTTI_CONFIG_UNDEF_INT) out->blocking = 1;
  if (out->minChannels == TUTTI_CONFIG_UNDEF_INT) out->minChannels = 1;
  if (out->maxChannels == TUTTI_CONFIG_UNDEF_INT) out->maxChannels = kMostChannels;
  if (out->commName == nullptr) out->commName = "";
}

bool isOn(const std::optional<bool>& overriding, int given) { return overriding.value_or(given == 1); }

void fill(const Config& config, const Environment& env, tuttiConfig_t* out) {
  out->blocking = env.blocking ? static_cast<int>(*env.blocking) : config.blocking;
  out->minChannels = asChannels(env.minCtas.value_or(config.minCTAs));
  out->maxChannels = asChannels(env.maxCtas.value_or(config.maxCTAs));
  out->commName = config.commName;
  if (config.netName != nullptr || !env.netName.empty()) out->netName = "tcp";  // the one that there is
}

}  // namespace

bool onHost() {
  static const bool host = [] {
    const char* device = std::getenv("TUTTI_DEVICE");
    return device != nullptr && std::string_view(device) == "host";
  }();
  return host;
}

int timeoutMs() {
  const char* set = std::getenv("TUTTI_TIMEOUT_MS");
  return set != nullptr && *set != '\0' ? TUTTI_CONFIG_UNDEF_INT : 1'800'000;
}

ncclResult_t translateConfig(const char* function, const ncclConfig_t* config, tuttiConfig_t* out, Shares* shares) {
  *out = TUTTI_CONFIG_INITIALIZER;
  out->device = onHost() ? TUTTI_DEVICE_HOST : TUTTI_DEVICE_CUDA;
  out->timeoutMs = timeoutMs();
  const Environment& env = environment();
  if (!env.error.empty()) return fail(ncclInvalidUsage, function, env.error);
  Config read = undefinedConfig();
  if (config != nullptr) {
    if (const std::string why = readConfig(*config, &read); !why.empty()) {
      return fail(ncclInvalidArgument, function, why);
    }
  }
  if (read.netName != nullptr && env.netName.empty() && networkTransport(read.netName).empty()) {
    return fail(
        ncclInvalidArgument, function,
        format("config.netName = '%s': Tutti has no such network transport; it has Socket and IB", read.netName));
  }
  fill(read, env, out);
  *shares = {isOn(env.splitShare, read.splitShare), isOn(env.shrinkShare, read.shrinkShare)};
  if (out->minChannels != TUTTI_CONFIG_UNDEF_INT && out->maxChannels != TUTTI_CONFIG_UNDEF_INT &&
      out->minChannels > out->maxChannels) {
    return fail(ncclInvalidArgument, function,
                format("minCTAs = %d is more than maxCTAs = %d", out->minChannels, out->maxChannels));
  }
  return ncclSuccess;
}

ncclResult_t translateChildConfig(const char* function, const ncclConfig_t* config, bool share, tuttiConfig_t* out,
                                  Shares* shares) {
  if (config == nullptr) {
    *out = TUTTI_CONFIG_INITIALIZER;
  } else {
    const ncclResult_t result = translateConfig(function, config, out, shares);
    if (result != ncclSuccess) return result;
    defineAll(out);
    out->device = TUTTI_DEVICE_AUTO;          // the parent's
    out->timeoutMs = TUTTI_CONFIG_UNDEF_INT;  // and its patience
  }
  out->splitShare = static_cast<int>(share);
  return ncclSuccess;
}

}  // namespace tutti::nccl
