// The operators that a user has made for one communicator.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "src/base/status.hpp"
#include "src/exec/reduce/reduce.hpp"

namespace tutti {

/// One made operator.  Shared by the table and the calls in flight that use it.
struct CustomOperator {
  tuttiRedFunction_t function = nullptr;  // a user's operator; else PreMulSum
  void* context = nullptr;
  bool commutative = true;
  tuttiDataType_t dtype = tuttiFloat32;  // PreMulSum only
  std::array<std::byte, 8> scalar{};     // PreMulSum, HostImmediate: the value
  const void* deviceScalar = nullptr;    // PreMulSum, Device: read when the operation runs
};

/// Any thread.
class OperatorTable {
 public:
  tuttiRedOp_t add(std::shared_ptr<const CustomOperator> op);
  /// Errors: InvalidArgument: a built-in operator, one of another communicator, or one destroyed already.
  Status remove(tuttiRedOp_t op);
  /// nullptr if there is none of that value.
  std::shared_ptr<const CustomOperator> find(tuttiRedOp_t op) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<const CustomOperator>> operators_;
  int next_ = tuttiNumOps;  // values are never used twice, so that a stale one is noticed
};

}  // namespace tutti
