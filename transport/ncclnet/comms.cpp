#include "transport/ncclnet/comms.hpp"

#include <algorithm>
#include <utility>

#include "src/base/log.hpp"

namespace tutti::ncclnet {
namespace {

constexpr std::byte kUntouched{0xA7};

}  // namespace

// A handle that is too long shows behind the bytes that there are for it.
Result<Handle> Comms::listen() {
  std::array<std::byte, 8 * kHandleBytes> handle;
  std::fill(handle.begin(), handle.begin() + kHandleBytes, std::byte{0});
  std::fill(handle.begin() + kHandleBytes, handle.end(), kUntouched);
  const Code code = net_.listen(plugin_->device(), handle.data(), &listen_);
  if (code != kSuccess || listen_ == nullptr)
    return systemError(ErrorCode::NetPluginRefused, plugin_->describe(), ": ", Plugin::complaint("listen", code),
                       listen_ ? "" : " and no comm");
  if (!std::all_of(handle.begin() + kHandleBytes, handle.end(), [](std::byte b) { return b == kUntouched; }))
    return systemError(ErrorCode::NetPluginRefused, plugin_->describe(), ": listen wrote a handle of more than ",
                       kHandleBytes, " bytes");
  Handle ours;
  std::copy_n(handle.begin(), kHandleBytes, ours.begin());
  return ours;
}

Result<bool> Comms::connect(Handle* theirs) {
  Code code = kSuccess;
  if (send_ == nullptr) code = net_.connect(plugin_->device(), theirs->data(), &send_);
  if (code != kSuccess) return remoteError(ErrorCode::CannotReach, who(), ": ", Plugin::complaint("connect", code));
  if (receive_ == nullptr) code = net_.accept(listen_, &receive_);
  if (code != kSuccess) return remoteError(ErrorCode::CannotReach, who(), ": ", Plugin::complaint("accept", code));
  if (send_ == nullptr || receive_ == nullptr) return false;
  (void)net_.closeListen(std::exchange(listen_, nullptr));
  return true;
}

void Comms::close() {
  if (send_ != nullptr) tell("closeSend", net_.closeSend(std::exchange(send_, nullptr)));
  if (receive_ != nullptr) tell("closeRecv", net_.closeRecv(std::exchange(receive_, nullptr)));
  if (listen_ != nullptr) tell("closeListen", net_.closeListen(std::exchange(listen_, nullptr)));
}

std::string Comms::who() const { return cat("rank ", peer_, " over ncclnet (", plugin_->describe(), ")"); }

void Comms::tell(const char* call, Code code) const {
  if (code != kSuccess) TUTTI_DEBUG("ncclnet", who(), ": ", Plugin::complaint(call, code));
}

}  // namespace tutti::ncclnet
