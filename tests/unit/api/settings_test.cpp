// What a program sets for its process and its communicators, places agreed upon beforehand, and simulated groups.
#include <arpa/inet.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "src/base/config.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/variable.hpp"

using namespace tutti::test;

namespace {

/// A default that is taken back.
struct Default {
  const char* name;
  tuttiResult_t result;
  Default(const char* n, const char* value) : name(n), result(tuttiSetDefault(n, value)) {}
  ~Default() { (void)tuttiSetDefault(name, nullptr); }
};

tuttiResult_t makeOne(const tuttiConfig_t& options) {
  tuttiUniqueId id;
  if (const tuttiResult_t none = tuttiGetUniqueId(&id); none != tuttiSuccess) return none;
  tuttiConfig_t config = options;
  tuttiComm_t comm = nullptr;
  const tuttiResult_t result = tuttiCommInitRankConfig(&comm, 1, id, 0, &config);
  if (result == tuttiSuccess) return tuttiCommDestroy(comm);
  return result;
}

tuttiResult_t makeOne() { return makeOne(TUTTI_CONFIG_INITIALIZER); }

bool lastErrorHas(const char* part) { return std::strstr(tuttiGetLastError(nullptr), part) != nullptr; }

/// A port that nobody listens at.
int freePort() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  int port = 0;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) == 0) {
    port = ntohs(address.sin_port);
  }
  ::close(fd);
  return port;
}

}  // namespace

TEST_CASE("a default that a program sets holds where the environment is silent") {
  const auto channels = [] {
    int n = 0;
    const std::string complaint = onRanks(2, [&](const Rank& r) -> std::string {
      tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
      RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 1 << 20, tuttiFloat, tuttiSum, 0, &e));
      if (r.rank == 0) n = e.nChannels;
      return "";
    });
    CHECK(complaint == "");
    return n;
  };
  const Default three("TUTTI_NCHANNELS", "3");
  REQUIRE(three.result == tuttiSuccess);
  CHECK(channels() == 3);
  {
    const Variable environment("TUTTI_NCHANNELS", "2");
    CHECK(channels() == 2);
  }
  REQUIRE(tuttiSetDefault("TUTTI_NCHANNELS", nullptr) == tuttiSuccess);
  CHECK(channels() == 1);
}

TEST_CASE("a default for a variable that does not exist, or a value that it cannot have, is refused") {
  CHECK(tuttiSetDefault("TUTTI_COLOUR", "red") == tuttiInvalidArgument);
  CHECK(lastErrorHas("TUTTI_COLOUR"));
  CHECK(tuttiSetDefault("TUTTI_SLOTS", "100000") == tuttiInvalidArgument);
  CHECK(tuttiSetDefault(nullptr, "1") == tuttiInvalidArgument);
  CHECK(makeOne() == tuttiSuccess);
}

