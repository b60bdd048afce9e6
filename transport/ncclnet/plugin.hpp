// A plugin that is loaded, and the device of it that one rank uses.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "src/base/status.hpp"
#include "transport/ncclnet/net.hpp"
#include "transport/pci_distance.hpp"
#include "transport/services.hpp"

namespace tutti::ncclnet {

/// By variable: TUTTI_NET_PLUGIN and so on.
struct Options {
  std::string plugins;
  std::string device;
  size_t slots = 4;
  size_t slotBytes = 128 << 10;
  int closeMs = 500;                        // that all endpoints together may take to end in good order
  PciDistance farthest = PciDistance::Pxb;  // of a device whose memory adapters read and write

  /// Errors: InvalidUsage naming the variable.
  static Result<Options> fromConfig();
};

/// net(): as Net.  Everything else: any thread.
class Plugin {
 public:
  /// The first of `options.plugins` that has a device, and a device that sends messages of `mostBytes`.
  /// Errors: InvalidUsage: a sentence that says of each what was looked for, and what to do.
  static Result<std::shared_ptr<Plugin>> open(const Options& options, size_t mostBytes);
  /// The same of a plugin that is there.  table: tells the process's plugins apart.
  static Result<std::shared_ptr<Plugin>> use(std::unique_ptr<Net> net, const void* table, const Options& options,
                                             size_t mostBytes);
  ~Plugin();

  Net& net() const { return *net_; }
  int device() const { return device_; }
  const DeviceProperties& properties() const { return properties_; }
  /// Whether its device reads and writes memory of the CUDA device.  Errors: InvalidUsage, a clause that says why not.
  Status takes(const AdapterAccess& access, PciDistance farthest) const;
  /// The same on ranks that may be joined.
  std::string name() const { return net_->name(); }
  /// "plugin AWS Libfabric v11, device efa0".
  const std::string& describe() const { return description_; }
  /// What is left of Options::closeMs; endpoints subtract what they take.  By the thread that uses them.
  std::atomic<int64_t>& closeNs() { return closeNs_; }
  /// "isend gave ncclSystemError (what the plugin said last to this thread)".
  static std::string complaint(const char* call, Code code);

 private:
  Plugin(std::unique_ptr<Net> net, int closeMs) : net_(std::move(net)), closeNs_(int64_t{closeMs} * 1'000'000) {}
  static Result<std::shared_ptr<Plugin>> load(const std::string& name, const Options& options, size_t mostBytes);
  Status begin(const void* table);
  Status choose(const std::string& wanted, size_t mostBytes);

  const std::unique_ptr<Net> net_;
  std::atomic<int64_t> closeNs_;
  bool begun_ = false;
  int device_ = 0;
  DeviceProperties properties_;
  std::string description_;
};

}  // namespace tutti::ncclnet
