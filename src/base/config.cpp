#include "src/base/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "src/base/assert.hpp"
#include "src/base/forked.hpp"
#include "src/base/log.hpp"
#include "src/base/nearest.hpp"

namespace tutti {
namespace {

constexpr VariableKind Text = VariableKind::Text;
constexpr VariableKind Integer = VariableKind::Integer;
constexpr VariableKind Bytes = VariableKind::Bytes;
constexpr VariableKind Flag = VariableKind::Flag;

constexpr Variable kVariables[] = {
    {"TUTTI_ALGO", Text, "", "",
     "algorithm for all collectives (NAME) or for some: COLLECTIVE:NAME[,COLLECTIVE:NAME...]"},
    {"TUTTI_PROTO", Text, "", "", "protocol to use: inline, slots or direct"},
    {"TUTTI_ALGO_STRICT", Flag, "0", "",
     "a call that TUTTI_ALGO, TUTTI_PROTO or TUTTI_NCHANNELS does not fit: 1: it is refused, with the reason and with "
     "what would fit; 0: the planner chooses, and rank 0 warns once of each reason"},
    {"TUTTI_LEARN", Integer, "1", "",
     "whether a communicator on the host tries a few ways for each kind of call or send that it makes often, and takes "
     "the "
     "fastest from then on; trying costs at most about a twentieth of the calls' time; 0: no; 1: ways that give the "
     "same bits, which later jobs take at once; 2: also ways that add floating-point numbers in another order"},
    {"TUTTI_JOIN", Text, "", "",
     "several chunks of a step in one message: 1: wherever an algorithm can; 0: never; unset: if the planner finds it "
     "cheaper"},
    {"TUTTI_TRANSPORTS", Text, "", "",
     "transports allowed, e.g. shm,tcp; ^x excludes x; ucx is used only if it is named"},
    {"TUTTI_DEVICE", Text, "auto", "", "where ranks compute: auto, host or cuda; config.device comes before it"},
    {"TUTTI_CUDA_EXECUTOR", Text, "auto", "",
     "how calls of CUDA ranks are carried out: resident (kernels), stream (operations that the caller enqueues; no "
     "kernel waits), proxy (a host thread), auto (cuda.md)"},
    {"TUTTI_NCHANNELS", Integer, "0", "", "parallel lanes per collective; 0: the planner chooses"},
    {"TUTTI_TIMEOUT_MS", Integer, "30000", "ms",
     "how long a wait may last without progress before its peer counts as lost; 0: for ever"},
    {"TUTTI_REPRODUCIBLE", Flag, "0", "",
     "1: floating-point sums follow one tree over ranks and always have the same bits"},
    {"TUTTI_WIRE", Text, "full", "",
     "number format in which sums of floating-point numbers travel between hosts: full (exact), bf16, fp8 (e4m3, a "
     "scale for each 32), int8 (likewise); each hop rounds (networks.md)"},
    {"TUTTI_SLOT_BYTES", Bytes, "128K", "bytes",
     "size of a FIFO's slot, the largest message; unset: 256K if all links are sockets and ranks share no core; over "
     "sockets of one host 1M (AllReduce and ReduceScatter of ranks that share cores 512K, Reduce as above); 1M if "
     "hosts have one rank each and several interfaces; on CUDA devices by their figures (cuda.md)"},
    {"TUTTI_SLOTS", Integer, "4", "", "slots per FIFO"},
    {"TUTTI_SOCKET_IFNAME", Text, "", "", "interfaces allowed: prefix list, =exact, ^exclude; tcp uses all it names"},
    {"TUTTI_SOCKET_FAMILY", Text, "", "", "address family of sockets: inet or inet6; unset: the interface's"},
    {"TUTTI_NSOCKETS", Integer, "2", "", "tcp connections between two ranks, over which large messages are spread"},
    {"TUTTI_RECONNECT", Text, "hosts", "",
     "which broken tcp connections are made again without loss: hosts (those between hosts), all, none; they carry "
     "checksums"},
    {"TUTTI_RECONNECT_MS", Integer, "20000", "ms",
     "how long it may take to make a broken connection again before its peer counts as lost; 0: for ever"},
    {"TUTTI_HOST_GONE_MS", Integer, "8000", "ms",
     "how long a host may be silent before its ranks count as lost; a smaller value finds this sooner, a larger one "
     "survives longer outages"},
    {"TUTTI_RECONNECT_BYTES", Bytes, "2M", "bytes",
     "bytes that a connection keeps for each direction until the peer has taken them, and so the most that is under "
     "way"},
    {"TUTTI_ENCRYPT", Flag, "0", "",
     "1: all TCP connections are encrypted, for data and for control (AES-256-GCM by libcrypto); transports that "
     "cannot encrypt are refused between hosts (security.md)"},
    {"TUTTI_INTEGRITY", Text, "crc", "",
     "what detects changed bytes on tcp connections between hosts: crc (CRC-32C, with TUTTI_RECONNECT), mac (keyed "
     "tags, which also detect forgery; needs libcrypto)"},
    {"TUTTI_CHECK_RESULTS", Integer, "0", "",
     "k: ranks on the host compare the results of every k-th AllReduce, AllGather and Broadcast, and name the rank "
     "that differs; 0: never"},
    {"TUTTI_RETRY", Flag, "0", "",
     "1: a collective succeeds on all ranks that go on, or on none; if it fails, its inputs are unchanged, in place "
     "too, and the call can be made again after tuttiCommShrink; ranks on the host (failures.md)"},
    {"TUTTI_TCP_CONGESTION", Text, "", "",
     "congestion control of tcp connections between hosts, e.g. bbr, cubic, dctcp; unset: the system's"},
    {"TUTTI_TCP_BUSY_POLL_US", Integer, "0", "us",
     "how long the system polls the adapter's queue for a tcp connection between hosts before it reports that nothing "
     "has arrived; 0: net.core.busy_read"},
    {"TUTTI_IB_HCA", Text, "", "",
     "adapters of InfiniBand or RoCE allowed, with or without a port: list of prefixes mlx5_0,mlx5_2:1; =exact, "
     "^exclude"},
    {"TUTTI_IB_RAILS", Integer, "1", "",
     "ports that a rank uses at a time, at most 4; large messages use all of them, and ranks of a host take ports in "
     "turn"},
    {"TUTTI_IB_QPS_PER_CONNECTION", Integer, "1", "",
     "queue pairs to a peer on each port; large messages take turns among them"},
    {"TUTTI_IB_SPLIT_DATA_ON_QPS", Flag, "0", "", "1: a large message is split over all queue pairs of a port"},
    {"TUTTI_IB_GID_INDEX", Integer, "-1", "",
     "index of the port's address (GID); -1: with RoCE the first of v2 with an IPv4 address, or the next best"},
    {"TUTTI_IB_ADDR_FAMILY", Text, "", "", "only RoCE addresses (GIDs) of this family: AF_INET or AF_INET6"},
    {"TUTTI_IB_ADDR_RANGE", Text, "", "", "only RoCE addresses (GIDs) in this range, e.g. 10.0.0.0/8 or fd00::/16"},
    {"TUTTI_IB_ROCE_VERSION_NUM", Integer, "0", "",
     "only RoCE addresses (GIDs) of this version, 1 or 2; 0: both, 2 first"},
    {"TUTTI_IB_PKEY", Integer, "0", "", "partition: index into the port's table of P_Keys"},
    {"TUTTI_IB_TC", Integer, "0", "", "traffic class of packets with a global header, as all of RoCE's"},
    {"TUTTI_IB_SL", Integer, "0", "", "service level of InfiniBand's packets"},
    {"TUTTI_IB_TIMEOUT", Integer, "18", "",
     "exponent N: the adapter waits 4.096 us * 2^N for an acknowledgement before it repeats"},
    {"TUTTI_IB_RETRY_CNT", Integer, "6", "",
     "repeats before a connection counts as lost; 7: for ever on some adapters"},
    {"TUTTI_IB_MTU", Integer, "0", "bytes", "largest packet: 256, 512, 1024, 2048 or 4096; 0: the port's"},
    {"TUTTI_IB_PCI_RELAXED_ORDERING", Integer, "2", "",
     "whether adapters may write registered memory out of order: 0: no; 1: yes; 2: if libibverbs supports it"},
    {"TUTTI_IB_ADAPTIVE_ROUTING", Integer, "-1", "",
     "whether switches may send the packets of a message over several paths; a second message then announces it: 0: "
     "no; 1: yes; -1: on InfiniBand"},
    {"TUTTI_IB_AR_THRESHOLD", Bytes, "8192", "bytes",
     "with adaptive routing: messages up to this size need no second message to announce them"},
    {"TUTTI_NET_GDR_LEVEL", Text, "PXB", "",
     "how far on PCI an adapter may be from the GPU whose memory it reads and writes directly: LOC (never), PIX (one "
     "switch), PXB (several), PHB (through the processor), SYS (another NUMA node)"},
    {"TUTTI_NET_PLUGIN", Text, "", "",
     "network plugins written for NCCL that transport ncclnet loads: list of paths, file names or X for "
     "libnccl-net-X.so; the first with a device is used; none or unset: none"},
    {"TUTTI_NET_PLUGIN_DEVICE", Text, "", "",
     "name or number of the plugin's device; unset: its first that takes host memory"},
    {"TUTTI_PLUGIN_TRANSPORT", Text, "", "",
     "transport of libnccl-net-tutti.so: verbs or tcp; unset: verbs if there is a device"},
    {"TUTTI_PROFILER_PLUGIN", Text, "", "",
     "profiler plugin written for NCCL that is told of all calls: a path, a file name, or X for libnccl-profiler-X.so; "
     "none or unset: none"},
    {"TUTTI_TUNER_PLUGIN", Text, "", "",
     "tuner plugin written for NCCL that rank 0 asks which algorithm, protocol and channels a call gets: a path, a "
     "file name, or X for libnccl-tuner-X.so; none or unset: none"},
    {"TUTTI_CMA", Flag, "1", "", "0: never read a peer's memory with process_vm_readv"},
    {"TUTTI_ADOPT", Flag, "1", "",
     "1: registered plain memory is moved, at its address, into memory that other processes of the host map, until it "
     "is deregistered (guide.md); 0: it stays private"},
    {"TUTTI_MALLOC_LEAST", Bytes, "32K", "bytes",
     "libtutti_malloc.so: smallest allocation that comes from memory that peers map (guide.md)"},
    {"TUTTI_MALLOC_KEEP", Bytes, "256M", "bytes",
     "libtutti_malloc.so: freed memory that keeps its pages for the next allocations"},
    {"TUTTI_LOG", Text, "warn", "", "LEVEL or AREA:LEVEL, comma separated; error, warn, info, debug, trace"},
    {"TUTTI_EXPLAIN", Flag, "0", "", "1: rank 0 prints the table that the planner compared for each new plan"},
    {"TUTTI_PLAN_DIR", Text, "", "", "folder of imported plans that the planner may choose from"},
    {"TUTTI_CALIBRATION", Text, "", "",
     "file with measured link costs (and FILE.tuned: fastest ways); 'off': built-in figures; unset: per-user cache"},
    {"TUTTI_LINK_PROBE", Text, "auto", "",
     "whether links between hosts are measured while ranks join, in some 55 ms: auto (sockets over interfaces whose "
     "speed is not known, as of virtual ones, unless TUTTI_CALIBRATION is off), always, off"},
    {"TUTTI_TOPO_FILE", Text, "", "",
     "description of the machine in place of the detected one: a file, or a line as node:2 l3:4"},
    {"TUTTI_TOPO_CPUS", Text, "", "",
     "CPUs, numbered as in TUTTI_TOPO_FILE, on which a host's ranks run, one list per rank: 0-3/4-7; unset: where they "
     "are bound"},
    {"TUTTI_TOPO_DUMP_FILE", Text, "", "", "rank 0 writes the machine of all ranks here at init, as NCCL's XML"},
    {"TUTTI_GRAPH_FILE", Text, "", "",
     "for tutti-info --rings: rings and trees in NCCL's graph XML, in place of a search"},
    {"TUTTI_GRAPH_DUMP_FILE", Text, "", "",
     "for tutti-info --rings: write the rings and trees of this host here, as NCCL's graph XML"},
    {"TUTTI_TRACE", Text, "", "",
     "record every call in a file by rank and communicator, for tutti-trace: a folder, or a name with %r (rank) and %c "
     "(communicator), %h (host), %p (process)"},
    {"TUTTI_RECORD_CALLS", Integer, "0", "",
     "how many collectives, and how many messages, the flight recorder keeps of each communicator; 0: 128, and 131072 "
     "with TUTTI_TRACE"},
    {"TUTTI_DUMP", Text, "", "",
     "where a rank writes its flight record when its communicator fails, and at TUTTI_DUMP_SIGNAL; a folder or a name "
     "as for TUTTI_TRACE; unset: a failure writes none, and a signal writes into the process's folder"},
    {"TUTTI_DUMP_SIGNAL", Text, "", "",
     "signal at which a process writes its flight records: USR1, USR2, HUP, QUIT or RTMIN+N; unset: none"},
    {"TUTTI_MONITOR", Flag, "1", "",
     "1: the process of a communicator's rank 0 answers tutti-top, on a Unix socket in $XDG_RUNTIME_DIR/tutti or "
     "/tmp/tutti-UID; 0: it does not"},
    {"TUTTI_WAIT", Text, "auto", "",
     "how calls wait for other ranks: spin (never give the core away), yield (stay awake, yield the core), block "
     "(sleep at once), auto (awake for 2 ms, then asleep); config.waitMode comes before it"},
    {"TUTTI_SPIN_US", Integer, "-1", "us",
     "how long a wait spins before it yields or sleeps; -1: by TUTTI_WAIT, and by load if that is auto"},
    {"TUTTI_SLICE_US", Integer, "0", "us",
     "time slice for threads of ranks that share cores with busy programs of the same session; 0: the system's"},
    {"TUTTI_PORT", Integer, "0", "", "port of the rendezvous for tuttiCommInitEnv; 0: the launcher's"},
    {"TUTTI_SECRET", Text, "", "", "secret of the rendezvous, for launchers that provide none (security.md)"},
    {"TUTTI_UNIQUE_ID", Text, "", "", "set by tutti-run: the rendezvous, in hexadecimal"},
    {"TUTTI_RANK", Integer, "-1", "", "set by tutti-run: this process's rank"},
    {"TUTTI_NRANKS", Integer, "-1", "", "set by tutti-run: the number of ranks"},
    {"TUTTI_LOCAL_RANK", Integer, "-1", "", "set by tutti-run, for programs: this process's rank on its host"},
    {"TUTTI_TERMINAL", Flag, "0", "", "set by tutti-run, for programs: 1: its standard error is a terminal"},
    {"TUTTI_HOME", Text, "", "",
     "where the Python module finds libraries and programs: a build folder or an installation's prefix; unset: beside "
     "the module, then where the system looks"},
    {"TUTTI_HOSTID", Text, "", "", "name of this host; ranks with different names never share memory"},
};

constexpr std::string_view kSecrets[] = {"TUTTI_SECRET", "TUTTI_UNIQUE_ID"};

const Variable* findOrNull(std::string_view name) {
  for (const Variable& v : kVariables) {
    if (name == v.name) return &v;
  }
  return nullptr;
}

std::string nearestVariable(std::string_view name) {
  std::vector<std::string> names;
  for (const Variable& v : kVariables) names.emplace_back(v.name);
  return didYouMean(name, names, "TUTTI_");
}

const Variable& find(std::string_view name) {
  if (const Variable* v = findOrNull(name)) return *v;
  assertionFailed(__FILE__, __LINE__, "unknown configuration variable", std::string(name));
}

Result<int64_t> parse(const Variable& v, const std::string& text) {
  int64_t value = 0;
  switch (v.kind) {
    case VariableKind::Integer:
      if (parseNumber(text, &value)) return value;
      return invalidUsage(ErrorCode::VariableValue, v.name, "='", text,
                          "' is not a whole number; it means: ", v.meaning);
    case VariableKind::Bytes: {
      size_t bytes = 0;
      if (parseBytes(text, &bytes)) return static_cast<int64_t>(bytes);
      return invalidUsage(ErrorCode::VariableValue, v.name, "='", text,
                          "' is not a size; write one such as 65536, 64K or 1M");
    }
    case VariableKind::Flag:
      if (text == "0" || text == "1") return static_cast<int64_t>(text == "1");
      return invalidUsage(ErrorCode::VariableValue, v.name, "='", text,
                          "' is neither 0 nor 1; set 1 for yes, 0 for no");
    case VariableKind::Text: break;
  }
  return internalError(ErrorCode::PartMisused, v.name, " is a text, not a number");
}

Status checkRange(const Variable& v, int64_t value) {
  struct Range {
    const char* name;
    int64_t least, most;
  };
  static constexpr Range kRanges[] = {
      {"TUTTI_NCHANNELS", 0, 64},
      {"TUTTI_TIMEOUT_MS", 0, int64_t{1} << 40},
      {"TUTTI_SLOT_BYTES", 1024, 1 << 26},
      {"TUTTI_SLOTS", 2, 64},
      {"TUTTI_NSOCKETS", 1, 16},
      {"TUTTI_IB_RAILS", 1, 4},
      {"TUTTI_IB_QPS_PER_CONNECTION", 1, 16},
      {"TUTTI_CHECK_RESULTS", 0, 1 << 30},
      {"TUTTI_LEARN", 0, 2},
      {"TUTTI_RECONNECT_MS", 0, int64_t{1} << 40},
      {"TUTTI_HOST_GONE_MS", 1000, 3'600'000},
      {"TUTTI_RECONNECT_BYTES", 256 << 10, 1 << 30},
      {"TUTTI_TCP_BUSY_POLL_US", 0, 1'000'000},
      {"TUTTI_IB_GID_INDEX", -1, 255},
      {"TUTTI_IB_ROCE_VERSION_NUM", 0, 2},
      {"TUTTI_IB_PKEY", 0, 65535},
      {"TUTTI_IB_TC", 0, 255},
      {"TUTTI_IB_SL", 0, 15},
      {"TUTTI_IB_TIMEOUT", 1, 31},
      {"TUTTI_IB_RETRY_CNT", 0, 7},
      {"TUTTI_IB_MTU", 0, 4096},
      {"TUTTI_IB_PCI_RELAXED_ORDERING", 0, 2},
      {"TUTTI_IB_ADAPTIVE_ROUTING", -1, 1},
      {"TUTTI_PORT", 0, 65535},
      {"TUTTI_RECORD_CALLS", 0, 1 << 28},
      {"TUTTI_SPIN_US", -1, 1'000'000'000},
      {"TUTTI_SLICE_US", 0, 100'000},
      {"TUTTI_RANK", -1, INT_MAX},
      {"TUTTI_NRANKS", -1, INT_MAX},
      {"TUTTI_LOCAL_RANK", -1, INT_MAX},
  };
  for (const Range& range : kRanges) {
    if (std::strcmp(range.name, v.name) == 0 && (value < range.least || value > range.most)) {
      return invalidUsage(ErrorCode::VariableOutOfRange, v.name, "=", value, " is outside ", range.least, "..",
                          range.most, "; set a number of that range, or leave it unset");
    }
  }
  const bool isPacketSize = value == 0 || (value >= 256 && std::has_single_bit(static_cast<uint64_t>(value)));
  if (std::strcmp(v.name, "TUTTI_IB_MTU") == 0 && !isPacketSize) {
    return invalidUsage(ErrorCode::VariableOutOfRange, v.name, "=", value, " is not 0, 256, 512, 1024, 2048 or 4096");
  }
  return {};
}

/// A text that is one of a few words; empty ones are none.
struct Choice {
  std::string_view name;
  std::array<std::string_view, 5> words;
};
constexpr Choice kChoices[] = {{"TUTTI_RECONNECT", {"none", "hosts", "all"}},
                               {"TUTTI_INTEGRITY", {"crc", "mac"}},
                               {"TUTTI_LINK_PROBE", {"auto", "off", "always"}},
                               {"TUTTI_NET_GDR_LEVEL", {"LOC", "PIX", "PXB", "PHB", "SYS"}}};

const Choice* findChoice(std::string_view name) {
  const auto* const found = std::ranges::find(kChoices, name, &Choice::name);
  return found == std::end(kChoices) ? nullptr : found;
}

Result<size_t> choiceOf(const Choice& choice, std::string_view value) {
  std::string known;
  for (size_t i = 0; i < choice.words.size() && !choice.words[i].empty(); ++i) {
    if (value == choice.words[i]) return i;
    known += cat(i == 0 ? "" : ", ", choice.words[i]);
  }
  std::vector<std::string> words(choice.words.begin(), choice.words.end());
  std::erase(words, "");
  return invalidUsage(ErrorCode::VariableValue, choice.name, "='", value, "' is none of: ", known,
                      didYouMean(value, words), "; set one of them, or leave it unset");
}

// What setDefault() has set.  Never destroyed: threads of the user's may outlive static destructors.
struct Defaults {
  ProcessMutex mutex;
  std::map<const Variable*, std::string> values;
};

Defaults& defaults() {
  static auto* const all = new Defaults;
  return *all;
}

/// The environment's value, else setDefault()'s, else "".
std::string valueSet(const Variable& v) {
  const char* set = std::getenv(v.name);
  if (set != nullptr && *set != '\0') return set;
  Defaults& all = defaults();
  const std::lock_guard lock(all.mutex);
  const auto found = all.values.find(&v);
  return found == all.values.end() ? "" : found->second;
}

}  // namespace

bool isSecret(std::string_view name) { return std::ranges::find(kSecrets, name) != std::end(kSecrets); }

std::span<const Variable> variables() { return kVariables; }

bool configIsSet(std::string_view name) { return !valueSet(find(name)).empty(); }

std::string configText(std::string_view name) {
  const Variable& v = find(name);
  std::string set = valueSet(v);
  return set.empty() ? v.defaultValue : set;
}

Status checkValue(std::string_view name, const std::string& value) {
  const Variable& v = find(name);
  if (v.kind != VariableKind::Text) {
    TUTTI_ASSIGN(const int64_t number, parse(v, value));
    return checkRange(v, number);
  }
  if (value.empty()) return {};
  std::string why;
  if (name == "TUTTI_LOG" && !checkLogSpec(value, &why))
    return invalidUsage(ErrorCode::VariableValue, "TUTTI_LOG: ", why);
  return findChoice(name) == nullptr ? Status() : asStatus(choiceOf(*findChoice(name), value));
}

Status setDefault(std::string_view name, const char* value) {
  const Variable* v = findOrNull(name);
  if (v == nullptr)
    return invalidArgument(ErrorCode::NoSuchVariable, "there is no variable '", name, "'", nearestVariable(name),
                           "; tutti-info --config lists them");
  // Launchers give the first five to each process; the next finds the library, and the last two are tutti-info's.
  for (const char* given :
       {"TUTTI_UNIQUE_ID", "TUTTI_RANK", "TUTTI_NRANKS", "TUTTI_LOCAL_RANK", "TUTTI_TERMINAL", "TUTTI_HOME",
        "TUTTI_GRAPH_FILE", "TUTTI_GRAPH_DUMP_FILE", "TUTTI_MALLOC_LEAST", "TUTTI_MALLOC_KEEP"}) {
    if (name == given)
      return invalidArgument(ErrorCode::NoSuchVariable, name,
                             " is read from the environment alone; set it there, before the program starts");
  }
  if (value != nullptr) {
    if (const Status status = checkValue(name, value); !status.ok()) return invalidArgument(status.text());
  }
  Defaults& all = defaults();
  const std::lock_guard lock(all.mutex);
  if (value == nullptr) {
    all.values.erase(v);
  } else {
    all.values[v] = value;
  }
  return {};
}

Result<int64_t> configInteger(std::string_view name) {
  const Variable& v = find(name);
  TUTTI_ASSIGN(const int64_t value, parse(v, configText(name)));
  TUTTI_TRY(checkRange(v, value));
  return value;
}

Result<size_t> configChoice(std::string_view name) {
  const Choice* const choice = findChoice(name);
  TUTTI_ASSERT(choice != nullptr);
  return choiceOf(*choice, configText(name));
}

std::vector<std::string> unknownVariables() {
  std::vector<std::string> sentences;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("TUTTI_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    // Of the tests, and of the benchmark programs, which say themselves what they do not know.
    bool known = name.starts_with("TUTTI_TEST_") || name.starts_with("TUTTI_TESTS_");
    for (const Variable& v : kVariables) known = known || name == v.name;
    if (known) continue;
    sentences.push_back(
        cat(name, " is not a variable of Tutti", nearestVariable(name), "; tutti-info --config lists them"));
  }
  return sentences;
}

Status checkConfig() {
  for (const Variable& v : kVariables) TUTTI_TRY(checkValue(v.name, configText(v.name)));
  // One rank says it where tutti-run has given all of them the same environment.
  if (const char* const rank = std::getenv("TUTTI_RANK"); rank != nullptr && std::string_view(rank) != "0") return {};
  for (const std::string& sentence : unknownVariables()) TUTTI_WARN("config", sentence);
  return {};
}

}  // namespace tutti
