// A port of an adapter, opened.
#pragma once

#include <memory>
#include <string>

#include "transport/memory_table.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/gid.hpp"
#include "transport/verbs/library.hpp"
#include "transport/verbs/options.hpp"

namespace tutti::verbs {

/// Any thread.
class Device {
 public:
  /// The first port that TUTTI_IB_HCA allows, that is up, and whose adapter has reliable connections over InfiniBand or
  /// RoCE; what it took is logged.  Errors: InvalidUsage, a clause that says why there is none.
  static Result<std::shared_ptr<Device>> open(const Options& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Library& api() const { return api_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  const ibv_device_attr& attributes() const { return attributes_; }
  const ibv_port_attr& portAttributes() const { return portAttributes_; }
  uint8_t port() const { return port_; }
  /// Its address, and by which index of the port's table.
  const Gid& gid() const { return gid_; }
  bool isEthernet() const { return portAttributes_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  ibv_mtu mtu() const { return mtu_; }
  /// "mlx5_0:1"
  std::string name() const { return cat(name_, ":", int{port_}); }

 private:
  Device(const Library& api, std::string name, ibv_context* context) : api_(api), name_(name), context_(context) {}
  /// A clause, or nothing: this device may be used.
  Status usePort(const Options& options);
  Status chooseAddress(const Options& options);

  const Library& api_;
  const std::string name_;
  ibv_context* const context_;
  ibv_pd* domain_ = nullptr;
  ibv_device_attr attributes_{};
  ibv_port_attr portAttributes_{};
  uint8_t port_ = 0;
  Gid gid_;
  ibv_mtu mtu_ = IBV_MTU_1024;
};

/// Memory that an adapter reads and writes; borrowed.
class Registered : public MemoryRegistration {
 public:
  /// Peers may read it, and write it where `writable`.  Errors: SystemError: the system's limit of locked memory.
  static Result<std::unique_ptr<Registered>> make(std::shared_ptr<Device> device, const Memory& memory, bool writable);
  ~Registered() override { device_->api().deregMr(region_); }

  const Memory& memory() const { return memory_; }
  uint32_t localKey() const { return region_->lkey; }
  uint32_t remoteKey() const { return region_->rkey; }

 private:
  Registered(std::shared_ptr<Device> device, const Memory& memory, ibv_mr* region)
      : device_(std::move(device)), memory_(memory), region_(region) {}
  const std::shared_ptr<Device> device_;
  const Memory memory_;
  ibv_mr* const region_;
};

/// Of memory that users have registered.
struct Keys {
  uint32_t local = 0, remote = 0;
};
using Registry = MemoryTable<Keys>;

}  // namespace tutti::verbs
