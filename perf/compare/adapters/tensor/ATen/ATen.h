// What DeepSpeed's csrc/cpu/comm/shm.cpp uses of PyTorch's tensors, so that it compiles without PyTorch: memory of one
// type, and numbers of 16 bits that turn into float.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace c10 {
enum class ScalarType { BFloat16, Half, Float };
}

namespace at {

struct BFloat16 {
  BFloat16(float value) : bits(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)) {}
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  uint16_t bits;
};

using Half = _Float16;

}  // namespace at

namespace torch {

/// Borrows the memory.
class Tensor {
 public:
  Tensor(void* data, c10::ScalarType type) : data_(data), type_(type) {}
  void* data_ptr() const { return data_; }
  c10::ScalarType scalar_type() const { return type_; }

 private:
  void* data_;
  c10::ScalarType type_;
};

}  // namespace torch
