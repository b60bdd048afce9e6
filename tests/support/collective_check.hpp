// Every collective with inputs whose result is known on each element, checked on every rank.
#pragma once

#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "tests/support/ranks.hpp"

namespace tutti::test {

/// What rank r contributes at element i of the block meant for (or coming from) `block`.  Small, so that sums are
/// exact.
inline float element(int rank, int block, size_t i) {
  return static_cast<float>((rank * 7 + block * 3 + static_cast<int>(i % 11)) % 13 - 6);
}

/// Where a buffer comes from.
enum class Memory : uint8_t { Plain, Allocated, Other };  // malloc, tuttiMemAlloc, what otherMemory gives

/// Memory of a kind that this file does not know, such as a device's; the host must be able to read and write it.
struct MemorySource {
  void* (*allocate)(size_t bytes) = nullptr;  // null if there is none
  void (*free)(void*) = nullptr;
};
inline MemorySource otherMemory;

/// Memory for `count` floats at an address that is `shift` bytes off a 64-byte boundary, filled with a poison.
class FloatBuffer {
 public:
  explicit FloatBuffer(size_t count, size_t shift = 0, Memory memory = Memory::Plain) : count_(count) {
    const size_t bytes = count * sizeof(float) + 192;
    unsigned char* start = nullptr;
    if (memory == Memory::Plain) {
      bytes_.resize(bytes);
      start = bytes_.data();
    } else if (memory == Memory::Other) {
      other_ = otherMemory.allocate(bytes);
      start = static_cast<unsigned char*>(other_);
      if (start == nullptr) throw std::bad_alloc();
    } else if (tuttiMemAlloc(&allocated_, bytes) == tuttiSuccess) {
      start = static_cast<unsigned char*>(allocated_);
    } else {
      throw std::bad_alloc();
    }
    std::memset(start, 0xa5, bytes);
    data_ = start + (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64 + shift;
  }
  FloatBuffer(const FloatBuffer&) = delete;
  FloatBuffer& operator=(const FloatBuffer&) = delete;
  ~FloatBuffer() {
    tuttiMemFree(allocated_);
    if (other_ != nullptr) otherMemory.free(other_);
  }
  void* at(size_t i) { return data_ + i * sizeof(float); }
  float get(size_t i) const {
    float value;
    std::memcpy(&value, data_ + i * sizeof(float), sizeof value);
    return value;
  }
  void set(size_t i, float value) { std::memcpy(data_ + i * sizeof(float), &value, sizeof value); }
  size_t count() const { return count_; }

 private:
  std::vector<unsigned char> bytes_;
  void* allocated_ = nullptr;
  void* other_ = nullptr;
  unsigned char* data_;
  size_t count_;
};

struct CheckOptions {
  size_t count = 1;
  bool inPlace = false;
  size_t shift = 0;  // bytes of misalignment
  Memory memory = Memory::Plain;
  int root = 0;
  tuttiStream_t stream = nullptr;
  std::function<std::string()> synchronize = nullptr;  // in place of tuttiStreamSynchronize
};

std::string checkAllReduce(const Rank& r, const CheckOptions& o);
std::string checkBroadcast(const Rank& r, const CheckOptions& o);
std::string checkReduce(const Rank& r, const CheckOptions& o);
std::string checkAllGather(const Rank& r, const CheckOptions& o);
std::string checkReduceScatter(const Rank& r, const CheckOptions& o);
std::string checkAllToAll(const Rank& r, const CheckOptions& o);
std::string checkGather(const Rank& r, const CheckOptions& o);
std::string checkScatter(const Rank& r, const CheckOptions& o);
std::string checkVectors(const Rank& r, const CheckOptions& o);
std::string checkPointToPoint(const Rank& r, const CheckOptions& o);

/// All of the above.
std::string checkEverything(const Rank& r, const CheckOptions& o);

}  // namespace tutti::test