// A variable of the table that has no row here fails the test.  wrong: nullptr where any text will do; a variable with
// neither value has no default.
TEST_CASE("a default is refused for what the environment is refused for, and may be all else") {
  struct Row {
    const char *wrong, *right;
    const char* says = "";  // besides the variable
  };
  const std::map<std::string_view, Row> rows = {
      {"TUTTI_ALGO", {"rng", "ring", "ring, "}},
      {"TUTTI_ALGO_STRICT", {"2", "1", "neither 0 nor 1"}},
      {"TUTTI_PROTO", {"telepathy", "slots", "inline, slots and direct"}},
      {"TUTTI_JOIN", {"maybe", "1", "set 0"}},
      {"TUTTI_TRANSPORTS", {"carrier-pigeon", "^tcp", "known are self, shm, "}},
      {"TUTTI_DEVICE", {"toaster", "host", "auto, host or cuda"}},
      {"TUTTI_CUDA_EXECUTOR", {"nobody", "stream", "resident, stream or proxy"}},
      {"TUTTI_NCHANNELS", {"-1", "2", "0..64"}},
      {"TUTTI_TIMEOUT_MS", {"soon", "5000", "whole number"}},
      {"TUTTI_REPRODUCIBLE", {"2", "1", "neither 0 nor 1"}},
      {"TUTTI_SLOT_BYTES", {"1", "64K", "outside"}},
      {"TUTTI_SLOTS", {"many", "8", "whole number"}},
      {"TUTTI_SOCKET_IFNAME", {"=nosuch0", "=lo", "nosuch0"}},
      {"TUTTI_SOCKET_FAMILY", {"ipx", "inet", "neither inet nor inet6"}},
      {"TUTTI_NSOCKETS", {"17", "1", "1..16"}},
      {"TUTTI_RECONNECT", {"always", "none", "none, hosts, all"}},
      {"TUTTI_RECONNECT_MS", {"later", "5000", "whole number"}},
      {"TUTTI_HOST_GONE_MS", {"10", "4000", "1000..3600000"}},
      {"TUTTI_RECONNECT_BYTES", {"1", "4M", "outside"}},
      {"TUTTI_ENCRYPT", {"2", "0", "neither 0 nor 1"}},
      {"TUTTI_INTEGRITY", {"sha", "crc", "crc, mac"}},
      {"TUTTI_CHECK_RESULTS", {"-1", "10", "0..1073741824"}},
      {"TUTTI_RETRY", {"2", "1", "neither 0 nor 1"}},
      {"TUTTI_TCP_CONGESTION", {"pigeon", "reno", "has no tcp congestion control"}},
      {"TUTTI_TCP_BUSY_POLL_US", {"-1", "50", "0..1000000"}},
      {"TUTTI_IB_HCA", {nullptr, "=mlx5_0:1"}},
      {"TUTTI_IB_RAILS", {"5", "2", "1..4"}},
      {"TUTTI_IB_QPS_PER_CONNECTION", {"0", "4", "1..16"}},
      {"TUTTI_IB_SPLIT_DATA_ON_QPS", {"2", "1", "neither 0 nor 1"}},
      {"TUTTI_IB_ADDR_FAMILY", {"AF_UNIX", "AF_INET6", "neither AF_INET nor AF_INET6"}},
      {"TUTTI_IB_ADDR_RANGE", {"10.0.0.0/99", "10.0.0.0/8", "is no range of addresses"}},
      {"TUTTI_IB_ROCE_VERSION_NUM", {"3", "2", "0..2"}},
      {"TUTTI_IB_PKEY", {"-1", "1", "0..65535"}},
      {"TUTTI_IB_PCI_RELAXED_ORDERING", {"3", "0", "0..2"}},
      {"TUTTI_IB_ADAPTIVE_ROUTING", {"2", "1", "-1..1"}},
      {"TUTTI_IB_AR_THRESHOLD", {"lots", "16K", "is not a size"}},
      {"TUTTI_NET_GDR_LEVEL", {"NVL", "SYS", "is none of: LOC, PIX, PXB, PHB, SYS"}},
      {"TUTTI_IB_GID_INDEX", {"256", "3", "-1..255"}},
      {"TUTTI_IB_TC", {"256", "106", "0..255"}},
      {"TUTTI_IB_SL", {"16", "3", "0..15"}},
      {"TUTTI_IB_TIMEOUT", {"0", "20", "1..31"}},
      {"TUTTI_IB_RETRY_CNT", {"8", "5", "0..7"}},
      {"TUTTI_IB_MTU", {"1000", "1024", "is not 0, 256, 512, 1024, 2048 or 4096"}},
      {"TUTTI_NET_PLUGIN", {nullptr, "none"}},
      {"TUTTI_NET_PLUGIN_DEVICE", {nullptr, "efa0"}},
      {"TUTTI_PLUGIN_TRANSPORT", {nullptr, "tcp"}},
      {"TUTTI_PROFILER_PLUGIN", {nullptr, "none"}},
      {"TUTTI_TUNER_PLUGIN", {nullptr, "none"}},
      {"TUTTI_ADOPT", {"2", "0", "neither 0 nor 1"}},
      {"TUTTI_MALLOC_LEAST", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_MALLOC_KEEP", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_CMA", {"yes", "0", "neither 0 nor 1"}},
      {"TUTTI_LOG", {"loud", "error", "warn, info"}},
      {"TUTTI_EXPLAIN", {"why", "0", "neither 0 nor 1"}},
      {"TUTTI_PLAN_DIR", {"/nonexistent/plans", "/usr", "plans"}},
      {"TUTTI_CALIBRATION", {nullptr, "off"}},
      {"TUTTI_LEARN", {"3", "0", "outside 0..2"}},
      {"TUTTI_LINK_PROBE", {"sometimes", "off", "auto, off, always"}},
      {"TUTTI_TOPO_FILE", {"/nonexistent/machine.xml", "node:1 l3:2", "cannot read"}},
      {"TUTTI_TOPO_CPUS", {"0-x", "0/1"}},
      {"TUTTI_TOPO_DUMP_FILE", {nullptr, "/nonexistent/machine.xml"}},  // rank 0's host may have the folder
      {"TUTTI_GRAPH_FILE", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_GRAPH_DUMP_FILE", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_TRACE", {"/tmp/rank%r", "/tmp/records", "has no %c"}},
      {"TUTTI_RECORD_CALLS", {"-1", "1000", "outside 0.."}},
      {"TUTTI_DUMP", {"/tmp/%c-%r-%q", "/tmp/%c-%r", "%q is none of"}},
      {"TUTTI_DUMP_SIGNAL", {"KILL", "USR2", "none of HUP, QUIT, USR1"}},
      {"TUTTI_MONITOR", {"2", "0", "neither 0 nor 1"}},
      {"TUTTI_WAIT", {"nap", "yield", "spin, yield or block"}},
      {"TUTTI_WIRE", {"fp16", "int8", "bf16, fp8 or int8"}},
      {"TUTTI_SPIN_US", {"-2", "100", "-1.."}},
      {"TUTTI_SLICE_US", {"1s", "100", "whole number"}},
      {"TUTTI_PORT", {"65536", "4000", "0..65535"}},
      {"TUTTI_SECRET", {nullptr, "hush"}},
      {"TUTTI_UNIQUE_ID", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_RANK", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_NRANKS", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_LOCAL_RANK", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_TERMINAL", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_HOME", {nullptr, nullptr, "environment alone"}},
      {"TUTTI_HOSTID", {nullptr, "here"}},
  };
  for (const tutti::Variable& variable : tutti::variables()) {
    CAPTURE(variable.name);
    const auto found = rows.find(variable.name);
    REQUIRE(found != rows.end());
    const Row& row = found->second;
    const auto refused = [&](const char* value) {
      CAPTURE(value);
      CHECK(tuttiSetDefault(variable.name, value) == tuttiInvalidArgument);
      CHECK(lastErrorHas(variable.name));
      CHECK(lastErrorHas(row.says));
    };
    if (row.wrong == nullptr && row.right == nullptr) {
      refused("1");
      continue;
    }
    CHECK(Default(variable.name, row.right).result == tuttiSuccess);
    if (row.wrong == nullptr) continue;
    refused(row.wrong);
    const Variable environment(variable.name, row.wrong);
    const tuttiResult_t result = makeOne();
    CHECK((result == tuttiInvalidUsage || result == tuttiSystemError));
    CHECK(lastErrorHas(variable.name));
    CHECK(lastErrorHas(row.says));
  }
  CHECK(makeOne() == tuttiSuccess);
}

TEST_CASE("ranks on a device that is not there are refused, and the variable counts where config is silent") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  {
    const Variable device("TUTTI_DEVICE", "toaster");
    CHECK(makeOne() == tuttiInvalidUsage);
  }
  const Variable device("TUTTI_DEVICE", "host");
  CHECK(makeOne() == tuttiSuccess);
  config.device = TUTTI_DEVICE_HOST;
  CHECK(makeOne(config) == tuttiSuccess);
}

