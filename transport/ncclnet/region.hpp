// Memory that requests may use, which each connection registers with its own comms when it first does.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "transport/memory_table.hpp"
#include "transport/services.hpp"

namespace tutti::ncclnet {

/// Any thread.
class Region {
 public:
  /// Who has registered it.
  class User {
   public:
    virtual ~User() = default;
    virtual void forget(const Region& region) = 0;
  };
  /// buffer: of memory of a device that is registered by DMA-BUF.
  Region(const Memory& memory, std::optional<AdapterAccess::DmaBuf> buffer)
      : memory_(memory), buffer_(std::move(buffer)) {}

  const Memory& memory() const { return memory_; }
  bool onDevice() const { return memory_.kind == MemoryKind::Device; }
  const std::optional<AdapterAccess::DmaBuf>& buffer() const { return buffer_; }
  void usedBy(std::weak_ptr<User> user) {
    const std::lock_guard lock(mutex_);
    users_.push_back(std::move(user));
  }
  /// The memory may go: no request uses it.
  void end() {
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<User>& user : users_)
      if (const auto living = user.lock()) living->forget(*this);
    users_.clear();
  }

 private:
  const Memory memory_;
  const std::optional<AdapterAccess::DmaBuf> buffer_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<User>> users_;
};

/// What a rank on a device has registered.
using Registry = MemoryTable<std::shared_ptr<Region>>;

}  // namespace tutti::ncclnet
