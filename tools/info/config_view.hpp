// The table of configuration variables, for a terminal and for docs/environment.md.
#pragma once

#include <string>

namespace tutti {

/// One line per variable with its present value; a `*` marks those that the environment sets.
std::string configView();

/// docs/environment.md: defaults and meanings, whatever the environment says.
std::string configMarkdown();

}  // namespace tutti
