// Published training runs, and what the planner says of them from specifications.
#pragma once

#include <string>

/// All of them: predicted beside published.  Exit statuses.
int runsTable();
/// ZeRO 3 beside tensor and pipeline parallelism: rates of a GPU, predicted beside published.
int zeroRunsTable();
/// Llama 3.1 on H100, tokens a second.
int llamaTable();
/// One by its name, with where its time goes.
int printRun(const std::string& name);