TEST_CASE("transports that this build does not have can be excluded, but not asked for") {
  {
    const Variable excluded("TUTTI_TRANSPORTS", "^verbs,ucx");
    CHECK(makeOne() == tuttiSuccess);
  }
  const Variable wrong("TUTTI_TRANSPORTS", "^carrier-pigeon");
  CHECK(makeOne() == tuttiInvalidUsage);
}

TEST_CASE("ranks that wait in different ways work together") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  for (const int wrong : {-1, 4}) {
    config.waitMode = wrong;
    CHECK(makeOne(config) == tuttiInvalidArgument);
    CHECK(lastErrorHas("config.waitMode"));
  }
  const char* const byVariable = GENERATE(as<const char*>{}, nullptr, "spin", "block");
  const Default variable("TUTTI_WAIT", byVariable);
  CHECK(onThreads(3, [](int rank, const tuttiUniqueId& id) {
          tuttiConfig_t own = TUTTI_CONFIG_INITIALIZER;
          const int modes[] = {TUTTI_WAIT_BLOCK, TUTTI_WAIT_YIELD, TUTTI_CONFIG_UNDEF_INT};
          own.waitMode = modes[rank];
          return asRank(rank, 3, id, own, [](const Rank& r) -> std::string {
            for (int i = 1; i <= 50; ++i) {
              int x = i;
              RANK_TRY(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, r.comm, nullptr));
              RANK_CHECK(x == 3 * i);
            }
            return "";
          });
        }) == "");
}

