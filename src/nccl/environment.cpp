#include "src/nccl/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "src/nccl/abi.hpp"

namespace tutti::nccl {
namespace {

constexpr int64_t kSlots = 4;  // TUTTI_SLOTS

bool parseNumber(const std::string& text, int64_t* number) {
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && next == end;
}

/// Errors become into->error.
std::optional<int> readCount(const std::string& name, const std::string& value, int least, int most,
                             Environment* into) {
  int64_t number = 0;
  if (parseNumber(value, &number) && number >= least && number <= most) return static_cast<int>(number);
  reject(name + "=" + value + " is not a whole number from " + std::to_string(least) + " to " + std::to_string(most),
         into);
  return std::nullopt;
}

template <std::optional<bool> Environment::*field>
void readSwitch(const std::string& name, const std::string& value, Environment* into) {
  if (const auto on = readCount(name, value, 0, 1, into)) into->*field = *on == 1;
}

template <std::optional<int> Environment::*field>
void readChannels(const std::string& name, const std::string& value, Environment* into) {
  if (const auto count = readCount(name, value, 1, 64, into)) into->*field = count;
}

template <std::string Environment::*field>
void readText(const std::string&, const std::string& value, Environment* into) {
  into->*field = value;
}

void excludeIf(const std::string& name, const std::string& value, const char* transport, Environment* into) {
  if (readCount(name, value, 0, 1, into) == 1) into->excluded.emplace_back(transport);
}

/// Of variables that Tutti has under the same name but for the prefix, with the same syntax.
void readTwin(const std::string& name, const std::string& value, Environment* into) {
  into->defaults["TUTTI_" + name.substr(sizeof "NCCL_" - 1)] = value;
}

void readDebug(const std::string& name, const std::string& value, Environment* into) {
  if (!parseLevel(value, &into->log.level)) {
    into->warnings.push_back(name + "=" + value + " is not VERSION, WARN, INFO, ABORT or TRACE");
    return;
  }
  if (into->log.level == Level::Info) into->defaults["TUTTI_LOG"] = "info";
  if (into->log.level == Level::Trace) into->defaults["TUTTI_LOG"] = "debug";
}

void readSubjects(const std::string& name, const std::string& value, Environment* into) {
  if (!parseSubjects(value, &into->log.subjects)) {
    into->warnings.push_back(name + "=" + value + " names a subject that does not exist; it is ignored");
  }
}

void readNet(const std::string& name, const std::string& value, Environment* into) {
  into->netName = networkTransport(value);
  if (into->netName.empty())
    reject(name + "=" + value + ": Tutti has no such network transport; it has Socket, IB, and NCCL_NET_PLUGIN's",
           into);
}

void readFamily(const std::string& name, const std::string& value, Environment* into) {
  if (value == "AF_INET" || value == "AF_INET6") {
    into->defaults["TUTTI_SOCKET_FAMILY"] = value == "AF_INET" ? "inet" : "inet6";
  } else {
    reject(name + "=" + value + " is neither AF_INET nor AF_INET6", into);
  }
}

// By number as well: of one kind of path there were two.
void readGdrLevel(const std::string& name, const std::string& value, Environment* into) {
  constexpr const char* kLevels[] = {"LOC", "PIX", "PXB", "PHB", "SYS", "SYS"};
  const bool isNumber = value.size() == 1 && value[0] >= '0' && value[0] <= '5';
  readTwin(name, isNumber ? kLevels[value[0] - '0'] : value, into);
}

// NCCL's is the memory of one channel to one peer, which Tutti has in slots.
void readBuffSize(const std::string& name, const std::string& value, Environment* into) {
  int64_t bytes = 0;
  if (!parseNumber(value, &bytes) || bytes < kSlots * 1024 || bytes > kSlots * (int64_t{64} << 20)) {
    return reject(name + "=" + value + " is not a number of bytes from 4096 to 268435456", into);
  }
  into->defaults["TUTTI_SLOT_BYTES"] = std::to_string(bytes / kSlots);
}

// Later rows win over earlier ones.
constexpr NcclVariable kVariables[] = {
    {"NCCL_DEBUG", "level of the log: VERSION, WARN, INFO, ABORT, TRACE; INFO and TRACE also raise `TUTTI_LOG`",
     readDebug},
    {"NCCL_DEBUG_SUBSYS", "subjects of the log, e.g. `INIT,COLL`; `^` excludes", readSubjects},
    {"NCCL_DEBUG_FILE", "file of the log; `%h` is the host, `%p` the process", readText<&Environment::logFile>},
    {"NCCL_SOCKET_IFNAME",
     "`TUTTI_SOCKET_IFNAME`, which has the same syntax; several that are named are used at once, without a name one",
     readTwin},
    {"NCCL_SOCKET_FAMILY", "`TUTTI_SOCKET_FAMILY`", readFamily},
    {"NCCL_IB_HCA", "`TUTTI_IB_HCA`, which has the same syntax", readTwin},
    {"NCCL_IB_QPS_PER_CONNECTION", "`TUTTI_IB_QPS_PER_CONNECTION`, 16 at most", readTwin},
    {"NCCL_IB_SPLIT_DATA_ON_QPS", "`TUTTI_IB_SPLIT_DATA_ON_QPS`", readTwin},
    {"NCCL_IB_GID_INDEX", "`TUTTI_IB_GID_INDEX`", readTwin},
    {"NCCL_IB_ADDR_FAMILY", "`TUTTI_IB_ADDR_FAMILY`; a wish for NCCL, a condition here", readTwin},
    {"NCCL_IB_ADDR_RANGE", "`TUTTI_IB_ADDR_RANGE`", readTwin},
    {"NCCL_IB_ROCE_VERSION_NUM", "`TUTTI_IB_ROCE_VERSION_NUM`; a wish for NCCL, a condition here", readTwin},
    {"NCCL_IB_PKEY", "`TUTTI_IB_PKEY`", readTwin},
    {"NCCL_IB_TC", "`TUTTI_IB_TC`", readTwin},
    {"NCCL_IB_SL", "`TUTTI_IB_SL`", readTwin},
    {"NCCL_IB_TIMEOUT", "`TUTTI_IB_TIMEOUT`", readTwin},
    {"NCCL_IB_RETRY_CNT", "`TUTTI_IB_RETRY_CNT`", readTwin},
    {"NCCL_IB_PCI_RELAXED_ORDERING", "`TUTTI_IB_PCI_RELAXED_ORDERING`", readTwin},
    {"NCCL_IB_ADAPTIVE_ROUTING", "`TUTTI_IB_ADAPTIVE_ROUTING`", readTwin},
    {"NCCL_IB_AR_THRESHOLD", "`TUTTI_IB_AR_THRESHOLD`", readTwin},
    {"NCCL_NET_GDR_LEVEL", "`TUTTI_NET_GDR_LEVEL`; its older numbers, 0 to 5, are the levels from LOC to SYS",
     readGdrLevel},
    {"NCCL_IB_DISABLE", "1 excludes the transport `verbs`",
     [](const std::string& name, const std::string& value, Environment* into) {
       excludeIf(name, value, "verbs", into);
     }},
    {"NCCL_P2P_DISABLE", "1 excludes the transport `cuda_ipc`",
     [](const std::string& name, const std::string& value, Environment* into) {
       excludeIf(name, value, "cuda_ipc", into);
     }},
    {"NCCL_SHM_DISABLE", "1 excludes the transport `shm`; ranks of one host then talk over sockets",
     [](const std::string& name, const std::string& value, Environment* into) { excludeIf(name, value, "shm", into); }},
    {"NCCL_ALGO",
     "`TUTTI_ALGO`, where it comes down to one algorithm per function: Ring, Tree or PAT; a warning where it leaves "
     "only others (`TUTTI_ALGO_STRICT=1`: an error)",
     readAlgorithms},
    {"NCCL_PROTO",
     "Simple alone is `TUTTI_PROTO=slots`; LL or LL128 alone is a warning, as such messages are small here",
     readProtocols},
    {"NCCL_TOPO_FILE", "`TUTTI_TOPO_FILE`, which reads NCCL's XML and warns of what it leaves out", readTwin},
    {"NCCL_TOPO_DUMP_FILE", "`TUTTI_TOPO_DUMP_FILE`, which writes NCCL's XML", readTwin},
    {"NCCL_NET",
     "network transport: Socket is `tcp`, IB is `verbs`; others are `ncclnet` where NCCL_NET_PLUGIN names a plugin, "
     "else an error",
     readNet},
    {"NCCL_NET_PLUGIN", "`TUTTI_NET_PLUGIN`, which has the same syntax", readTwin},
    {"NCCL_PROFILER_PLUGIN", "`TUTTI_PROFILER_PLUGIN`, which has the same syntax", readTwin},
    {"NCCL_TUNER_PLUGIN", "`TUTTI_TUNER_PLUGIN`, which has the same syntax", readTwin},
    {"NCCL_BUFFSIZE", "`TUTTI_SLOT_BYTES`: a quarter of it, as there are four slots", readBuffSize},
    {"NCCL_MIN_NCHANNELS", "as NCCL_MIN_CTAS", readChannels<&Environment::minCtas>},
    {"NCCL_MAX_NCHANNELS", "as NCCL_MAX_CTAS", readChannels<&Environment::maxCtas>},
    {"NCCL_MIN_CTAS", "least number of channels, as far as they are possible", readChannels<&Environment::minCtas>},
    {"NCCL_MAX_CTAS", "largest number of channels", readChannels<&Environment::maxCtas>},
    {"NCCL_COMM_BLOCKING", "0: communicators are non-blocking, 1: blocking, whatever the program says",
     readSwitch<&Environment::blocking>},
    {"NCCL_COMM_SPLIT_SHARE_RESOURCES", "overrides `splitShare` of all configs", readSwitch<&Environment::splitShare>},
    {"NCCL_COMM_SHRINK_SHARE_RESOURCES", "overrides `shrinkShare` of all configs",
     readSwitch<&Environment::shrinkShare>},
    {"NCCL_COMM_ID", "`host:port` where ranks meet that do not exchange the id", readText<&Environment::commId>},
    {"NCCL_HOSTID", "`TUTTI_HOSTID`", readTwin},
};

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// A # in a value, as in the name of a file, is part of it.
std::string withoutComment(const std::string& line) {
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) return line.substr(0, i);
  }
  return line;
}

