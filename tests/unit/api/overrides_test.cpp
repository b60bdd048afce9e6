// What the user forces is done, or set aside with the reason, or refused.
#include <catch2/catch.hpp>

#include "tests/support/collective_check.hpp"
#include "tests/support/said.hpp"
#include "tests/support/variable.hpp"

using namespace tutti::test;

namespace {

/// Every rank's first complaint of a job that sums; one line per rank.
std::string sum(int nRanks, size_t count, const tuttiConfig_t* config = nullptr) {
  return onRanks(
      nRanks, [&](const Rank& r) { return checkAllReduce(r, {.count = count}); }, config);
}

size_t mentions(const std::string& text, const std::string& words) {
  size_t n = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("every algorithm of AllReduce that needs no hierarchy runs when it is forced") {
  const std::string name = GENERATE(values<std::string>(
      {"ring", "tree", "halvingdoubling", "recursivedoubling", "circulant", "oneshot", "twoshot", "paramserver"}));
  const std::string transports = GENERATE(values<std::string>({"shm,self", "tcp,self"}));
  const int nRanks = GENERATE(2, 3, 6);
  CAPTURE(name, transports, nRanks);
  const Variable algorithm("TUTTI_ALGO", "allreduce:" + name), strict("TUTTI_ALGO_STRICT", "1");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.transports = transports.c_str();
  const std::string complaints = sum(nRanks, 1234, &config);
  CAPTURE(complaints);
  CHECK(complaints == "");
}

TEST_CASE("messages of several chunks give the right elements on every transport, in every communicator") {
  struct Row {
    const char* algorithm;
    std::string (*check)(const Rank&, const CheckOptions&);
  };
  const Row row = GENERATE(values<Row>({{"allreduce:circulant", checkAllReduce},
                                        {"allreduce:halvingdoubling", checkAllReduce},
                                        {"allgather:circulant", checkAllGather},
                                        {"allgather:bruck", checkAllGather},
                                        {"allgather:circulant", checkVectors},
                                        {"reducescatter:circulant", checkVectors},
                                        {"reducescatter:circulant", checkReduceScatter},
                                        {"reducescatter:recursivehalving", checkReduceScatter},
                                        {"alltoall:bruck2", checkAllToAll},
                                        {"broadcast:scatterallgather", checkBroadcast},
                                        {"reduce:reducescattergather", checkReduce},
                                        {"gather:binomial", checkGather},
                                        {"scatter:binomial", checkScatter}}));
  const std::string transports = GENERATE(values<std::string>({"shm,self", "tcp,self"}));
  const int nRanks = transports == "shm,self" ? 7 : 5;
  CAPTURE(row.algorithm, transports, nRanks);
  const Variable algorithm("TUTTI_ALGO", row.algorithm), join("TUTTI_JOIN", "1"), strict("TUTTI_ALGO_STRICT", "1");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.transports = transports.c_str();
  const auto all = [&](const Rank& r) {
    for (const size_t count : {0, 1, 5, 1000, 9001, 70000}) {  // less than ranks; one message; several
      for (const bool inPlace : {false, true}) {
        std::string why = row.check(r, {.count = count, .inPlace = inPlace, .root = r.nRanks - 1});
        if (!why.empty()) return std::to_string(count) + (inPlace ? " in place: " : ": ") + why;
      }
    }
    return std::string();
  };
  CHECK(onRanks(
            nRanks,
            [&](const Rank& r) {
              tuttiComm_t half = nullptr;
              RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, r.rank, &half, nullptr));
              std::string why = all(r);
              Rank mine = r;
              mine.comm = half;
              RANK_TRY(tuttiCommUserRank(half, &mine.rank));
              RANK_TRY(tuttiCommCount(half, &mine.nRanks));
              if (why.empty()) why = all(mine);
              RANK_TRY(tuttiCommDestroy(half));
              return why;
            },
            &config) == "");
}

TEST_CASE("whether chunks share messages is as asked, and the choice says so") {
  const char* asked = GENERATE("0", "1");
  const Variable algorithm("TUTTI_ALGO", "allreduce:circulant"), join("TUTTI_JOIN", asked);
  CHECK(onRanks(4, [&](const Rank& r) {
          for (const size_t count : {size_t{4096}, size_t{4} << 20}) {  // chunks of the second are larger than a slot
            tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
            RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, count, tuttiFloat32, tuttiSum, 0, &estimate));
            RANK_CHECK(estimate.joined == (asked[0] == '1' && count == 4096 ? 1 : 0));
          }
          return std::string();
        }) == "");
}

