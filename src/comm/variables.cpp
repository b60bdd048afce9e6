#include "src/comm/variables.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "src/base/address_range.hpp"
#include "src/base/config.hpp"
#include "src/base/congestion.hpp"
#include "src/base/folder.hpp"
#include "src/comm/cuda/executor_kind.hpp"
#include "src/comm/machine.hpp"
#include "src/comm/settings.hpp"
#include "src/control/session/interfaces.hpp"
#include "src/plan/overrides.hpp"
#include "src/recorder/dump_signal.hpp"
#include "src/recorder/record_paths.hpp"
#include "src/topology/load.hpp"

namespace tutti {
namespace {

// Plans of TUTTI_PLAN_DIR for a communicator are known once it has its ranks: their names are looked up then.
Status checkAlgorithms(const std::string& value) {
  if (!configIsSet("TUTTI_PLAN_DIR")) {
    Overrides ignored;
    return parseAlgorithms(value, &ignored);
  }
  for (const std::string& entry : split(value, ',')) {
    const size_t colon = entry.find(':');
    Collective ignored{};
    if (colon == std::string::npos || parseCollective(entry.substr(0, colon), &ignored)) continue;
    Overrides none;
    return parseAlgorithms(entry, &none);  // says which collectives there are
  }
  return {};
}

Status checkProtocol(const std::string& value) {
  Overrides ignored;
  return parseProtocolOverride(value, &ignored);
}

Status checkJoin(const std::string& value) {
  Overrides ignored;
  return parseJoinOverride(value, &ignored);
}

Status checkInterfaces(const std::string& names, const std::string& family) {
  TUTTI_ASSIGN(const std::vector<InterfaceAddress> all, listInterfaces());
  return asStatus(chooseAddresses(all, names, family));
}

Status checkTopologyFile(const std::string& value) {
  const Status status = asStatus(topology::loadTopology(value));
  return status.ok() ? status
                     : invalidUsage(ErrorCode::TopologyUnreadable, "TUTTI_TOPO_FILE=", value, ": ", status.text(),
                                    "; leave it unset to have this machine looked at");
}

Status checkPlanFolder(const std::string& value) {
  if (namesIn(value)) return {};
  const std::string why = std::generic_category().message(errno);
  return invalidUsage(ErrorCode::PlanFolder, "TUTTI_PLAN_DIR=", value, ": cannot read the folder of plans: ", why,
                      "; name a folder that every rank can read, or leave it unset");
}

enum class When { Always, ByDefaultOnly };

/// A text whose meaning other rooms know.  ByDefaultOnly: in an environment the file is read, once for all ranks that
/// share it, while a communicator comes up, and all ranks hear of it.
struct Text {
  const char* name;
  Status (*check)(const std::string& value);
  When when = When::Always;
};
constexpr Text kTexts[] = {
    {"TUTTI_ALGO", checkAlgorithms},
    {"TUTTI_PROTO", checkProtocol},
    {"TUTTI_JOIN", checkJoin},
    {"TUTTI_TRANSPORTS", [](const std::string& value) { return checkTransportList(value, transports()); }},
    {"TUTTI_DEVICE", checkDeviceName},
    {"TUTTI_CUDA_EXECUTOR", checkExecutorName},
    {"TUTTI_WAIT", [](const std::string& value) { return asStatus(parseWaitMode(value)); }},
    {"TUTTI_WIRE", [](const std::string& value) { return asStatus(parseWireFormat(value)); }},
    {"TUTTI_SOCKET_IFNAME",
     [](const std::string& value) { return checkInterfaces(value, configText("TUTTI_SOCKET_FAMILY")); }},
    {"TUTTI_SOCKET_FAMILY",
     [](const std::string& value) { return checkInterfaces(configText("TUTTI_SOCKET_IFNAME"), value); }},
    {"TUTTI_TCP_CONGESTION", checkCongestionControl},
    {"TUTTI_IB_ADDR_FAMILY",
     [](const std::string& value) { return checkAddressFamily("TUTTI_IB_ADDR_FAMILY", value); }},
    {"TUTTI_IB_ADDR_RANGE",
     [](const std::string& value) { return asStatus(parseAddressRange("TUTTI_IB_ADDR_RANGE", value)); }},
    {"TUTTI_TRACE", [](const std::string& value) { return checkRecordPattern("TUTTI_TRACE", value); }},
    {"TUTTI_DUMP", [](const std::string& value) { return checkRecordPattern("TUTTI_DUMP", value); }},
    {"TUTTI_DUMP_SIGNAL", [](const std::string& value) { return asStatus(parseDumpSignal(value)); }},
    {"TUTTI_PLAN_DIR", checkPlanFolder, When::ByDefaultOnly},
    {"TUTTI_TOPO_FILE", checkTopologyFile, When::ByDefaultOnly},
    {"TUTTI_TOPO_CPUS", checkPlaces},
};

const Text* textOf(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kTexts), std::end(kTexts), [&](const Text& text) { return name == text.name; });
  return found == std::end(kTexts) ? nullptr : found;
}

}  // namespace

Status checkVariable(std::string_view name, const std::string& value) {
  TUTTI_TRY(checkValue(name, value));
  const Text* const text = textOf(name);
  return text == nullptr || value.empty() ? Status() : text->check(value);
}

Status checkVariables() {
  TUTTI_TRY(checkConfig());
  for (const Text& text : kTexts) {
    const std::string value = configText(text.name);
    if (text.when == When::Always && !value.empty()) TUTTI_TRY(text.check(value));
  }
  return {};
}

Status setVariable(std::string_view name, const char* value) {
  const auto all = variables();
  const bool known = std::any_of(all.begin(), all.end(), [&](const Variable& v) { return name == v.name; });
  if (known && value != nullptr) {
    if (const Status status = checkVariable(name, value); !status.ok()) return invalidArgument(status.text());
  }
  return setDefault(name, value);
}

}  // namespace tutti
