// The handles of one kind that there are: what has been destroyed, or is something else, is refused instead of used.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "src/base/forked.hpp"

namespace tutti {

/// Any thread, also of a forked child.  Never destroyed.  An address that is in use again is the new handle.
template <class T>
class HandleTable {
 public:
  T* add(std::shared_ptr<T> object) {
    T* const handle = object.get();
    const std::lock_guard lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  /// It lives at least as long as what is returned; null: there is none.
  std::shared_ptr<T> find(T* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  /// Likewise, and nobody finds it from now on.
  std::shared_ptr<T> remove(T* handle) {
    const std::lock_guard lock(mutex_);
    auto node = objects_.extract(handle);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  mutable ProcessMutex mutex_;
  std::unordered_map<T*, std::shared_ptr<T>> objects_;
};

}  // namespace tutti
