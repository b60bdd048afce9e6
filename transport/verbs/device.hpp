// A port of an adapter, opened.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "transport/memory_table.hpp"
#include "transport/services.hpp"
#include "transport/transport.hpp"
#include "transport/verbs/gid.hpp"
#include "transport/verbs/library.hpp"
#include "transport/verbs/options.hpp"
#include "transport/verbs/port_choice.hpp"

namespace tutti::verbs {

class Device;
/// The ports of a rank: rail k is the k-th.
using Rails = std::vector<std::shared_ptr<Device>>;

/// Any thread.
class Device {
 public:
  /// The first `options.rails` ports that TUTTI_IB_HCA allows, that are up, and whose adapters have reliable
  /// connections over InfiniBand or RoCE, in the order of orderOfPorts(); what it took is logged.  Fewer where there
  /// are not so many. Errors: InvalidUsage, a clause that says why there is none.
  static Result<Rails> open(const Options& options);
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
  /// Whether switches may send a message's packets by several ways, so that data is written apart from what tells of
  /// it.
  bool isRoutedAdaptively() const { return adaptive_; }
  const std::string& adapter() const { return name_; }
  /// "mlx5_0:1"
  std::string name() const { return cat(name_, ":", int{port_}); }

 private:
  Device(const Library& api, std::string name, ibv_context* context) : api_(api), name_(name), context_(context) {}
  /// A clause, or nothing: the port may be used.
  Status usePort(uint8_t port, const Options& options);
  Status chooseAddress(const Options& options);
  PortFacts facts(const Options& options) const;
  static std::vector<std::shared_ptr<Device>> openPorts(const Library& api, ibv_device* listed, const Options& options,
                                                        std::string* reasons);

  const Library& api_;
  const std::string name_;  // of the adapter
  ibv_context* const context_;
  ibv_pd* domain_ = nullptr;
  ibv_device_attr attributes_{};
  ibv_port_attr portAttributes_{};
  uint8_t port_ = 0;
  Gid gid_;
  ibv_mtu mtu_ = IBV_MTU_1024;
  bool adaptive_ = false;
};

/// Keys of a piece of memory, by rail.
struct Keys {
  std::array<uint32_t, kMostRails> local{}, remote{};
  bool onDevice = false;  // the host does not touch the memory
};

/// Memory that the adapters of all rails read and write; borrowed.
class Registered : public MemoryRegistration {
 public:
  /// What others may do with the memory.
  enum class Use : uint8_t {
    Slots,  // write it, and a look at it says what has been written: in order
    Lent,   // read it; this adapter writes it, in any order where `relaxed`
  };
  /// access: to memory of a device; else null.  Errors: SystemError: the system's limit of locked memory, or no relaxed
  /// ordering where it has to be; of memory of a device also those of AdapterAccess::dmaBuf().
  static Result<std::unique_ptr<Registered>> make(const Rails& rails, const Memory& memory, Use use,
                                                  int relaxedOrdering, const AdapterAccess* access = nullptr);
  ~Registered() override;

  const Memory& memory() const { return memory_; }
  const Keys& keys() const { return keys_; }

 private:
  Registered(const Rails& rails, const Memory& memory) : rails_(rails), memory_(memory) {}
  Status add(const std::shared_ptr<Device>& device, Use use, int relaxedOrdering, const AdapterAccess* access);
  Result<ibv_mr*> addOfDevice(const Device& device, int rights, const AdapterAccess& access) const;
  const Rails rails_;
  const Memory memory_;
  std::vector<ibv_mr*> regions_;  // by rail
  Keys keys_;
};

/// Whether adapters of all these ports read and write memory of the device straight.  Errors: a clause that says why
/// not.
Status checkDevice(const Rails& rails, const AdapterAccess& access, PciDistance farthest);

/// What users have registered.
using Registry = MemoryTable<Keys>;

}  // namespace tutti::verbs
