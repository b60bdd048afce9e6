#include "src/exec/pre_post_ops.hpp"

#include "src/base/copy.hpp"
#include "src/exec/reduce/reduce.hpp"

namespace tutti {

namespace {

Status copyInput(Worker* worker, const Touch& copied) {
  if (worker != nullptr) return worker->copy(copied.to, copied.from, copied.count);
  copyBytes(copied.to, copied.from, copied.count);
  return {};
}

}  // namespace

Status prepareInput(Worker* worker, tuttiDataType_t dtype, const PrePostOps& t) {
  if (t.copied.count > 0) return copyInput(worker, t.copied);
  if (t.scalar == nullptr) return {};
  if (worker != nullptr) {
    return worker->scale(dtype, t.scaled.to, t.scaled.from, t.scalar, t.scalarOnDevice, t.scaled.count);
  }
  scale(dtype, t.scaled.to, t.scaled.from, t.scalar, t.scaled.count);
  return {};
}

Status divideResult(Worker* worker, tuttiDataType_t dtype, const PrePostOps& t) {
  if (t.divisor == 0) return {};
  if (worker != nullptr) return worker->divide(dtype, t.divided.to, t.divisor, t.divided.count);
  divide(dtype, t.divided.to, t.divisor, t.divided.count);
  return {};
}

}  // namespace tutti
