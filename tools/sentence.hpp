// An error as a program prints it.
#pragma once

#include <string>

#include "src/base/status.hpp"

namespace tutti {

/// The message, with its code where that says more than that something is wrong: options that do not go together have
/// none.
inline std::string sentence(const Status& error) { return isGeneral(error.kind()) ? error.message() : error.text(); }

}  // namespace tutti
