// What users have registered with one transport, and what it knows each by.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "transport/transport.hpp"

namespace tutti {

/// Any thread.
template <class Keys>
class MemoryTable : public std::enable_shared_from_this<MemoryTable<Keys>> {
 public:
  /// `memory` is found until what this gives is destroyed, and with it `kept`.
  std::unique_ptr<MemoryRegistration> add(const Memory& memory, const Keys& keys,
                                          std::unique_ptr<MemoryRegistration> kept) {
    return std::make_unique<Row>(this->shared_from_this(), Entry{memory, keys}, std::move(kept));
  }
  /// Of a registration that holds all of it.
  std::optional<Keys> find(const void* data, size_t bytes) const {
    const std::lock_guard lock(mutex_);
    auto next = all_.upper_bound(static_cast<const std::byte*>(data));
    while (next != all_.begin()) {
      const Entry& entry = (--next)->second;
      if (entry.memory.holds(data, bytes)) return entry.keys;
    }
    return std::nullopt;
  }

 private:
  struct Entry {
    Memory memory;
    Keys keys;
  };
  using All = std::multimap<const std::byte*, Entry>;
  class Row : public MemoryRegistration {
   public:
    Row(std::shared_ptr<MemoryTable> table, const Entry& entry, std::unique_ptr<MemoryRegistration> kept)
        : table_(std::move(table)), kept_(std::move(kept)) {
      const std::lock_guard lock(table_->mutex_);
      at_ = table_->all_.emplace(entry.memory.base, entry);
    }
    ~Row() override {
      const std::lock_guard lock(table_->mutex_);
      table_->all_.erase(at_);
    }

   private:
    const std::shared_ptr<MemoryTable> table_;
    const std::unique_ptr<MemoryRegistration> kept_;
    typename All::iterator at_;
  };

  mutable std::mutex mutex_;
  All all_;  // by base
};

}  // namespace tutti
