// Published tables of parallel training, from the planner's formulas.
#pragma once

#include <string>

inline constexpr const char* kTableNames =
    "sequence, zero, zero++, bubble, dualpipe, days, recompute, utilization, ring, context, gather, servers, runs, "
    "zero-runs, "
    "llama, long, nemo, strong, deepseek, guides";

/// Prints it; an exit status.
int printTable(const std::string& name);
