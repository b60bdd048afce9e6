// What a program sets for its process and its communicators, places agreed upon beforehand, and simulated groups.
#include <arpa/inet.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>

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
  if (tuttiGetUniqueId(&id) != tuttiSuccess) return tuttiSystemError;
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
  const Default algorithm("TUTTI_ALGO", "allreduce:nonsense");
  REQUIRE(algorithm.result == tuttiSuccess);
  CHECK(makeOne() == tuttiInvalidUsage);
  CHECK(lastErrorHas("nonsense"));
  {
    const Variable environment("TUTTI_ALGO", "allreduce:ring");
    CHECK(makeOne() == tuttiSuccess);
  }
  REQUIRE(tuttiSetDefault("TUTTI_ALGO", nullptr) == tuttiSuccess);
  CHECK(makeOne() == tuttiSuccess);
}

TEST_CASE("a default for a variable that does not exist, or a value that it cannot have, is refused") {
  CHECK(tuttiSetDefault("TUTTI_COLOUR", "red") == tuttiInvalidArgument);
  CHECK(lastErrorHas("TUTTI_COLOUR"));
  CHECK(tuttiSetDefault("TUTTI_SLOTS", "many") == tuttiInvalidArgument);
  CHECK(tuttiSetDefault("TUTTI_SLOTS", "100000") == tuttiInvalidArgument);
  CHECK(tuttiSetDefault(nullptr, "1") == tuttiInvalidArgument);
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

TEST_CASE("an address that is none gives no meeting place") {
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
