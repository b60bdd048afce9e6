#include "tools/info/error_view.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

struct ErrorRow {
  ErrorCode code;
  const char *what, *causes, *remedy;
};

constexpr auto kErrors = [] {
  std::array rows{
#define TUTTI_ERROR(number, name, what, causes, remedy) ErrorRow{ErrorCode::name, what, causes, remedy},
#include "src/base/errors/arguments.def"
#include "src/base/errors/remote.def"
#include "src/base/errors/system.def"
#include "src/base/errors/usage.def"
#undef TUTTI_ERROR
  };
  std::sort(rows.begin(), rows.end(), [](const ErrorRow& a, const ErrorRow& b) { return a.code < b.code; });
  return rows;
}();

constexpr auto numbersAreUnique = [] {
  for (size_t i = 1; i < kErrors.size(); ++i)
    if (kErrors[i].code == kErrors[i - 1].code) return false;
  return true;
};
static_assert(numbersAreUnique(), "two kinds of errors have one number");

const char* resultName(ErrorCode code) {
  switch (resultOf(code)) {
    case tuttiUnhandledCudaError: return "tuttiUnhandledCudaError";
    case tuttiSystemError: return "tuttiSystemError";
    case tuttiInternalError: return "tuttiInternalError";
    case tuttiInvalidArgument: return "tuttiInvalidArgument";
    case tuttiInvalidUsage: return "tuttiInvalidUsage";
    case tuttiRemoteError: return "tuttiRemoteError";
    case tuttiTimeout: return "tuttiTimeout";
    default: return "";
  }
}

std::string wrapped(const std::string& label, std::string_view text) {
  constexpr size_t kWidth = 100;
  const std::string margin(label.size(), ' ');
  std::string out, line = label;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (line.size() + end > kWidth) out += std::exchange(line, margin) + "\n";
    line += cat(line.size() == label.size() ? "" : " ", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out + line + "\n";
}

std::string explained(const ErrorRow& row) {
  return cat(codeText(row.code), " (", resultName(row.code), ")\n", wrapped("  what:    ", row.what),
             wrapped("  causes:  ", row.causes), wrapped("  remedy:  ", row.remedy));
}

/// The first four digits in a row that stand alone, or behind TUTTI- where that is in it.
std::optional<int> numberIn(std::string_view text) {
  constexpr std::string_view kPrefix = "TUTTI-";
  if (const size_t at = text.find(kPrefix); at != std::string_view::npos) text.remove_prefix(at + kPrefix.size());
  const size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) return {};
  const size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
  if (end - begin != 4) return {};
  return std::stoi(std::string(text.substr(begin, 4)));
}

std::string cellOf(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : c == '<' ? "&lt;" : std::string(1, c);
  return result;
}

constexpr const char* kErrorsHead =
    "# Errors and their codes\n"
    "Written by `tutti-info --explain all --markdown` from the tables `src/base/errors/*.def`.\n"
    "\n"
    "Every error that `tuttiGetLastError` tells ends with the code of its kind, such as `[TUTTI-5104]`. Codes keep\n"
    "their meaning from release to release, so scripts and runbooks may look for them; sentences may change.\n"
    "`tutti-info --explain TUTTI-5104` prints a row of this page without a network, and takes a whole message, too.\n"
    "\n"
    "A code's first digit is the `tuttiResult_t` on the rank that was first to know. A rank that hears of another's\n"
    "error passes its code on: the call returns `tuttiRemoteError`, and the code says what happened there.\n";

}  // namespace

Result<std::string> explainError(const std::string& code) {
  if (code == "all") {
    std::string all;
    for (const ErrorRow& row : kErrors) all += cat(all.empty() ? "" : "\n", explained(row));
    return all;
  }
  const std::optional<int> number = numberIn(code);
  if (!number) return invalidArgument("'", code, "' has no code in it such as TUTTI-5104; --explain all lists them");
  for (const ErrorRow& row : kErrors)
    if (static_cast<int>(row.code) == *number) return explained(row);
  return invalidArgument("this release has no error TUTTI-", *number, "; --explain all lists them");
}

std::string errorsMarkdown() {
  std::string page = kErrorsHead;
  tuttiResult_t result = tuttiSuccess;
  for (const ErrorRow& row : kErrors) {
    if (resultOf(row.code) != result) {
      result = resultOf(row.code);
      page += cat("\n## ", resultName(row.code), ": ", tuttiGetErrorString(result), "\n\n",
                  "| code | what happened | likely causes | remedy |\n|---|---|---|---|\n");
    }
    page += cat("| `", codeText(row.code), "` | ", cellOf(row.what), " | ", cellOf(row.causes), " | ",
                cellOf(row.remedy), " |\n");
  }
  return page;
}

}  // namespace tutti
