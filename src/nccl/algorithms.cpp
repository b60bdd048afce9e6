// NCCL_ALGO and NCCL_PROTO.  A list of what is allowed, or, behind ^, of what is not; for all functions, or behind
// "function:" for one; several such lists are separated by semicolons.
//
// NCCL chooses among what it is left with.  Tutti's own variables name one algorithm (per collective) or one protocol,
// so a list is honoured where it comes down to one, or to no restriction.  Where it leaves only what Tutti does not
// have, the planner chooses, with a warning; with TUTTI_ALGO_STRICT=1 that is an error, as it is of TUTTI_ALGO.
#include <algorithm>
#include <cstdlib>

#include "src/nccl/environment.hpp"

namespace tutti::nccl {
namespace {

/// What NCCL has for a function, and the algorithm of Tutti's that does the same; nullptr: none does.
struct Counterpart {
  const char* function;
  const char* theirs;
  const char* ours;
};
constexpr Counterpart kAlgorithms[] = {
    {"allreduce", "ring", "ring"},           {"allreduce", "tree", "tree"},
    {"allreduce", "collnetdirect", nullptr}, {"allreduce", "collnetchain", nullptr},
    {"allreduce", "nvls", nullptr},          {"allreduce", "nvlstree", nullptr},
    {"allgather", "ring", "ring"},           {"allgather", "pat", "pat"},
    {"allgather", "nvls", nullptr},          {"allgather", "collnetdirect", nullptr},
    {"reducescatter", "ring", "ring"},       {"reducescatter", "pat", "pat"},
    {"reducescatter", "nvls", nullptr},      {"reducescatter", "collnetdirect", nullptr},
    {"broadcast", "ring", "chain"},          {"reduce", "ring", "chain"},
};
constexpr const char* kFunctions[] = {"allreduce", "allgather", "reducescatter", "broadcast", "reduce"};
constexpr const char* kAlgorithmNames[] = {"tree", "ring", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
constexpr const char* kProtocolNames[] = {"ll", "ll128", "simple"};

template <size_t N>
bool contains(const char* const (&names)[N], const std::string& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

template <size_t N>
std::string listOf(const char* const (&names)[N]) {
  std::string list;
  for (const char* name : names) list += std::string(list.empty() ? "" : ", ") + name;
  return list;
}

/// "^ring,tree"
struct Filter {
  bool exclude = false;
  std::vector<std::string> names;

  bool allows(const std::string& name) const {
    return (std::find(names.begin(), names.end(), name) != names.end()) != exclude;
  }
};

Filter parseFilter(const std::string& text) {
  const bool exclude = !text.empty() && text.front() == '^';
  return {exclude, splitList(lower(exclude ? text.substr(1) : text), ',')};
}

/// "ring, tree"
std::string counterpartsOf(const std::string& function) {
  std::string names;
  for (const Counterpart& c : kAlgorithms) {
    if (function == c.function && c.ours != nullptr) names += (names.empty() ? "" : ", ") + std::string(c.theirs);
  }
  return names;
}

bool strict() {
  const char* set = std::getenv("TUTTI_ALGO_STRICT");
  return set != nullptr && std::string(set) == "1";
}

/// One section of NCCL_ALGO for one function.  explicitly: the section names the function, and must leave something.
void choose(const std::string& function, const Filter& filter, bool explicitly, Environment* into) {
  std::vector<std::string> ours;
  bool anyAllowed = false, allAllowed = true;
  for (const Counterpart& c : kAlgorithms) {
    if (function != c.function) continue;
    const bool allowed = filter.allows(c.theirs);
    anyAllowed = anyAllowed || allowed;
    allAllowed = allAllowed && allowed;
    if (allowed && c.ours != nullptr) ours.emplace_back(c.ours);
  }
  if (allAllowed) return;
  if (ours.empty()) {
    const std::string why = "NCCL_ALGO allows " + function + " only algorithms that Tutti does not have (it has " +
                            counterpartsOf(function) + ")";
    if (anyAllowed && !strict()) into->warnings.push_back(why + ": its planner chooses of all");
    if (anyAllowed && strict()) reject(why, into);
    if (!anyAllowed && explicitly) reject("NCCL_ALGO leaves " + function + " no algorithm", into);
    return;
  }
  if (ours.size() > 1) {
    into->warnings.push_back("NCCL_ALGO leaves " + function + " several algorithms: Tutti's planner chooses of all");
    return;
  }
  std::string& algorithms = into->defaults["TUTTI_ALGO"];
  algorithms += (algorithms.empty() ? "" : ",") + function + ":" + ours.front();
}

template <size_t N>
bool knownNames(const std::string& variable, const Filter& filter, const char* const (&names)[N], Environment* into) {
  for (const std::string& name : filter.names) {
    if (contains(names, name)) continue;
    reject(variable + ": there is no '" + name + "'; there are " + listOf(names), into);
    return false;
  }
  return true;
}

}  // namespace

void readAlgorithms(const std::string& name, const std::string& value, Environment* into) {
  for (const std::string& section : splitList(value, ';')) {
    const size_t colon = section.find(':');
    const bool one = colon != std::string::npos;
    const Filter filter = parseFilter(one ? section.substr(colon + 1) : section);
    if (!knownNames(name, filter, kAlgorithmNames, into)) return;
    const std::string function = one ? lower(section.substr(0, colon)) : "";
    if (one && !contains(kFunctions, function)) {
      return reject(name + ": there is no function '" + function + "'; there are " + listOf(kFunctions), into);
    }
    for (const char* f : kFunctions) {
      if (!one || function == f) choose(f, filter, one, into);
    }
  }
}

void readProtocols(const std::string& name, const std::string& value, Environment* into) {
  if (value.find_first_of(";:") != std::string::npos) {
    into->warnings.push_back(name + "=" + value + ": Tutti has one protocol for all functions; it chooses freely");
    return;
  }
  const Filter filter = parseFilter(value);
  if (!knownNames(name, filter, kProtocolNames, into)) return;
  const bool flags = filter.allows("ll") || filter.allows("ll128");  // the flag travels with the data
  const bool simple = filter.allows("simple");
  if (!flags && !simple) {
    reject(name + "=" + value + " leaves no protocol", into);
  } else if (!flags) {
    into->defaults["TUTTI_PROTO"] = "slots";
  } else if (!simple) {
    into->warnings.push_back(name + "=" + value + ": Tutti sends flags with data in the smallest messages only");
  }
}

}  // namespace tutti::nccl
