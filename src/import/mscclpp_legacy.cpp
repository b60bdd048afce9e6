#include "src/import/mscclpp_legacy.hpp"
namespace tutti::foreign {
Result<ImportedPlan> importMscclppLegacy(const JsonAt& top, const std::string&) { return top.error("later"); }
}  // namespace tutti::foreign
