// A queue that keeps its memory.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tutti {

/// As std::deque, but allocates only to hold more than ever before.
template <class T>
class Fifo {
 public:
  bool empty() const { return first_ == all_.size(); }
  size_t size() const { return all_.size() - first_; }
  T& front() { return all_[first_]; }
  const T& front() const { return all_[first_]; }
  T* begin() { return all_.data() + first_; }
  T* end() { return all_.data() + all_.size(); }
  const T* begin() const { return all_.data() + first_; }
  const T* end() const { return all_.data() + all_.size(); }
  T& operator[](size_t i) { return all_[first_ + i]; }
  const T& operator[](size_t i) const { return all_[first_ + i]; }
  void push_back(T value) {
    if (first_ > 0 && all_.size() == all_.capacity()) {
      all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(std::exchange(first_, 0)));
    }
    all_.push_back(std::move(value));
  }
  void pop_front() {
    if (++first_ == all_.size()) clear();
  }
  void clear() {
    all_.clear();
    first_ = 0;
  }

 private:
  std::vector<T> all_;
  size_t first_ = 0;
};

}  // namespace tutti
