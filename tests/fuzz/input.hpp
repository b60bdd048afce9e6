// What a target reads its steps from: the bytes of an input, one after another; past their end all is zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tutti::test {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return rest_.empty(); }
  uint8_t byte() {
    uint8_t next = 0;
    fill(&next, 1);
    return next;
  }
  /// A plain value as it lies in the input.
  template <class T>
  T value() {
    T next{};
    fill(&next, sizeof next);
    return next;
  }
  /// As many bytes as the next byte says, and `most` at most.
  std::string_view some(size_t most) {
    const size_t bytes = std::min<size_t>(byte(), most);
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(taken.size());
    return taken;
  }
  void fill(void* into, size_t bytes) {
    const size_t n = std::min(bytes, rest_.size());
    std::memcpy(into, rest_.data(), n);
    rest_.remove_prefix(n);
  }
  /// Puts some bytes of the input over those of a plain value, somewhere.
  template <class T>
  void spoil(T* whole) {
    for (unsigned times = byte() % 4; times > 0; --times) {
      const size_t at = value<uint16_t>() % sizeof(T);
      const std::string_view by = some(std::min<size_t>(8, sizeof(T) - at));
      std::memcpy(reinterpret_cast<char*>(whole) + at, by.data(), by.size());
    }
  }

 private:
  std::string_view rest_;
};

}  // namespace tutti::test
