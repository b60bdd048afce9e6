// How errors travel inside the library: Status and Result<T>.  No exception leaves Tutti, and none is thrown by it.
//
// The place that first knows a thing is an error writes the whole sentence (which argument, which rank, what to do) and
// gives the code of its kind; callers pass it up unchanged with TUTTI_TRY.  Whoever puts another's sentence into a
// longer one takes its text(): the longer one then has that code.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "src/base/assert.hpp"
#include "src/base/error_code.hpp"
#include "src/base/text.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Success, or a result code with a sentence.  Success costs one pointer and no allocation.
class [[nodiscard]] Status {
 public:
  Status() = default;
  /// Codes in `message`, as text() writes them, are taken out of it; the first is the error's.  tuttiInProgress has
  /// none.
  Status(tuttiResult_t code, std::string message) : Status(code, generalCode(code), std::move(message)) {}
  /// The same with the code of errors whose message has none.
  Status(tuttiResult_t code, ErrorCode kind, std::string message);
  Status(const Status& other) : error_(other.error_ ? std::make_unique<const Error>(*other.error_) : nullptr) {}
  Status(Status&&) noexcept = default;
  Status& operator=(const Status& other) { return *this = Status(other); }
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return error_ == nullptr; }
  tuttiResult_t code() const { return error_ ? error_->code : tuttiSuccess; }
  /// The sentence; empty when ok.
  const std::string& message() const {
    static const std::string none;
    return error_ ? error_->message : none;
  }
  /// Which kind of error; 0 when ok.
  ErrorCode kind() const { return error_ ? error_->kind : ErrorCode{}; }
  /// The sentence with the code behind it, for users, for other ranks, and for longer sentences; empty when ok.
  std::string text() const { return text(std::string::npos); }
  /// The same cut to `mostBytes`: the end of a longer sentence is lost, never the code.
  std::string text(size_t mostBytes) const;

 private:
  struct Error {
    tuttiResult_t code;
    ErrorCode kind;
    std::string message;
  };
  std::unique_ptr<const Error> error_;
};

template <class... Args>
Status invalidArgument(const Args&... args) {
  return {tuttiInvalidArgument, cat(args...)};
}
template <class... Args>
Status invalidArgument(ErrorCode kind, const Args&... args) {
  return {tuttiInvalidArgument, kind, cat(args...)};
}
template <class... Args>
Status invalidUsage(const Args&... args) {
  return {tuttiInvalidUsage, cat(args...)};
}
template <class... Args>
Status invalidUsage(ErrorCode kind, const Args&... args) {
  return {tuttiInvalidUsage, kind, cat(args...)};
}
template <class... Args>
Status remoteError(const Args&... args) {
  return {tuttiRemoteError, cat(args...)};
}
template <class... Args>
Status remoteError(ErrorCode kind, const Args&... args) {
  return {tuttiRemoteError, kind, cat(args...)};
}
template <class... Args>
Status timeoutError(const Args&... args) {
  return {tuttiTimeout, cat(args...)};
}
template <class... Args>
Status timeoutError(ErrorCode kind, const Args&... args) {
  return {tuttiTimeout, kind, cat(args...)};
}
template <class... Args>
Status internalError(const Args&... args) {
  return {tuttiInternalError, cat(args...)};
}
template <class... Args>
Status internalError(ErrorCode kind, const Args&... args) {
  return {tuttiInternalError, kind, cat(args...)};
}
template <class... Args>
Status systemError(const Args&... args) {
  return {tuttiSystemError, cat(args...)};
}
template <class... Args>
Status systemError(ErrorCode kind, const Args&... args) {
  return {tuttiSystemError, kind, cat(args...)};
}
/// systemError with ": <text of errnum> (errno N)" at the end, and the code that errnum tells.
Status errnoError(int errnum, std::string what);
Status errnoError(ErrorCode kind, int errnum, std::string what);
/// The same, with `otherwise` where errnum tells no more than that the system refused.
Status errnoError(int errnum, ErrorCode otherwise, std::string what);

/// A value or the Status that says why there is none.  Success costs a null pointer beside the value: executors return
/// one from every step of the fastest calls.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT: implicit on purpose
  /// `status` must be an error.
  Result(Status status) : error_(std::move(status)) { TUTTI_ASSERT(!error_.ok()); }  // NOLINT: implicit on purpose

  bool ok() const { return error_.ok(); }
  const Status& status() const& { return error_; }
  Status status() && { return std::move(error_); }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return *std::move(value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status error_;
};

inline Status asStatus(Status s) { return s; }
template <class T>
Status asStatus(const Result<T>& r) {
  return r.status();
}

}  // namespace tutti

#define TUTTI_CONCAT2(a, b) a##b
#define TUTTI_CONCAT(a, b) TUTTI_CONCAT2(a, b)

/// Pass a failed Status up as it is.
#define TUTTI_TRY(expr)                                          \
  do {                                                           \
    if (::tutti::Status tryStatus_ = (expr); !tryStatus_.ok()) { \
      return tryStatus_;                                         \
    }                                                            \
  } while (0)

/// `TUTTI_ASSIGN(auto fd, openIt(path));` declares fd from a Result or passes its Status up.
#define TUTTI_ASSIGN(decl, expr) TUTTI_ASSIGN_(TUTTI_CONCAT(result_, __LINE__), decl, expr)
#define TUTTI_ASSIGN_(tmp, decl, expr) \
  auto tmp = (expr);                   \
  if (!tmp.ok()) return tmp.status();  \
  decl = std::move(tmp).value()
