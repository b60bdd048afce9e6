#include "src/base/wire_format.hpp"

#include <algorithm>
#include <array>

namespace tutti {
namespace {

constexpr std::array<std::string_view, kNumWireFormats> kWireFormatNames = {"full", "bf16", "fp8", "int8"};

}  // namespace

std::string_view wireFormatName(WireFormat format) { return kWireFormatNames[static_cast<size_t>(format)]; }

Result<WireFormat> parseWireFormat(const std::string& name) {
  const auto* const found = std::ranges::find(kWireFormatNames, name);
  if (found != kWireFormatNames.end()) return static_cast<WireFormat>(found - kWireFormatNames.begin());
  return invalidUsage(ErrorCode::VariableValue, "TUTTI_WIRE='", name, "' is unknown; set full, bf16, fp8 or int8");
}

bool isNarrower(WireFormat format, tuttiDataType_t dtype) {
  if (format == WireFormat::Full) return false;
  if (dtype == tuttiFloat32) return true;
  return format != WireFormat::Bf16 && (dtype == tuttiFloat16 || dtype == tuttiBfloat16);
}

}  // namespace tutti
