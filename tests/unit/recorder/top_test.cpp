// tutti-top's answers read, and what is made of them.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <regex>

#include "tools/top/serve.hpp"
#include "tools/top/views.hpp"

using namespace tutti;
using namespace tutti::top;

namespace {

constexpr const char* kAnswer =
    R"json({"format":1,"pid":4711,"host":"node1","communicators":[
      {"communicator":255,"name":"t\"p","nRanks":3,"failure":"","ranks":[
        {"rank":0,"pid":4711,"answered":true,"left":false,"calls":7,"bytes":700,"collectives":6,
         "doing":"AllReduce number 6 (count 4, float, sum)","doingNs":1500000000,"waitingOn":2},
        {"rank":1,"pid":4712,"silentMs":3200,"answered":false},
        {"rank":2,"pid":4713,"answered":true,"left":false,"calls":5,"bytes":500,"collectives":5,
         "doing":"","doingNs":0,"waitingOn":-1}]}]})json";

Snapshot canned() {
  Result<Snapshot> snapshot = parseAnswer(kAnswer);
  REQUIRE(snapshot.status().message() == "");
  return *snapshot;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the table says what each rank is in, and how fast it goes") {
  Snapshot before = canned(), now = canned();
  now[0].takenNs = before[0].takenNs + 2'000'000'000;
  now[0].ranks[2].calls = 105;
  now[0].ranks[2].bytes = 2'000'000'500;
  const std::string text = table(now, before);
  CHECK(has(text, "communicator 't\"p' 00000000000000ff, 3 ranks, on node1 (process 4711)"));
  CHECK(has(text, "AllReduce number 6 (count 4, float, sum) for 1.5 s, waits for rank 2"));
  CHECK(std::regex_search(text, std::regex("1 +4712 .*does not answer; its host has been silent for 3\\.2 s")));
  CHECK(std::regex_search(text, std::regex("2 +4713 +105 +50 +1\\.000  between calls")));
  CHECK(has(table({}, {}), "no communicator"));
}

TEST_CASE("metrics are lines that Prometheus takes") {
  const std::string text = prometheus(canned());
  const std::regex sample(R"re([a-z_]+\{([a-z]+="(\\.|[^"\\])*",?)+\} -?[0-9.e+-]+)re");
  size_t samples = 0;
  std::string line;
  for (std::istringstream lines(text); std::getline(lines, line);) {
    CAPTURE(line);
    if (line.rfind("# ", 0) == 0) continue;
    CHECK(std::regex_match(line, sample));
    ++samples;
  }
  CHECK(samples == 7 * 3 + 1);
  CHECK(has(text, "tutti_pending_seconds{communicator=\"00000000000000ff\",name=\"t\\\"p\",rank=\"0\"} 1.5"));
}

TEST_CASE("ncclras and Prometheus are answered line by line") {
  const auto snapshot = [] { return Result<Snapshot>(canned()); };
  Conversation ras(snapshot);
  CHECK(ras.onLine("client protocol 2") == "SERVER PROTOCOL 2\n");
  CHECK(ras.onLine("TIMEOUT 5") == "OK\n");
  CHECK(has(ras.onLine("LAUNCH"), "ERROR: unknown command LAUNCH"));
  CHECK_FALSE(ras.done());
  const std::string status = ras.onLine("STATUS");
  CHECK(ras.done());
  CHECK(has(status, "INCOMPLETE"));
  CHECK(has(status, "Rank 1 (process 4712)"));
  CHECK_FALSE(has(status, "Rank 0 ("));
  Conversation json(snapshot);
  CHECK(json.onLine("SET FORMAT json") == "OK\n");
  const nlohmann::json j = nlohmann::json::parse(json.onLine("VERBOSE STATUS"));
  CHECK(j["communicators"][0]["size"] == 3);
  CHECK(j["communicators"][0]["ranks"].size() == 2);
  CHECK(j["communicators"][0]["missing_ranks"][0]["rank"] == 1);
  Conversation http(snapshot);
  CHECK(http.onLine("GET /metrics HTTP/1.1") == "");
  CHECK(http.onLine("Host: x") == "");
  CHECK(has(http.onLine(""), "HTTP/1.0 200 OK\r\n"));
  CHECK(http.done());
  Conversation elsewhere(snapshot);
  elsewhere.onLine("GET / HTTP/1.1");
  CHECK(has(elsewhere.onLine(""), "404"));
}

TEST_CASE("a communicator's health is that of its slowest rank") {
  Snapshot now = canned();
  CHECK(healthOf(now[0]) == Health::Incomplete);
  now[0].ranks[1] = now[0].ranks[2];
  CHECK(healthOf(now[0]) == Health::Mismatch);
  for (RankNow& rank : now[0].ranks) rank.collectives = 6;
  CHECK(healthOf(now[0]) == Health::Running);
  now[0].failure = "rank 2 is gone";
  CHECK(healthOf(now[0]) == Health::Failed);
  CHECK(has(rasText(now, false), "rank 2 is gone"));
}

TEST_CASE("an answer that is none is refused") {
  for (const char* wrong :
       {"", "{}", "[1", R"({"format":2})", R"({"format":1,"pid":1,"host":"h","communicators":[{}]})"})
    CHECK(parseAnswer(wrong).status().code() == tuttiInvalidUsage);
}