TEST_CASE("a config of a header without waitMode is taken as it is") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.size = offsetof(tuttiConfig_t, waitMode);
  config.waitMode = 77;  // what lies behind it
  CHECK(makeOne(config) == tuttiSuccess);
}

TEST_CASE("a wire format is one of those that there are, and a config of a header without it is taken as it is") {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  for (const int wrong : {-1, 4}) {
    config.wire = wrong;
    CHECK(makeOne(config) == tuttiInvalidArgument);
    CHECK(lastErrorHas("config.wire"));
  }
  config.size = offsetof(tuttiConfig_t, wire);  // 4 lies behind it
  CHECK(makeOne(config) == tuttiSuccess);
  // Ranks of one host round nothing.
  tuttiConfig_t narrow = TUTTI_CONFIG_INITIALIZER;
  narrow.wire = TUTTI_WIRE_INT8;
  CHECK(onRanks(
            3,
            [](const Rank& r) -> std::string {
              std::vector<float> x(20'000, 1 + 0x1p-20f);
              RANK_TRY(tuttiAllReduce(x.data(), x.data(), x.size(), tuttiFloat32, tuttiSum, r.comm, nullptr));
              for (const float sum : x) RANK_CHECK(sum == 3 + 0x3p-20f);
              return "";
            },
            &narrow) == "");
}

TEST_CASE("the number of channels stays within the bounds of the config") {
  struct Row {
    int least, most, asked, expected;
  };
  const int undefined = TUTTI_CONFIG_UNDEF_INT;
  const auto row = GENERATE_REF(values<Row>({{undefined, undefined, undefined, 1},
                                             {2, undefined, undefined, 2},
                                             {3, 3, undefined, 3},
                                             {2, 64, 4, 4},
                                             {40, undefined, undefined, 8},
                                             {undefined, 1, undefined, 1}}));
  CAPTURE(row.least, row.most, row.asked);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.minChannels = row.least;
  config.maxChannels = row.most;
  config.nChannels = row.asked;
  CHECK(onRanks(
            2,
            [&](const Rank& r) -> std::string {
              tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
              RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 1 << 20, tuttiFloat, tuttiSum, 0, &e));
              RANK_CHECK(e.nChannels == row.expected);
              std::vector<float> data(100000, 1);
              RANK_TRY(tuttiAllReduce(data.data(), data.data(), data.size(), tuttiFloat, tuttiSum, r.comm, nullptr));
              for (const float x : data) RANK_CHECK(x == 2);
              return "";
            },
            &config) == "");
  config.minChannels = 3;
  config.maxChannels = 2;
  CHECK(makeOne(config) == tuttiInvalidArgument);
}

TEST_CASE("what a config says of channels goes before the environment, and children have it from their parent") {
  const Variable environment("TUTTI_NCHANNELS", "4");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  for (const int asked : {TUTTI_CONFIG_UNDEF_INT, 2}) {
    config.nChannels = asked;
    CHECK(onRanks(
              2,
              [&](const Rank& r) -> std::string {
                tuttiComm_t child = nullptr;
                RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &child, nullptr));
                for (tuttiComm_t comm : {r.comm, child}) {
                  tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
                  RANK_TRY(tuttiCommEstimate(comm, tuttiCallAllReduce, 1 << 20, tuttiFloat, tuttiSum, 0, &e));
                  RANK_CHECK(e.nChannels == (asked == 2 ? 2 : 4));
                }
                RANK_TRY(tuttiCommDestroy(child));
                return "";
              },
              &config) == "");
  }
}

