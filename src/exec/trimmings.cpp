#include "src/exec/trimmings.hpp"

#include "src/exec/reduce.hpp"

namespace tutti {

Status scaleInput(Worker* worker, tuttiDataType_t dtype, const Trimmings& t) {
  if (t.scalar == nullptr) return {};
  if (worker != nullptr) {
    return worker->scale(dtype, t.scaled.to, t.scaled.from, t.scalar, t.scalarOnDevice, t.scaled.count);
  }
  scale(dtype, t.scaled.to, t.scaled.from, t.scalar, t.scaled.count);
  return {};
}

Status divideResult(Worker* worker, tuttiDataType_t dtype, const Trimmings& t) {
  if (t.divisor == 0) return {};
  if (worker != nullptr) return worker->divide(dtype, t.divided.to, t.divisor, t.divided.count);
  divide(dtype, t.divided.to, t.divisor, t.divided.count);
  return {};
}

}  // namespace tutti
