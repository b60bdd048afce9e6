// What a call does around its schedule: PreMulSum scales the input first, an imported plan that cannot work in place
// reads a copy of the input, avg divides the result at the end.
#pragma once

#include <cstddef>

#include "src/exec/worker.hpp"

namespace tutti {

/// Elements of a buffer that get copied or scaled before or divided after the lanes have run.
struct Touch {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  size_t count = 0;
};

/// A value; blocks point into the call's buffers.
struct PrePostOps {
  const void* scalar = nullptr;  // PreMulSum: one element; input is scaled from `scaled.from` to `scaled.to` first
  bool scalarOnDevice = false;   // where there is a worker: whether the scalar is in its memory
  Touch scaled;
  Touch copied;     // bytes of the input
  int divisor = 0;  // avg: divide `divided.to` by it at the end; 0: do not
  Touch divided;

  bool prepares() const { return scalar != nullptr || copied.count > 0; }
};

/// The operations before and after a schedule.  worker: null: at once, on host memory.
Status prepareInput(Worker* worker, tuttiDataType_t dtype, const PrePostOps& prePost);
Status divideResult(Worker* worker, tuttiDataType_t dtype, const PrePostOps& prePost);

}  // namespace tutti