TEST_CASE("a protocol that is forced runs on links that have it, and may be refused on others") {
  const Variable strict("TUTTI_ALGO_STRICT", "1");
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  for (const char* protocol : {"inline", "slots", "direct"}) {
    CAPTURE(protocol);
    const Variable forced("TUTTI_PROTO", protocol);
    config.transports = "shm,self";
    CHECK(sum(3, std::string(protocol) == "inline" ? 4 : 50'000, &config) == "");
  }
  const Variable forced("TUTTI_PROTO", "direct");
  config.transports = "tcp,self";
  const std::string complaints = sum(2, 50'000, &config);
  CAPTURE(complaints);
  CHECK(mentions(complaints, "TUTTI_PROTO=direct") >= 1);  // the other rank may hear of the abort first
}

TEST_CASE("what does not fit a communicator or a call is set aside, and rank 0 says so once of each reason") {
  struct Row {
    const char *name, *value, *transports;
    const char* says;
  };
  const auto row = GENERATE(values<Row>(
      {{"TUTTI_ALGO", "allreduce:torus2d", "shm,self",
        "TUTTI_ALGO=torus2d does not serve allreduce of 20000 bytes on 5 ranks: it needs a number of ranks that is a "
        "product of two above 1; chosen by cost: "},
       {"TUTTI_ALGO", "hypercube", "tcp,self",
        "TUTTI_ALGO=hypercube does not serve alltoall of 20000 bytes on 5 ranks: it needs a power of two of ranks; "},
       {"TUTTI_ALGO", "alltoall:bruck2", "shm,self",
        "TUTTI_ALGO=bruck2 does not serve alltoallv on 5 ranks: it needs blocks that are all of one size; "},
       {"TUTTI_PROTO", "direct", "tcp,self",
        "TUTTI_PROTO=direct does not serve allreduce of 20000 bytes on 5 ranks: tcp-local links have no direct"},
       {"TUTTI_PROTO", "inline", "shm,self",
        "TUTTI_PROTO=inline does not serve allreduce of 20000 bytes on 5 ranks: inline takes up to "},
       {"TUTTI_NCHANNELS", "9", "shm,self",
        "TUTTI_NCHANNELS (or config.nChannels) = 9 does not serve allreduce of 20000 bytes on 5 ranks: at most 8 "
        "channels can be had here; chosen by cost: "}}));
  CAPTURE(row.name, row.value);
  const Variable asked(row.name, row.value);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.transports = row.transports;
  const auto job = [](const Rank& r) -> std::string {
    for (const size_t count : {5000, 20, 5000, 40'000}) {
      for (const auto check : {checkAllReduce, checkAllToAll, checkVectors}) {
        if (std::string why = check(r, {.count = count, .inPlace = count == 20}); !why.empty()) return why;
      }
    }
    return "";
  };
  {
    const Said said;
    CHECK(onRanks(5, job, &config) == "");
    CHECK(said.times(row.says) == 1);
    CHECK(said.times("does not serve") == 1);
  }
  const Variable strict("TUTTI_ALGO_STRICT", "1");
  CHECK(mentions(onRanks(5, job, &config), std::string(row.name)) >= 1);
}

TEST_CASE("what does not fit does not keep the others from what they were asked for") {
  const Variable asked("TUTTI_ALGO", "allreduce:torus3d,allgather:bruck"), protocol("TUTTI_PROTO", "slots");
  CHECK(onRanks(4, [](const Rank& r) -> std::string {
          tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
          RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllGather, 1000, tuttiFloat32, tuttiSum, 0, &e));
          RANK_CHECK(std::string(e.algorithm) == "bruck" && std::string(e.protocol) == "slots");
          RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 1000, tuttiFloat32, tuttiSum, 0, &e));
          RANK_CHECK(std::string(e.algorithm) != "torus3d" && std::string(e.protocol) == "slots");
          return checkAllReduce(r, {.count = 1000});
        }) == "");
}

TEST_CASE("a call that is refused leaves the communicator as good as before") {
  const Variable asked("TUTTI_ALGO", "allreduce:torus3d"), strict("TUTTI_ALGO_STRICT", "1");
  CHECK(onRanks(4, [](const Rank& r) -> std::string {
          for (int round = 0; round < 3; ++round) {
            float x = 1;
            RANK_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat32, tuttiSum, r.comm, nullptr) == tuttiInvalidUsage);
            const std::string why = tuttiGetLastError(r.comm);
            RANK_CHECK(why.find("these would: ring, tree, ") != std::string::npos);
            RANK_CHECK(why.find("torus2d") != std::string::npos);
            RANK_CHECK(why.find("torus3d") == why.rfind("torus3d"));
            RANK_CHECK(x == 1);
            if (std::string other = checkAllGather(r, {.count = 100}); !other.empty()) return other;
          }
          return "";
        }) == "");
}

TEST_CASE("values that make no sense end the join with what would make sense") {
  struct Row {
    const char *name, *value, *words;
  };
  for (const Row& row :
       {Row{"TUTTI_ALGO", "allreduce:nonsense", "it has "}, Row{"TUTTI_ALGO", "sum:ring", "is not a collective"},
        Row{"TUTTI_ALGO", "nonsense", "no collective has"}, Row{"TUTTI_PROTO", "ll128", "inline, slots and direct"},
        Row{"TUTTI_TRANSPORTS", "carrier-pigeon", "TUTTI_TRANSPORTS"}, Row{"TUTTI_JOIN", "perhaps", "set 0"},
        Row{"TUTTI_TIMEOUT_MS", "soon", "TUTTI_TIMEOUT_MS"}, Row{"TUTTI_SLOT_BYTES", "12", "TUTTI_SLOT_BYTES"}}) {
    CAPTURE(row.name, row.value);
    const Variable variable(row.name, row.value);
    const std::string complaints = sum(2, 4);
    CAPTURE(complaints);
    CHECK(mentions(complaints, row.words) >= 1);
  }
}

TEST_CASE("an inline message that does not fit is refused by name") {
  const Variable forced("TUTTI_PROTO", "inline"), strict("TUTTI_ALGO_STRICT", "1");
  const std::string complaints = sum(2, 1 << 20);
  CAPTURE(complaints);
  CHECK(mentions(complaints, "TUTTI_PROTO=inline") >= 1);  // the other rank may hear of the abort first
}
