#include "transport/verbs/device.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

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

// Every port is opened that may be used, as it says only then what it is.
Result<Rails> Device::open(const Options& options) {
  TUTTI_ASSIGN(const Library* api, library());
  int count = 0;
  ibv_device** const list = api->getDeviceList(&count);
  if (list == nullptr)
    return invalidUsage(ErrorCode::TransportAbsent,
                        "libibverbs lists no devices: ", errnoError(errno, ErrorCode::AdapterRefused, "").message());
  std::string reasons;
  Rails all;
  for (int i = 0; i < count; ++i) {
    for (auto& port : openPorts(*api, list[i], options, &reasons)) all.push_back(std::move(port));
  }
  api->freeDeviceList(list);
  std::vector<PortFacts> facts;
  for (const auto& device : all) facts.push_back(device->facts(options));
  Rails found;
  for (const size_t port : orderOfPorts(facts, nodesOfThread(), options.localRank, options.rails)) {
    found.push_back(all[port]);
  }
  if (found.size() > options.rails) found.resize(options.rails);
  for (const auto& device : found) {
    TUTTI_INFO("verbs", "takes ", device->name(), ", ", device->isEthernet() ? "RoCE" : "InfiniBand", ", address ",
               device->gid_.text(), " (GID index ", device->gid_.index,
               options.gidIndex >= 0 ? ", by TUTTI_IB_GID_INDEX" : "", "), MTU ", bytesOf(device->mtu_),
               device->adaptive_ ? ", adaptive routing" : "", "; local rank ", options.localRank, ", ", all.size(),
               all.size() == 1 ? " port may be used" : " ports may be used");
  }
  if (!found.empty()) return found;
  if (count == 0) return invalidUsage(ErrorCode::TransportAbsent, "there is no device of InfiniBand or RoCE");
  return invalidUsage(ErrorCode::TransportAbsent, "no device can be used (", reasons, ")");
}

Rails Device::openPorts(const Library& api, ibv_device* listed, const Options& options, std::string* reasons) {
  const std::string name = api.getDeviceName(listed);
  Rails found;
  std::string why;
  const auto tell = [&why](const std::string& clause) { why += (why.empty() ? "" : ", ") + clause; };
  if (listed->transport_type != IBV_TRANSPORT_IB) tell("it has no connections of InfiniBand or RoCE");
  int ports = why.empty() ? 1 : 0;  // as long as it has not said how many
  for (int port = 1; port <= ports; ++port) {
    ibv_context* const context = api.openDevice(listed);
    if (context == nullptr) {
      tell(errnoError(errno, ErrorCode::AdapterRefused, "it cannot be opened").message());
      break;
    }
    std::shared_ptr<Device> device(new Device(api, name, context));
    const Status usable = device->usePort(static_cast<uint8_t>(port), options);
    ports = device->attributes_.phys_port_cnt;
    if (usable.ok()) {
      found.push_back(std::move(device));
    } else {
      tell(usable.message());
    }
  }
  if (found.empty()) *reasons += cat(reasons->empty() ? "" : ", ", name, ": ", why.empty() ? "it has no port" : why);
  return found;
}

PortFacts Device::facts(const Options& options) const {
  return {.listed = placeInList(options.adapters, name_, port_),
          .numaNode = nodeOfAdapter(name_),
          .fabric = isEthernet() ? networkOf(gid_) : gid_.raw.global.subnet_prefix,
          .speed = uint64_t{portAttributes_.active_speed} << 8 | portAttributes_.active_width};
}

Status Device::usePort(uint8_t port, const Options& options) {
  if (const int error = api_.queryDevice(context_, &attributes_); error != 0) {
    return errnoError(error, ErrorCode::AdapterRefused, "it does not answer");
  }
  if (port > attributes_.phys_port_cnt) return invalidUsage(ErrorCode::AdapterChoice, "it has no port");
  port_ = port;
  const std::string which = cat("port ", int{port});
  if (!allowsPort(options.adapters, name_, port))
    return invalidUsage(ErrorCode::AdapterChoice, which, " is excluded by TUTTI_IB_HCA");
  if (api_.queryPort(context_, port, reinterpret_cast<_compat_ibv_port_attr*>(&portAttributes_)) != 0) {
    return systemError(ErrorCode::AdapterRefused, which, " does not answer");
  }
  if (portAttributes_.state != IBV_PORT_ACTIVE) return invalidUsage(ErrorCode::AdapterChoice, which, " is not up");
  if (options.partition >= portAttributes_.pkey_tbl_len) {
    return invalidUsage(ErrorCode::AdapterChoice, "TUTTI_IB_PKEY=", options.partition, " is beyond the ",
                        portAttributes_.pkey_tbl_len, " partitions of ", which);
  }
  TUTTI_TRY(chooseAddress(options));
  mtu_ = portAttributes_.active_mtu;
  while (options.mtu != 0 && bytesOf(mtu_) > options.mtu) mtu_ = static_cast<ibv_mtu>(mtu_ - 1);
  adaptive_ = options.adaptiveRouting < 0 ? !isEthernet() : options.adaptiveRouting == 1;
  domain_ = api_.allocPd(context_);
  return domain_ != nullptr ? Status() : errnoError(errno, ErrorCode::AdapterRefused, "it gives no protection domain");
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
      return invalidUsage(ErrorCode::AdapterChoice, "TUTTI_IB_GID_INDEX=", options.gidIndex, " is no address of port ",
                          int{port_});
    }
    gid_ = *wanted;
    return {};
  }
  TUTTI_ASSIGN(const GidFilter filter,
               GidFilter::parse(options.addressFamily, options.addressRange, options.roceVersion));
  const std::optional<Gid> best = isEthernet()   ? chooseGid(gids, filter)
                                  : gids.empty() ? std::nullopt
                                                 : std::optional(gids[0]);
  if (!best && !gids.empty())
    return invalidUsage(ErrorCode::AdapterChoice, "port ", int{port_}, " has no address (GID) of ", filter.text());
  if (!best) return invalidUsage(ErrorCode::AdapterChoice, "port ", int{port_}, " has no address (GID)");
  gid_ = *best;
  return {};
}

