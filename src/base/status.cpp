#include "src/base/status.hpp"

#include <cstring>

namespace tutti {

Status::Status(tuttiResult_t code, ErrorCode kind, std::string message) {
  if (code == tuttiSuccess) return;
  kind = takeCodes(&message, kind);
  error_ = std::make_unique<const Error>(Error{code, kind, std::move(message)});
}

std::string Status::text(size_t mostBytes) const {
  if (!error_) return "";
  const size_t ofCode = withCode("", error_->kind).size();
  const size_t room = mostBytes > ofCode ? mostBytes - ofCode : 0;
  return withCode(std::string_view(error_->message).substr(0, room), error_->kind);
}

Status errnoError(int errnum, std::string what) { return errnoError(codeOfErrno(errnum), errnum, std::move(what)); }

Status errnoError(ErrorCode kind, int errnum, std::string what) {
  char buffer[128];
  return {tuttiSystemError, kind, cat(what, ": ", strerror_r(errnum, buffer, sizeof buffer), " (errno ", errnum, ")")};
}

Status errnoError(int errnum, ErrorCode otherwise, std::string what) {
  const ErrorCode told = codeOfErrno(errnum);
  return errnoError(isGeneral(told) ? otherwise : told, errnum, std::move(what));
}

}  // namespace tutti
