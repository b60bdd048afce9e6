// The format of MSCCL++'s plans before the present one; see mscclpp_json.hpp.
#pragma once

#include <string>

#include "src/import/imported_plan.hpp"
#include "src/import/json_text.hpp"

namespace tutti::foreign {

/// Errors: as importMscclppJson.
Result<ImportedPlan> importMscclppLegacy(const JsonAt& top, const std::string& origin);

}  // namespace tutti::foreign
