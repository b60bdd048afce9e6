#include "transport/ncclnet/plugin.hpp"

#include <dlfcn.h>

#include <cstdarg>
#include <map>
#include <mutex>
#include <utility>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/plugin.hpp"

namespace tutti::ncclnet {
namespace {

constexpr int kMostDevices = 1024;  // to be asked and listed
constexpr size_t kMostSaid = 300;
thread_local std::string saidLast;  // since the last complaint

[[gnu::format(printf, 5, 6)]] void hear(int level, unsigned long, const char*, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const std::string text = pluginText(format, arguments);
  va_end(arguments);
  if (level == kPluginWarns) {
    if (saidLast.size() < kMostSaid) saidLast += cat(saidLast.empty() ? "" : "; ", text);
    TUTTI_INFO("ncclnet", text);
  } else {
    TUTTI_DEBUG("ncclnet", text);
  }
}

/// Of the calls that are not about one comm, which come from one thread at a time.
std::mutex& calls() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

/// Versions before 11 have one state for the process.
Code initialise(Net& net, const void* table) {
  if (net.version() >= 11) return net.init(hear);
  static auto* const before = new std::map<const void*, Code>;
  const auto [known, first] = before->try_emplace(table, kSuccess);
  if (first) known->second = net.init(hear);
  return known->second;
}

std::string symbols() {
  std::string all;
  for (const Version& version : versions()) all += cat(all.empty() ? "" : ", ", version.symbol);
  return all;
}

}  // namespace

Result<Options> Options::fromConfig() {
  Options options{.plugins = configText("TUTTI_NET_PLUGIN"), .device = configText("TUTTI_NET_PLUGIN_DEVICE")};
  TUTTI_ASSIGN(const int64_t slots, configInteger("TUTTI_SLOTS"));
  TUTTI_ASSIGN(const int64_t slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  options.slots = static_cast<size_t>(slots);
  options.slotBytes = static_cast<size_t>(slotBytes);
  TUTTI_ASSIGN(const size_t level, configChoice("TUTTI_NET_GDR_LEVEL"));
  options.farthest = static_cast<PciDistance>(level);
  return options;
}

std::string Plugin::complaint(const char* call, Code code) {
  const std::string words = std::exchange(saidLast, "");
  return cat(call, " gave ", nameOf(code), words.empty() ? "" : " (", words, words.empty() ? "" : ")");
}

Result<std::shared_ptr<Plugin>> Plugin::open(const Options& options, size_t mostBytes) {
  if (options.plugins.empty()) return invalidUsage(ErrorCode::TransportAbsent, "TUTTI_NET_PLUGIN names no plugin");
  std::string reasons;
  for (const std::string_view part : split(options.plugins, ',')) {
    const std::string name(part);
    if (name.empty()) continue;
    auto opened = name == "none" ? invalidUsage(ErrorCode::TransportAbsent, "no plugin is wanted")
                                 : load(name, options, mostBytes);
    if (opened.ok()) return opened;
    reasons += cat(reasons.empty() ? "" : "; ", name, ": ", opened.status().message());
    if (name == "none") break;
  }
  return invalidUsage(ErrorCode::NetPluginLoad, "TUTTI_NET_PLUGIN: ", reasons);
}

Result<std::shared_ptr<Plugin>> Plugin::load(const std::string& name, const Options& options, size_t mostBytes) {
  TUTTI_ASSIGN(void* const library, loadPlugin("net", name));
  for (const Version& version : versions()) {
    const void* const table = dlsym(library, version.symbol);
    if (table == nullptr) continue;
    return use(version.adapt(table), table, options, mostBytes);
  }
  return invalidUsage(ErrorCode::NetPluginLoad, "is loaded, but exports none of ", symbols(),
                      "; take a release of it that does");
}

Result<std::shared_ptr<Plugin>> Plugin::use(std::unique_ptr<Net> net, const void* table, const Options& options,
                                            size_t mostBytes) {
  std::shared_ptr<Plugin> plugin(new Plugin(std::move(net), options.closeMs));
  TUTTI_TRY(plugin->begin(table));
  TUTTI_TRY(plugin->choose(options.device, mostBytes));
  return plugin;
}

Status Plugin::begin(const void* table) {
  const std::lock_guard lock(calls());
  saidLast.clear();
  const Code code = initialise(*net_, table);
  begun_ = code == kSuccess;
  if (begun_) return {};
  return invalidUsage(ErrorCode::NetPluginLoad, net_->name(), " v", net_->version(), ": ", complaint("init", code));
}

Plugin::~Plugin() {
  if (!begun_) return;
  const std::lock_guard lock(calls());
  (void)net_->finalize();
}

Status Plugin::choose(const std::string& wanted, size_t mostBytes) {
  const std::lock_guard lock(calls());
  const std::string who = cat(net_->name(), " v", net_->version());
  int n = 0;
  if (const Code code = net_->devices(&n); code != kSuccess)
    return invalidUsage(ErrorCode::NetPluginLoad, who, ": ", complaint("devices", code));
  if (n <= 0) return invalidUsage(ErrorCode::NetPluginLoad, who, " finds no device");
  if (n > kMostDevices)
    return invalidUsage(ErrorCode::NetPluginLoad, who, " says that it has ", n, " devices; no machine has that many");
  std::string seen;
  for (int device = 0; device < n; ++device) {
    DeviceProperties properties;
    if (const Code code = net_->getProperties(device, &properties); code != kSuccess)
      return invalidUsage(ErrorCode::NetPluginLoad, who, ": ", complaint("getProperties", code));
    seen += cat(seen.empty() ? "" : ", ", device, " ", properties.name);
    if (!wanted.empty() && wanted != properties.name && wanted != std::to_string(device)) continue;
    const bool takesHost = (properties.memory & kHostMemory) != 0 && properties.deviceType == kHostDevice;
    if (!takesHost) seen += " (not for memory of the host)";
    if (takesHost && properties.mostBytes < mostBytes)
      seen += cat(" (for messages of ", properties.mostBytes, " bytes; TUTTI_SLOT_BYTES needs ", mostBytes, ")");
    if (!takesHost || properties.mostBytes < mostBytes) continue;
    device_ = device;
    properties_ = properties;
    description_ = cat("plugin ", who, ", device ", properties.name);
    return {};
  }
  const std::string allowed = wanted.empty() ? "" : cat(" that TUTTI_NET_PLUGIN_DEVICE=", wanted, " allows");
  return invalidUsage(ErrorCode::NetPluginLoad, who, " has no device", allowed, " for host memory; it has ", seen);
}

// A plugin that takes such memory by its addresses has a way of its own to register it.
Status Plugin::takes(const AdapterAccess& access, PciDistance farthest) const {
  const int memory = properties_.memory;
  if ((memory & (kCudaMemory | kByDmaBuf)) == 0)
    return invalidUsage(ErrorCode::GpuDirect, "the ", description_, " says that it takes memory of the host alone");
  TUTTI_TRY(access.check({.registering = (memory & kCudaMemory) == 0, .flush = !net_->hasFlush()}));
  return checkDistance(properties_.name, properties_.pciPath, access.busId(), farthest);
}

}  // namespace tutti::ncclnet
