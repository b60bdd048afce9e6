// Objects that ranks of one process find by number.
//
// Tables are of the process, because ranks of it are different communicators' objects and tell each other only numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace tutti::cuda {

/// T has a field `id`, which is the table's to set.  Keeps nothing alive.  Any thread.
template <class T>
class ProcessTable {
 public:
  /// The one of the process; never destroyed, because threads may outlive static destructors.
  static ProcessTable& get() {
    static ProcessTable& table = *new ProcessTable;
    return table;
  }

  /// Numbers it; no number is used twice in a process.
  void add(const std::shared_ptr<T>& object) {
    const std::lock_guard lock(mutex_);
    std::erase_if(byId_, [](const auto& entry) { return entry.second.expired(); });
    object->id = next_++;
    byId_[object->id] = object;
  }

  /// One that somebody in this process still keeps, or null.
  std::shared_ptr<T> find(uint64_t id) {
    const std::lock_guard lock(mutex_);
    const auto found = byId_.find(id);
    return found == byId_.end() ? nullptr : found->second.lock();
  }

 private:
  ProcessTable() = default;
  std::mutex mutex_;
  uint64_t next_ = 1;
  std::map<uint64_t, std::weak_ptr<T>> byId_;
};

}  // namespace tutti::cuda
