#include "transport/verbs/device.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "src/base/log.hpp"

namespace tutti::verbs {
namespace {

int bytesOf(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

std::string lockedLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "no limit of locked memory";
  return cat("a limit of ", limit.rlim_cur, " bytes of locked memory (ulimit -l)");
}

}  // namespace

Result<std::shared_ptr<Device>> Device::open(const Options& options) {
  TUTTI_ASSIGN(const Library* api, library());
  int count = 0;
  ibv_device** const list = api->getDeviceList(&count);
  if (list == nullptr) return invalidUsage("libibverbs lists no devices: ", errnoError(errno, "").message());
  std::string reasons;
  std::shared_ptr<Device> found;
  for (int i = 0; i < count && found == nullptr; ++i) {
    const std::string name = api->getDeviceName(list[i]);
    const auto tell = [&](const std::string& why) { reasons += cat(reasons.empty() ? "" : ", ", name, ": ", why); };
    if (list[i]->transport_type != IBV_TRANSPORT_IB) {
      tell("it has no connections of InfiniBand or RoCE");
      continue;
    }
    ibv_context* const context = api->openDevice(list[i]);
    if (context == nullptr) {
      tell(errnoError(errno, "it cannot be opened").message());
      continue;
    }
    std::shared_ptr<Device> device(new Device(*api, name, context));
    const Status usable = device->usePort(options);
    if (usable.ok()) {
      found = std::move(device);
    } else {
      tell(usable.message());
    }
  }
  api->freeDeviceList(list);
  if (found != nullptr) return found;
  if (count == 0) return invalidUsage("there is no device of InfiniBand or RoCE");
  return invalidUsage("no device can be used (", reasons, ")");
}

Status Device::usePort(const Options& options) {
  if (const int error = api_.queryDevice(context_, &attributes_); error != 0) {
    return errnoError(error, "it does not answer");
  }
  std::string reasons;
  for (int port = 1; port <= attributes_.phys_port_cnt; ++port) {
    const auto tell = [&](const std::string& why) {
      reasons += cat(reasons.empty() ? "" : ", ", "port ", port, " ", why);
    };
    portAttributes_ = {};
    if (!allowsPort(options.adapters, name_, port)) {
      tell("is excluded by TUTTI_IB_HCA");
    } else if (api_.queryPort(context_, static_cast<uint8_t>(port),
                              reinterpret_cast<_compat_ibv_port_attr*>(&portAttributes_)) != 0) {
      tell("does not answer");
    } else if (portAttributes_.state != IBV_PORT_ACTIVE) {
      tell("is not up");
    } else {
      port_ = static_cast<uint8_t>(port);
      break;
    }
  }
  if (port_ == 0) return invalidUsage(reasons.empty() ? "it has no port" : reasons);
  TUTTI_TRY(chooseAddress(options));
  mtu_ = portAttributes_.active_mtu;
  while (options.mtu != 0 && bytesOf(mtu_) > options.mtu) mtu_ = static_cast<ibv_mtu>(mtu_ - 1);
  domain_ = api_.allocPd(context_);
  if (domain_ == nullptr) return errnoError(errno, "it gives no protection domain");
  TUTTI_INFO("verbs", "takes ", name(), ", ", isEthernet() ? "RoCE" : "InfiniBand", ", address ", gid_.text(),
             " (GID index ", gid_.index, options.gidIndex >= 0 ? ", by TUTTI_IB_GID_INDEX" : "", "), MTU ",
             bytesOf(mtu_));
  return {};
}

Status Device::chooseAddress(const Options& options) {
  std::vector<Gid> gids;
  for (int i = 0; i < portAttributes_.gid_tbl_len; ++i) {
    Gid gid{.index = i};
    if (api_.queryGid(context_, port_, i, &gid.raw) != 0) continue;
    if (gid.isZero() && i != options.gidIndex) continue;
    gid.routable = isEthernet() && isRoutable(name_, port_, i);
    gids.push_back(gid);
  }
  if (options.gidIndex >= 0) {
    const auto wanted = std::ranges::find(gids, options.gidIndex, &Gid::index);
    if (wanted == gids.end() || wanted->isZero()) {
      return invalidUsage("TUTTI_IB_GID_INDEX=", options.gidIndex, " is no address of port ", int{port_});
    }
    gid_ = *wanted;
    return {};
  }
  const std::optional<Gid> best = isEthernet() ? chooseGid(gids) : gids.empty() ? std::nullopt : std::optional(gids[0]);
  if (!best) return invalidUsage("port ", int{port_}, " has no address (GID)");
  gid_ = *best;
  return {};
}

Device::~Device() {
  if (domain_ != nullptr) api_.deallocPd(domain_);
  api_.closeDevice(context_);
}

Result<std::unique_ptr<Registered>> Registered::make(std::shared_ptr<Device> device, const Memory& memory,
                                                     bool writable) {
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | (writable ? IBV_ACCESS_REMOTE_WRITE : 0);
  ibv_mr* const region = (device->api().regMr)(device->domain(), memory.base, memory.bytes, access);
  if (region == nullptr) {
    return errnoError(errno,
                      cat(device->name(), " cannot register ", memory.bytes, " bytes of memory, with ", lockedLimit()));
  }
  return std::unique_ptr<Registered>(new Registered(std::move(device), memory, region));
}

}  // namespace tutti::verbs
