#include "src/base/error_code.hpp"

#include <cerrno>
#include <cstring>

namespace tutti {

namespace {

constexpr std::string_view kOpens = " [TUTTI-";
constexpr size_t kDigits = 4;

/// The number at `at`, which is behind kOpens; 0: there is none.
uint16_t numberAt(std::string_view text, size_t at) {
  if (text.size() < at + kDigits + 1 || text[at + kDigits] != ']') return 0;
  uint16_t number = 0;
  for (const char digit : text.substr(at, kDigits)) {
    if (digit < '0' || digit > '9') return 0;
    number = static_cast<uint16_t>(10 * number + (digit - '0'));
  }
  return number;
}

}  // namespace

std::string codeText(ErrorCode code) { return "TUTTI-" + std::to_string(static_cast<uint16_t>(code)); }

std::string withCode(std::string_view sentence, ErrorCode code) {
  if (code == ErrorCode{}) return std::string(sentence);
  return std::string(sentence) + " [" + codeText(code) + "]";
}

ErrorCode takeCodes(std::string* text, ErrorCode code) {
  bool found = false;
  for (size_t at = text->find(kOpens); at != std::string::npos; at = text->find(kOpens, at)) {
    const uint16_t number = numberAt(*text, at + kOpens.size());
    if (number == 0) {
      ++at;
      continue;
    }
    text->erase(at, kOpens.size() + kDigits + 1);
    const auto inner = static_cast<ErrorCode>(number);
    if (found || isGeneral(inner)) continue;
    found = true;
    code = inner;
  }
  return code;
}

ErrorCode codeOfErrno(int errnum) {
  switch (errnum) {
    case ENOMEM: return ErrorCode::NoMemory;
    case EMFILE:
    case ENFILE: return ErrorCode::TooManyFiles;
    case EPERM:
    case EACCES: return ErrorCode::NotPermitted;
    case ENOSPC:
    case EDQUOT: return ErrorCode::NoSpace;
    case EADDRINUSE: return ErrorCode::AddressInUse;
    default: return ErrorCode::SystemRefused;
  }
}

}  // namespace tutti
