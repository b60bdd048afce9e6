// Plans in MSCCL's XML (github.com/microsoft/msccl, "msccl-algorithms"), in both dialects: <step s= srcbuf= srcoff=
// dstbuf= dstoff=> and the older <op step= buf= off=>.  Attributes that a runtime would need and a reader does not may
// be missing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "src/import/imported_plan.hpp"

namespace tutti {

/// `origin` is the file name or another word for messages.
/// Errors: InvalidArgument "origin:line: <tag>: sentence", or what is wrong with what it computes; Internal if this
/// build has no pugixml.
Result<ImportedPlan> importMscclXml(std::string_view text, const std::string& origin);

/// Its head, without looking at the rest.  Errors: as above.
Result<PlanHead> headOfMscclXml(std::string_view text, const std::string& origin);

}  // namespace tutti
