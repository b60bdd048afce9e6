// Which library this is.
#pragma once

#include <string>

namespace tutti {

/// "0.1.0 (revision 0123456789ab)"; the revision is that of the folder when the build was set up, "unknown" outside a
/// repository.
std::string releaseText();

}  // namespace tutti