void readFile(const std::string& path, std::map<std::string, std::string>* values) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    line = trimmed(withoutComment(line));
    const size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    values->emplace(trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)));  // the first file wins
  }
}

/// What the files say, read once.
const std::map<std::string, std::string>& fileValues() {
  static auto* const all = [] {
    auto* values = new std::map<std::string, std::string>;
    const char* named = std::getenv("NCCL_CONF_FILE");
    const char* home = std::getenv("HOME");
    if (named != nullptr && *named != '\0') {
      readFile(named, values);
    } else if (home != nullptr && *home != '\0') {
      readFile(std::string(home) + "/.nccl.conf", values);
    }
    readFile("/etc/nccl.conf", values);
    return values;
  }();
  return *all;
}

/// Every NCCL_ name that is set somewhere.
std::vector<std::string> namesSet() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text(*entry);
    if (text.starts_with("NCCL_")) names.push_back(text.substr(0, text.find('=')));
  }
  for (const auto& [name, value] : fileValues()) names.push_back(name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

void noteNames(Environment* into) {
  for (const std::string& name : namesSet()) {
    const auto known = [&](const NcclVariable& v) { return name == v.name; };
    const bool understood = std::any_of(std::begin(kVariables), std::end(kVariables), known);
    if (understood) into->infos.push_back(name + " set by environment to " + ncclValue(name) + ".");
    if (!understood && name != "NCCL_CONF_FILE" && !name.starts_with("NCCL_TESTS_")) {
      into->infos.push_back(name + " set by environment to " + ncclValue(name) + ": Tutti has nothing like it.");
    }
  }
}

void applyLog(const Environment& env) {
  if (setLog(env.log, env.logFile)) return;
  setLog(env.log, "");
  logWarn("NCCL_DEBUG_FILE=" + env.logFile + " cannot be written; the log goes to standard output");
}

bool isSet(const std::string& name) {
  const char* set = std::getenv(name.c_str());
  return set != nullptr && *set != '\0';
}

// Where tutti's own variable is set, that one counts, and this one may be whatever it is.
void applyDefaults(Environment* env) {
  for (const auto& [name, value] : env->defaults) {
    if (isSet(name) || tuttiSetDefault(name.c_str(), value.c_str()) == tuttiSuccess) continue;
    const std::string& origin = env->origins[name];
    std::string why = tuttiGetLastError(nullptr);
    why.erase(0, why.find(": ") + 2);  // tuttiSetDefault, which nobody has called
    reject(origin + "=" + ncclValue(origin) + " stands for " + name + "=" + value + ": " + why, env);
  }
  std::string excluded;
  for (const std::string& transport : env->excluded) excluded += (excluded.empty() ? "^" : ",") + transport;
  if (!excluded.empty()) (void)tuttiSetDefault("TUTTI_TRANSPORTS", excluded.c_str());
}

}  // namespace

