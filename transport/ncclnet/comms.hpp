// Two comms of a plugin to one peer, one for each direction.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "transport/ncclnet/plugin.hpp"

namespace tutti::ncclnet {

/// What an end tells the other of where it listens; the plugin's, which alone can judge it.
using Handle = std::array<std::byte, kHandleBytes>;

/// One thread at a time.
class Comms {
 public:
  Comms(int peer, std::shared_ptr<Plugin> plugin) : peer_(peer), plugin_(std::move(plugin)), net_(plugin_->net()) {}
  ~Comms() { close(); }
  Comms(const Comms&) = delete;
  Comms& operator=(const Comms&) = delete;

  /// Errors: SystemError.
  Result<Handle> listen();
  /// Goes on connecting and accepting; true when both are done.  theirs: the same in every call; the plugin keeps its
  /// state there.  Errors: RemoteError.
  Result<bool> connect(Handle* theirs);
  /// What was registered with them is not any more.
  void close();

  Net& net() const { return net_; }
  Plugin& plugin() const { return *plugin_; }
  void* sending() const { return send_; }
  void* receiving() const { return receive_; }
  /// "rank 3 over ncclnet (plugin AWS Libfabric v11, device efa0)".
  std::string who() const;
  /// For calls whose failure does no harm any more.
  void tell(const char* call, Code code) const;

 private:
  const int peer_;
  const std::shared_ptr<Plugin> plugin_;
  Net& net_;
  void* listen_ = nullptr;
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

}  // namespace tutti::ncclnet
