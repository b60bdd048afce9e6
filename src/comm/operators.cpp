#include "src/comm/operators.hpp"

namespace tutti {

tuttiRedOp_t OperatorTable::add(std::shared_ptr<const CustomOperator> op) {
  const std::lock_guard lock(mutex_);
  operators_.emplace(next_, std::move(op));
  return static_cast<tuttiRedOp_t>(next_++);
}

Status OperatorTable::remove(tuttiRedOp_t op) {
  if (op < tuttiNumOps)
    return invalidArgument(ErrorCode::Operator, "op ", redOpName(op),
                           " is built in and cannot be destroyed; destroy only what tuttiRedOpCreate made");
  const std::lock_guard lock(mutex_);
  if (operators_.erase(op) == 1) return {};
  return invalidArgument(
      ErrorCode::Operator, "op ", static_cast<int>(op),
      " was not made for this communicator, or is destroyed already; pass an operator to the communicator "
      "that made it, once");
}

std::shared_ptr<const CustomOperator> OperatorTable::find(tuttiRedOp_t op) const {
  const std::lock_guard lock(mutex_);
  const auto found = operators_.find(op);
  return found == operators_.end() ? nullptr : found->second;
}

}  // namespace tutti