void reject(const std::string& why, Environment* into) {
  if (into->error.empty()) into->error = why;
}

std::span<const NcclVariable> ncclVariables() { return kVariables; }

std::string ncclValue(const std::string& name) {
  const char* set = std::getenv(name.c_str());
  if (set != nullptr && *set != '\0') return set;
  const auto found = fileValues().find(name);
  return found == fileValues().end() ? "" : found->second;
}

std::string networkTransport(const std::string& name) {
  if (lower(name) == "ib" || lower(name) == "verbs") return "verbs";
  if (lower(name) == "socket" || lower(name) == "tcp") return "tcp";
  const std::string plugin = ncclValue("NCCL_NET_PLUGIN");
  return plugin.empty() || lower(plugin) == "none" ? "" : "ncclnet";
}

std::vector<std::string> splitList(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    if (const std::string part = trimmed(text.substr(at, end - at)); !part.empty()) parts.push_back(part);
    at = end + 1;
  }
  return parts;
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

Environment readEnvironment() {
  Environment env;
  env.log.subjects = subject::kInit | subject::kEnv | subject::kBootstrap;
  for (const NcclVariable& variable : kVariables) {
    const std::string value = ncclValue(variable.name);
    if (!value.empty()) variable.read(variable.name, value, &env);
    for (const auto& [name, becomes] : env.defaults) env.origins.emplace(name, variable.name);
  }
  if (env.minCtas && env.maxCtas && *env.minCtas > *env.maxCtas) {
    reject(
        "NCCL_MIN_CTAS=" + std::to_string(*env.minCtas) + " is more than NCCL_MAX_CTAS=" + std::to_string(*env.maxCtas),
        &env);
  }
  noteNames(&env);
  return env;
}

const Environment& environment() {
  static const Environment* const env = [] {
    auto* read = new Environment(readEnvironment());
    applyLog(*read);
    applyDefaults(read);
    for (const std::string& text : read->infos) logInfo(subject::kEnv, text);
    for (const std::string& text : read->warnings) logWarn(text);
    return read;
  }();
  return *env;
}

void readLogAgain() {
  (void)environment();
  applyLog(readEnvironment());
}

}  // namespace tutti::nccl

using namespace tutti::nccl;

NCCL_EXPORT(void, ResetDebugInit, (TUTTI_NCCL_NOTHING)) { readLogAgain(); }

// An export of NCCL's own, without a name in its header, that some builds of its clients refer to.
extern "C" __attribute__((visibility("default"))) void ncclResetDebugInitInternal() { readLogAgain(); }
