// What the API answers when it is used wrongly, and when ranks disagree.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <chrono>

#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

std::string expectError(tuttiResult_t got, tuttiResult_t wanted, tuttiComm_t comm, const std::string& words) {
  const std::string text = tuttiGetLastError(comm);
  if (got != wanted) return "gave " + std::to_string(got) + " and not " + std::to_string(wanted) + ": " + text;
  if (text.find(words) == std::string::npos) return "'" + text + "' does not say '" + words + "'";
  return "";
}

}  // namespace

TEST_CASE("a wrong argument is refused with a sentence, and the communicator stays usable") {
  CHECK(onRanks(2, [](const Rank& r) {
          float x[4] = {1, 2, 3, 4}, y[4] = {};
          const auto bad = tuttiInvalidArgument;
          struct Row {
            tuttiResult_t got;
            const char* words;
          };
          const auto check = [&](tuttiResult_t got, const char* words) { return expectError(got, bad, r.comm, words); };
          std::string why =
              check(tuttiAllReduce(nullptr, y, 1, tuttiFloat32, tuttiSum, r.comm, nullptr), "sendbuff is NULL");
          if (why.empty())
            why = check(tuttiAllReduce(x, nullptr, 1, tuttiFloat32, tuttiSum, r.comm, nullptr), "recvbuff is NULL");
          if (why.empty())
            why =
                check(tuttiAllReduce(x, y, 1, static_cast<tuttiDataType_t>(15), tuttiSum, r.comm, nullptr), "dtype 15");
          if (why.empty())
            why = check(tuttiAllReduce(x, y, 1, tuttiFloat32, static_cast<tuttiRedOp_t>(99), r.comm, nullptr), "op 99");
          if (why.empty()) why = check(tuttiAllReduce(x, y, 1, tuttiFloat32, tuttiBand, r.comm, nullptr), "band");
          if (why.empty()) why = check(tuttiAllReduce(x, x + 1, 3, tuttiFloat32, tuttiSum, r.comm, nullptr), "overlap");
          if (why.empty()) why = check(tuttiBroadcast(x, y, 1, tuttiFloat32, 2, r.comm, nullptr), "root 2");
          if (why.empty()) why = check(tuttiSend(x, 1, tuttiFloat32, -1, r.comm, nullptr), "peer -1");
          if (why.empty())
            why = check(tuttiAllReduce(x, y, SIZE_MAX / 2, tuttiFloat32, tuttiSum, r.comm, nullptr), "does not fit");
          if (why.empty()) why = check(tuttiRedOpDestroy(tuttiSum, r.comm), "built in");
          if (why.empty()) why = check(tuttiCommDeregister(r.comm, x), "not a registration");
          if (!why.empty()) return why;
          RANK_TRY(tuttiAllReduce(x, y, 4, tuttiFloat32, tuttiSum, r.comm, nullptr));
          RANK_CHECK(y[3] == 8);
          return std::string();
        }) == "");
}

TEST_CASE("a buffer that holds nothing of a rank's may be NULL, and only such a one") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          const size_t counts[] = {2, 0, 1}, displs[] = {0, 2, 2};
          const size_t own = counts[r.rank];
          float x[3] = {1, 2, 3}, y[3] = {};
          const auto missing = [&](tuttiResult_t got, const char* words) {
            return expectError(got, tuttiInvalidArgument, r.comm, words);
          };
          // The calls are refused before anything is sent, so the other ranks need not make them.
          std::string why = missing(
              tuttiReduceScatterv(nullptr, y, counts, displs, tuttiFloat32, tuttiSum, r.comm, nullptr), "sendbuff");
          if (why.empty() && own > 0) {
            why = missing(tuttiReduceScatterv(x, nullptr, counts, displs, tuttiFloat32, tuttiSum, r.comm, nullptr),
                          "recvbuff is NULL");
          }
          if (why.empty() && own > 0) {
            why = missing(tuttiAllGatherv(nullptr, own, y, counts, displs, tuttiFloat32, r.comm, nullptr),
                          "sendbuff is NULL");
          }
          if (!why.empty()) return why;
          RANK_TRY(
              tuttiReduceScatterv(x, own > 0 ? y : nullptr, counts, displs, tuttiFloat32, tuttiSum, r.comm, nullptr));
          RANK_CHECK((own == 0 || y[0] == 3 * x[displs[r.rank]]));
          float all[3] = {};
          RANK_TRY(tuttiAllGatherv(own > 0 ? x : nullptr, own, all, counts, displs, tuttiFloat32, r.comm, nullptr));
          RANK_CHECK((all[0] == 1 && all[1] == 2 && all[2] == 1));
          RANK_TRY(tuttiAllReduce(nullptr, nullptr, 0, tuttiFloat32, tuttiSum, r.comm, nullptr));
          return "";
        }) == "");
}

