// What tutti-plan is asked: a model, a machine, a batch, perhaps a layout.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/parallel/planner.h"

struct AskedPlan {
  tuttiModelShape_t model = TUTTI_MODEL_SHAPE_INITIALIZER;
  tuttiMachine_t machine = TUTTI_MACHINE_INITIALIZER;
  std::vector<double> speeds;
  int batch = 0;
  std::optional<tuttiLayout_t> layout;
};

/// Throws std::invalid_argument, which names the option.
AskedPlan parsePlan(int argc, char** argv);

/// "tp8,pp16,dp64,zero1,chunks2,micro1,sequence,full" and the like; see --help.  Throws as parsePlan().
tuttiLayout_t parseLayout(const std::string& text);

/// A generation of GPUs by its name, as "h100"; throws as parsePlan().
int gpuOf(const std::string& name);
