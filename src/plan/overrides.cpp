#include "src/plan/overrides.hpp"

#include <algorithm>
#include <vector>

#include "src/base/config.hpp"
#include "src/base/nearest.hpp"
#include "src/base/text.hpp"

namespace tutti {
namespace {

std::string joined(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::vector<std::string> allAlgorithms() {
  std::vector<std::string> names;
  for (const Algorithm* a : algorithms()) {
    const std::string name(a->name);
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::vector<std::string> algorithmsOf(Collective collective) {
  std::vector<std::string> names;
  for (const Algorithm* a : algorithms()) {
    if (a->collective == collective) names.emplace_back(a->name);
  }
  return names;
}

void take(Collective collective, const Algorithm* algorithm, const std::string& ready, Overrides* into) {
  into->algorithm[static_cast<size_t>(collective)] = algorithm;
  into->ready[static_cast<size_t>(collective)] = ready;
}

bool isReady(std::span<const ReadyName> ready, Collective collective, std::string_view name) {
  return std::any_of(ready.begin(), ready.end(), [&](const ReadyName& r) {
    return r.leftOut.empty() && r.collective == collective && r.name == name;
  });
}

/// Why there is no plan of the name, if it is one that was left out.
Status checkNotLeftOut(std::span<const ReadyName> ready, std::string_view name) {
  for (const ReadyName& r : ready) {
    if (r.name == name && !r.leftOut.empty())
      return invalidUsage(ErrorCode::AlgorithmDoesNotFit, "TUTTI_ALGO: the plan '", name, "' is left out: ", r.leftOut);
  }
  return {};
}

/// ", and as plans of TUTTI_PLAN_DIR a, b"; empty without.
std::string readyNames(std::span<const ReadyName> ready, const Collective* collective) {
  std::vector<std::string> names;
  for (const ReadyName& r : ready) {
    const bool listed = !r.leftOut.empty() || std::find(names.begin(), names.end(), r.name) != names.end();
    if (!listed && (collective == nullptr || r.collective == *collective)) names.emplace_back(r.name);
  }
  return names.empty() ? "" : ", and as plans of TUTTI_PLAN_DIR " + joined(names);
}

/// "collective:name".
Status parseOne(const std::string& key, const std::string& name, Overrides* into, std::span<const ReadyName> ready) {
  Collective collective{};
  if (!parseCollective(key, &collective)) {
    return invalidUsage(ErrorCode::AlgorithmUnknown, "TUTTI_ALGO: ", notACollective(key));
  }
  const Algorithm* found = findAlgorithm(collective, name);
  if (found == nullptr && !isReady(ready, collective, name)) {
    TUTTI_TRY(checkNotLeftOut(ready, name));
    return invalidUsage(ErrorCode::AlgorithmUnknown, "TUTTI_ALGO: ", key, " has no algorithm '", name, "'",
                        didYouMean(name, algorithmsOf(collective)), "; it has ", algorithmNames(collective),
                        readyNames(ready, &collective));
  }
  take(collective, found, found == nullptr ? name : "", into);
  return {};
}

}  // namespace

std::string algorithmNames(Collective collective) { return joined(algorithmsOf(collective)); }

Status parseAlgorithms(std::string_view text, Overrides* into, std::span<const ReadyName> ready) {
  for (const std::string& entry : split(text, ',')) {
    if (const size_t colon = entry.find(':'); colon != std::string::npos) {
      TUTTI_TRY(parseOne(entry.substr(0, colon), entry.substr(colon + 1), into, ready));
      continue;
    }
    bool any = false;
    for (const Algorithm* a : algorithms()) {
      if (a->name != entry) continue;
      take(a->collective, a, "", into);
      any = true;
    }
    for (const ReadyName& r : ready) {
      if (!r.leftOut.empty() || r.name != entry || findAlgorithm(r.collective, entry) != nullptr) continue;
      take(r.collective, nullptr, entry, into);
      any = true;
    }
    if (!any) {
      TUTTI_TRY(checkNotLeftOut(ready, entry));
      return invalidUsage(ErrorCode::AlgorithmUnknown, "TUTTI_ALGO: no collective has an algorithm '", entry, "'",
                          didYouMean(entry, allAlgorithms()), "; there are ", joined(allAlgorithms()),
                          readyNames(ready, nullptr));
    }
  }
  return {};
}

Status parseProtocolOverride(std::string_view text, Overrides* into) {
  if (text.empty()) return {};
  Protocol protocol{};
  if (!parseProtocol(text, &protocol)) {
    return invalidUsage(ErrorCode::AlgorithmUnknown, "TUTTI_PROTO: '", text, "' is not a protocol",
                        didYouMean(text, {"inline", "slots", "direct"}), "; there are inline, slots and direct");
  }
  into->protocol = protocol;
  return {};
}

Status parseJoinOverride(std::string_view text, Overrides* into) {
  if (text.empty()) return {};
  if (text != "0" && text != "1") {
    return invalidUsage(ErrorCode::AlgorithmUnknown, "TUTTI_JOIN: '", text,
                        "' is unknown; set 0 (a message for each chunk) or 1 (several in one)");
  }
  into->joined = text == "1";
  return {};
}

Result<Overrides> overridesFromEnvironment(std::span<const ReadyName> ready) {
  Overrides overrides;
  TUTTI_TRY(parseAlgorithms(configText("TUTTI_ALGO"), &overrides, ready));
  TUTTI_TRY(parseProtocolOverride(configText("TUTTI_PROTO"), &overrides));
  TUTTI_TRY(parseJoinOverride(configText("TUTTI_JOIN"), &overrides));
  TUTTI_ASSIGN(const int64_t nChannels, configInteger("TUTTI_NCHANNELS"));
  overrides.nChannels = static_cast<int>(nChannels);
  TUTTI_ASSIGN(const int64_t strict, configInteger("TUTTI_ALGO_STRICT"));
  overrides.strict = strict != 0;
  return overrides;
}

}  // namespace tutti
