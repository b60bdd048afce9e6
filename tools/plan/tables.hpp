// Published tables of parallel training, from the planner's formulas.
#pragma once

#include <string>

inline constexpr const char* kTableNames =
    "sequence, zero, bubble, days, recompute, utilization, ring, gather, runs, zero-runs, llama, guides";

/// Prints it; an exit status.
int printTable(const std::string& name);