TEST_CASE("calls without a communicator are refused") {
  float x = 0;
  CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat32, tuttiSum, nullptr, nullptr) == tuttiInvalidArgument);
  CHECK(std::string(tuttiGetLastError(nullptr)).find("comm is NULL") != std::string::npos);
  CHECK(tuttiGroupEnd() == tuttiInvalidUsage);
  tuttiUniqueId id{};
  tuttiComm_t comm = nullptr;
  CHECK(tuttiCommInitRank(&comm, 2, id, 0) == tuttiInvalidArgument);
  CHECK(tuttiCommInitRank(&comm, 2, id, 2) == tuttiInvalidArgument);
  CHECK(tuttiCommInitRank(&comm, 0, id, 0) == tuttiInvalidArgument);
  CHECK(comm == nullptr);
}

TEST_CASE("use after destroy has an answer") {
  tuttiUniqueId id;
  REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
  tuttiComm_t comm = nullptr;
  REQUIRE(tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess);
  REQUIRE(tuttiCommDestroy(comm) == tuttiSuccess);
  float x = 0;
  CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat32, tuttiSum, comm, nullptr) == tuttiInvalidArgument);
  CHECK(std::string(tuttiGetLastError(comm)).find("destroyed") != std::string::npos);
  CHECK(tuttiCommDestroy(comm) == tuttiInvalidArgument);
}

// What the C library says is held; sanitizers have an allocator of their own, of which it knows nothing.
TEST_CASE("handles of communicators that are gone take no memory for ever") {
  CHECK(onRanks(1, [](const Rank& r) -> std::string {
          const auto makeAndDestroy = [&](int times) -> std::string {
            for (int i = 0; i < times; ++i) {
              tuttiComm_t child = nullptr;
              RANK_TRY(tuttiCommSplit(r.comm, 0, 0, &child, nullptr));
              RANK_TRY(tuttiCommDestroy(child));
            }
            return "";
          };
          if (std::string why = makeAndDestroy(300); !why.empty()) return why;
          const size_t before = mallinfo2().uordblks;
          if (std::string why = makeAndDestroy(300); !why.empty()) return why;
          const auto more = static_cast<long>(mallinfo2().uordblks) - static_cast<long>(before);
          return more < 20'000 ? "" : "300 communicators have left " + std::to_string(more) + " bytes";
        }) == "");
}

TEST_CASE("with a bad call in a group nothing of the group is started") {
  CHECK(onRanks(2, [](const Rank& r) {
          float x = 1, y = 0;
          RANK_TRY(tuttiGroupStart());
          RANK_TRY(tuttiAllReduce(&x, &y, 1, tuttiFloat32, tuttiSum, r.comm, nullptr));
          (void)tuttiAllReduce(&x, nullptr, 1, tuttiFloat32, tuttiSum, r.comm, nullptr);
          RANK_CHECK(tuttiGroupEnd() == tuttiInvalidArgument);
          RANK_CHECK(y == 0);
          RANK_TRY(tuttiAllReduce(&x, &y, 1, tuttiFloat32, tuttiSum, r.comm, nullptr));
          RANK_CHECK(y == 2);
          return std::string();
        }) == "");
}

