// Published training runs, and what the planner says of them from specifications.
#pragma once

#include <string>

/// All of them: predicted beside published.  Exit statuses.
int runsTable();
/// One by its name, with where its time goes.
int printRun(const std::string& name);