Device::~Device() {
  if (domain_ != nullptr) api_.deallocPd(domain_);
  api_.closeDevice(context_);
}

Result<std::unique_ptr<Registered>> Registered::make(const Rails& rails, const Memory& memory, Use use,
                                                     int relaxedOrdering, const AdapterAccess* access) {
  std::unique_ptr<Registered> made(new Registered(rails, memory));
  made->keys_.onDevice = access != nullptr;
  for (const auto& device : rails) TUTTI_TRY(made->add(device, use, relaxedOrdering, access));
  return made;
}

// A completion covers what came before it whatever the order, but a look at memory does not.
Status Registered::add(const std::shared_ptr<Device>& device, Use use, int relaxedOrdering,
                       const AdapterAccess* access) {
  const Library& api = device->api();
  const bool slots = use == Use::Slots;
  unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | (slots ? IBV_ACCESS_REMOTE_WRITE : 0);
  const bool relaxed = !slots && relaxedOrdering != 0;
  if (relaxed && relaxedOrdering == 1 && api.regMrIova2 == nullptr) {
    return invalidUsage(ErrorCode::NotHonoured,
                        "TUTTI_IB_PCI_RELAXED_ORDERING=1: this libibverbs has no ibv_reg_mr_iova2; 2 does without");
  }
  const bool iova2 = relaxed && api.regMrIova2 != nullptr;
  if (iova2) rights |= IBV_ACCESS_RELAXED_ORDERING;
  ibv_mr* region = nullptr;
  if (access != nullptr) {
    TUTTI_ASSIGN(region, addOfDevice(*device, static_cast<int>(rights), *access));
  } else if (iova2) {
    region =
        api.regMrIova2(device->domain(), memory_.base, memory_.bytes, reinterpret_cast<uint64_t>(memory_.base), rights);
  } else {
    region = (api.regMr)(device->domain(), memory_.base, memory_.bytes, static_cast<int>(rights));
  }
  if (region == nullptr) {
    return errnoError(
        ErrorCode::CannotRegister, errno,
        cat(device->name(), " cannot register ", memory_.bytes, " bytes of memory, with ", lockedLimit()));
  }
  keys_.local[regions_.size()] = region->lkey;
  keys_.remote[regions_.size()] = region->rkey;
  regions_.push_back(region);
  return {};
}

// By DMA-BUF first, which needs no module of the kernel's.  Gives a region.
Result<ibv_mr*> Registered::addOfDevice(const Device& device, int rights, const AdapterAccess& access) const {
  const Library& api = device.api();
  const auto address = reinterpret_cast<uint64_t>(memory_.base);
  std::string why = "this libibverbs has no ibv_reg_dmabuf_mr";
  if (api.regDmaBuf != nullptr) {
    const Result<AdapterAccess::DmaBuf> buffer = access.dmaBuf(memory_);
    if (!buffer.ok()) why = buffer.status().message();
    if (buffer.ok()) {
      ibv_mr* const region =
          api.regDmaBuf(device.domain(), buffer->offset, memory_.bytes, address, buffer->fd.get(), rights);
      if (region != nullptr) return region;
      why = cat("ibv_reg_dmabuf_mr: ", strerror(errno));
    }
  }
  if (access.byAddress()) {
    ibv_mr* const region =
        (api.regMr)(device.domain(), memory_.base, memory_.bytes, rights & ~IBV_ACCESS_OPTIONAL_RANGE);
    if (region != nullptr) return region;
    why += cat("; ibv_reg_mr: ", strerror(errno));
  }
  return systemError(ErrorCode::CannotRegister, device.name(), " cannot register ", memory_.bytes,
                     " bytes of a device's memory (", why, ")");
}

Status checkDevice(const Rails& rails, const AdapterAccess& access, PciDistance farthest) {
  TUTTI_TRY(access.check({}));
  for (const auto& rail : rails) {
    if (rail->api().regDmaBuf == nullptr && !access.byAddress())
      return invalidUsage(ErrorCode::GpuDirect,
                          "libibverbs is older than rdma-core 34, and the kernel has no module nvidia_peermem");
    const std::string folder = cat("/sys/class/infiniband/", rail->adapter(), "/device");
    TUTTI_TRY(checkDistance(rail->adapter(), folder, access.busId(), farthest));
  }
  return {};
}

Registered::~Registered() {
  for (size_t rail = 0; rail < regions_.size(); ++rail) rails_[rail]->api().deregMr(regions_[rail]);
}

}  // namespace tutti::verbs