TEST_CASE("ranks that disagree all learn who differs, and how") {
  struct Row {
    const char* what;
    std::function<tuttiResult_t(const Rank&, float*)> odd;
  };
  const int odd = 2;
  const std::vector<Row> rows = {
      {"count",
       [](const Rank& r, float* x) { return tuttiAllReduce(x, x, 5, tuttiFloat32, tuttiSum, r.comm, nullptr); }},
      {"type", [](const Rank& r, float* x) { return tuttiAllReduce(x, x, 4, tuttiInt32, tuttiSum, r.comm, nullptr); }},
      {"operator",
       [](const Rank& r, float* x) { return tuttiAllReduce(x, x, 4, tuttiFloat32, tuttiMax, r.comm, nullptr); }},
  };
  for (const Row& row : rows) {
    DYNAMIC_SECTION(row.what) {
      std::vector<std::string> texts(4);
      const std::string complaints = onRanks(4, [&](const Rank& r) {
        std::vector<float> x(64, 1);
        const tuttiResult_t result =
            r.rank == odd ? row.odd(r, x.data())
                          : tuttiAllReduce(x.data(), x.data(), 4, tuttiFloat32, tuttiSum, r.comm, nullptr);
        texts[static_cast<size_t>(r.rank)] = std::to_string(result) + " " + tuttiGetLastError(r.comm);
        return std::string("ends with an abort");
      });
      for (const std::string& text : texts) {
        CAPTURE(text);
        CHECK(text.substr(0, 2) == "5 ");  // tuttiInvalidUsage
        CHECK(text.find("rank 2") != std::string::npos);
        CHECK(text.find("count 4, float, sum") != std::string::npos);
      }
    }
  }
}

TEST_CASE("ranks that disagree on counts by rank learn that these differ, and see no checksum as a count") {
  std::vector<std::string> texts(3);
  (void)onRanks(3, [&](const Rank& r) {
    std::vector<size_t> counts = {1000, 2000, 3000}, displs = {0, 1000, 3000};
    if (r.rank == 1) counts = {1000, 2000, 2999};
    std::vector<float> all(6000, 1);
    (void)tuttiAllGatherv(all.data(), counts[static_cast<size_t>(r.rank)], all.data(), counts.data(), displs.data(),
                          tuttiFloat32, r.comm, nullptr);
    texts[static_cast<size_t>(r.rank)] = tuttiGetLastError(r.comm);
    return std::string("ends with an abort");
  });
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.find("rank 1 called AllGatherv number 1 (counts with checksum ") != std::string::npos);
    CHECK(text.find("where ranks 0 and 2 called AllGatherv number 1 (counts with checksum ") != std::string::npos);
    CHECK(text.find("count 1") == std::string::npos);
  }
}

TEST_CASE("ranks that disagree on the root learn it though every one of them has only sent") {
  const std::string transports = GENERATE(std::string("shm,self"), std::string("tcp,self"));
  const int nRanks = GENERATE(2, 3, 5);
  CAPTURE(transports, nRanks);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.transports = transports.c_str();
  std::vector<std::string> texts(static_cast<size_t>(nRanks));
  (void)onRanks(
      nRanks,
      [&](const Rank& r) {
        float x = 1;
        (void)tuttiBroadcast(&x, &x, 1, tuttiFloat32, r.rank == 1 ? 1 : 0, r.comm, nullptr);
        // No further call: the news comes by itself.
        tuttiResult_t state = tuttiSuccess;
        for (int ms = 0; ms < 10'000 && state == tuttiSuccess; ++ms) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          if (tuttiCommGetAsyncError(r.comm, &state) != tuttiSuccess) return std::string("no state");
        }
        texts[static_cast<size_t>(r.rank)] = std::to_string(state) + " " + tuttiGetLastError(r.comm);
        return std::string("ends with an abort");
      },
      &config);
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(text.substr(0, 2) == "5 ");  // tuttiInvalidUsage
    CHECK(text.find("root 0") != std::string::npos);
    CHECK(text.find("root 1") != std::string::npos);
  }
}
