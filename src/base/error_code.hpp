// A stable number for each kind of error.  The tables src/base/errors/*.def are their one source: this enumeration, the
// pages of `tutti-info --explain` and docs/errors.md are made of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti {

/// The thousands are the tuttiResult_t that such an error has where it is first known; N000 is any other error of it.
/// A rank that hears of another's error keeps the other's code: TUTTI-5104 on rank 2 makes tuttiRemoteError on rank 0.
enum class ErrorCode : uint16_t {
#define TUTTI_ERROR(number, name, what, causes, remedy) name = number,
#include "src/base/errors/arguments.def"
#include "src/base/errors/remote.def"
#include "src/base/errors/system.def"
#include "src/base/errors/usage.def"
#undef TUTTI_ERROR
};

/// The code of errors that have none of their own.
constexpr ErrorCode generalCode(tuttiResult_t result) {
  return result == tuttiInProgress ? ErrorCode{} : static_cast<ErrorCode>(1000 * static_cast<int>(result));
}
constexpr bool isGeneral(ErrorCode code) { return static_cast<uint16_t>(code) % 1000 == 0; }
constexpr tuttiResult_t resultOf(ErrorCode code) {
  return static_cast<tuttiResult_t>(static_cast<uint16_t>(code) / 1000);
}

/// "TUTTI-5104".
std::string codeText(ErrorCode code);
/// The sentence, a blank, and the code in brackets, as users read it; the sentence alone where there is no code.
std::string withCode(std::string_view sentence, ErrorCode code);
/// Takes all codes that withCode() has written out of `text`; the first of them that is not general, else `code`.
ErrorCode takeCodes(std::string* text, ErrorCode code);
/// What errno says of the kind.
ErrorCode codeOfErrno(int errnum);

}  // namespace tutti