namespace {

/// Three ranks meet at an address, of which the first listens there already; their complaints.
std::string meetAt(const std::string& address, const tuttiUniqueId& first) {
  return onThreads(3, [&](int rank, const tuttiUniqueId&) -> std::string {
    tuttiUniqueId id = first;
    tuttiComm_t comm = nullptr;
    if (rank != 0) RANK_TRY(tuttiGetUniqueIdAt(address.c_str(), 0, &id));
    RANK_TRY(tuttiCommInitRank(&comm, 3, id, rank));
    int sum = rank;
    RANK_TRY(tuttiAllReduce(&sum, &sum, 1, tuttiInt, tuttiSum, comm, nullptr));
    RANK_CHECK(sum == 3);
    RANK_TRY(tuttiCommDestroy(comm));
    return "";
  });
}

}  // namespace

TEST_CASE("ranks meet at a place that they agreed on, again and again") {
  // Another program may take a port between our look and our use of it: then another one does.
  int rounds = 0;
  for (int tries = 0; tries < 20 && rounds < 2; ++tries) {
    const std::string address = "127.0.0.1:" + std::to_string(freePort());
    tuttiUniqueId first;
    for (rounds = 0; rounds < 2 && tuttiGetUniqueIdAt(address.c_str(), 1, &first) == tuttiSuccess; ++rounds) {
      CHECK(meetAt(address, first) == "");
    }
  }
  INFO(tuttiGetLastError(nullptr));
  CHECK(rounds == 2);
}

TEST_CASE("an address that is none gives no rendezvous") {
  tuttiUniqueId id;
  for (const char* address : {"", "localhost", ":1", "localhost:", "localhost:0", "localhost:70000", "fd00::1:99999",
                              "[]:5", "localhost:12x"}) {
    CAPTURE(address);
    CHECK(tuttiGetUniqueIdAt(address, 0, &id) == tuttiInvalidArgument);
  }
  CHECK(tuttiGetUniqueIdAt(nullptr, 0, &id) == tuttiInvalidArgument);
  CHECK(tuttiGetUniqueIdAt("127.0.0.1:5000", 2, &id) == tuttiInvalidArgument);
  CHECK(tuttiGetUniqueIdAt("127.0.0.1:5000", 0, nullptr) == tuttiInvalidArgument);
}

TEST_CASE("a simulated group tells a time and moves nothing") {
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          float mine = static_cast<float>(r.rank), sum = -1;
          double one = 0, two = 0, inner = -1;
          const auto call = [&] { return tuttiAllReduce(&mine, &sum, 1, tuttiFloat, tuttiSum, r.comm, nullptr); };
          RANK_TRY(tuttiGroupStart());
          RANK_TRY(call());
          RANK_TRY(tuttiGroupSimulateEnd(&one));
          RANK_TRY(tuttiGroupStart());
          RANK_TRY(call());
          RANK_TRY(tuttiGroupStart());
          RANK_TRY(call());
          RANK_TRY(tuttiGroupSimulateEnd(&inner));
          RANK_TRY(tuttiGroupSimulateEnd(&two));
          RANK_CHECK(sum == -1);
          RANK_CHECK(one > 0);
          RANK_CHECK(inner == 0);
          RANK_CHECK(two == 2 * one);
          RANK_TRY(call());
          RANK_CHECK(sum == 1);
          return "";
        }) == "");
  double timeUs = 0;
  CHECK(tuttiGroupSimulateEnd(&timeUs) == tuttiInvalidUsage);
  CHECK(tuttiGroupStart() == tuttiSuccess);
  CHECK(tuttiGroupSimulateEnd(nullptr) == tuttiInvalidArgument);
  CHECK(tuttiGroupEnd() == tuttiSuccess);
}
