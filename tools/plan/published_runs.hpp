// Published training runs, and what the planner says of them from specifications.
#pragma once

#include <string>

/// All of them: predicted beside published.  Exit statuses.
int runsTable();
/// ZeRO 3 beside tensor and pipeline parallelism: rates of a GPU, predicted beside published.
int zeroRunsTable();
/// Llama 3.1 on H100, tokens a second.
int llamaTable();
/// Twelve models by fp8 on DGX H100, tokens a second.
int nemoTable();
/// Llama 3.1 8B with long sequences over rings.
int longTable();
/// 175 billion parameters on 96 to 4,608 H100: parts of the peak.
int strongTable();
/// DeepSeek-V3 on 2,048 H800: seconds of a step.
int deepSeekTable();
/// One by its name, with where its time goes.
int printRun(const std::string& name);
