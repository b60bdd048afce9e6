// What the codes of errors mean, from the tables src/base/errors/*.def.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

/// What happened, likely causes and remedy.
/// code  TUTTI-5104, 5104, or a message that has one in it; "all" explains every code
/// Errors  InvalidArgument: there is no such code
Result<std::string> explainError(const std::string& code);

/// docs/errors.md.
std::string errorsMarkdown();

}  // namespace tutti
