// launchInfo against environments as launchers make them, and the form of a unique id.
#include <sys/socket.h>
#include <unistd.h>
#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <map>

#include "src/base/text.hpp"
#include "src/control/launch/launch.hpp"
#include "src/control/session/unique_id.hpp"

using namespace tutti;

namespace {

const char* const kVariables[] = {"TUTTI_UNIQUE_ID",
                                  "TUTTI_RANK",
                                  "TUTTI_NRANKS",
                                  "TUTTI_PORT",
                                  "TUTTI_SECRET",
                                  "RANK",
                                  "WORLD_SIZE",
                                  "MASTER_ADDR",
                                  "MASTER_PORT",
                                  "TORCHELASTIC_USE_AGENT_STORE",
                                  "TORCHELASTIC_RUN_ID",
                                  "TORCHELASTIC_RESTART_COUNT",
                                  "PMIX_NAMESPACE",
                                  "PMIX_RANK",
                                  "OMPI_COMM_WORLD_SIZE",
                                  "PMIX_SERVER_TMPDIR",
                                  "PMI_FD",
                                  "PMI_ID",
                                  "PMI_PORT",
                                  "PMI_RANK",
                                  "PMI_SIZE",
                                  "SLURM_PROCID",
                                  "SLURM_NTASKS",
                                  "SLURM_STEP_NUM_TASKS",
                                  "SLURM_JOB_ID",
                                  "SLURM_JOBID",
                                  "SLURM_STEP_ID",
                                  "SLURM_STEPID",
                                  "SLURM_STEP_NODELIST",
                                  "SLURM_JOB_NODELIST",
                                  "SLURM_LAUNCH_NODE_IPADDR",
                                  "SLURM_RESTART_COUNT"};

using Environment = std::map<std::string, std::string>;

/// What launchInfo says in an environment of these variables alone.
Result<LaunchInfo> launched(const Environment& environment) {
  for (const char* name : kVariables) ::unsetenv(name);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  Result<LaunchInfo> info = launchInfo(Deadline::inMs(2000));
  for (const char* name : kVariables) ::unsetenv(name);
  return info;
}

std::string controlAddressOf(const LaunchInfo& info) { return decodeUniqueId(info.id)->controlAddress; }

MeetingPlace somePlace() {
  MeetingPlace place;
  place.commId.fill(7);
  place.secret = {9};
  place.controlAddress = "10.0.0.7:4021,[fd00::7]:4022";
  return place;
}

}  // namespace

TEST_CASE("a unique id keeps its content") {
  const MeetingPlace place = somePlace();
  const Result<MeetingPlace> decoded = decodeUniqueId(encodeUniqueId(place));
  REQUIRE(decoded.ok());
  CHECK(decoded->commId == place.commId);
  CHECK(decoded->secret == place.secret);
  CHECK(decoded->controlAddress == place.controlAddress);
}

TEST_CASE("a unique id drops the addresses that do not fit") {
  MeetingPlace place = somePlace();
  const std::string longest = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
  place.controlAddress = longest + "," + longest + ",10.0.0.1:1";
  CHECK(decodeUniqueId(encodeUniqueId(place))->controlAddress == longest);
}

TEST_CASE("what is not a unique id is refused with the reason") {
  const tuttiUniqueId good = encodeUniqueId(somePlace());
  const auto refusal = [](tuttiUniqueId id) { return decodeUniqueId(id).status().message(); };
  CHECK(refusal({}) ==
        "the unique id is all zero: it did not come from the rank that called tuttiGetUniqueId; send all its 128 bytes "
        "to "
        "every rank");
  tuttiUniqueId id = good;
  id.internal[0] = 'x';
  CHECK(refusal(id) == "uniqueId has not the bytes that tuttiGetUniqueId made; send all its 128 bytes to every rank");
  id = good;
  id.internal[7] = 3;
  CHECK(refusal(id) == "the unique id was made by another version of Tutti (format 3, here 1)");
  id = good;
  id.internal[127] = 1;
  CHECK(refusal(id) == "the unique id is damaged: there are bytes behind its address");
  id = good;
  std::memset(id.internal + 56, 0, 72);
  CHECK(refusal(id) == "the unique id is damaged: a control address without any address");
}

TEST_CASE("without a launcher there is one rank") {
  const Result<LaunchInfo> info = launched({});
  REQUIRE(info.ok());
  CHECK(info->launcher == "none");
  CHECK(info->nRanks == 1);
  CHECK(launched({{"RANK", "3"}})->launcher == "none");                          // anybody's variable
  CHECK(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})->nRanks == 1);  // a batch script
  CHECK(launched({{"OMPI_COMM_WORLD_SIZE", "1"}})->nRanks == 1);
  const Environment without = {{"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}};
  CHECK(launched(without)->nRanks == 1);  // no server answers
}

TEST_CASE("each launcher's variables give rank, size and rendezvous") {
  const tuttiUniqueId id = encodeUniqueId(somePlace());
  const Result<LaunchInfo> run =
      launched({{"TUTTI_RANK", "1"}, {"TUTTI_NRANKS", "3"}, {"TUTTI_UNIQUE_ID", toHex(&id, sizeof id)}});
  REQUIRE(run.ok());
  CHECK((run->launcher == "tutti-run" && run->rank == 1 && run->nRanks == 3));
  CHECK(controlAddressOf(*run) == somePlace().controlAddress);

  const Environment torch = {
      {"RANK", "2"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  CHECK(controlAddressOf(*launched(torch)) == "127.0.0.1:29500");
  Environment elastic = torch;
  elastic["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(controlAddressOf(*launched(elastic)) == "127.0.0.1:29501");
  elastic["TUTTI_PORT"] = "4242";
  CHECK(controlAddressOf(*launched(elastic)) == "127.0.0.1:4242");

  const Result<LaunchInfo> slurm = launched({{"SLURM_PROCID", "1"},
                                             {"SLURM_NTASKS", "2"},
                                             {"SLURM_JOB_ID", "100"},
                                             {"SLURM_STEP_ID", "3"},
                                             {"SLURM_STEP_NODELIST", "127.0.0.[3-4]"},
                                             {"SLURM_LAUNCH_NODE_IPADDR", "127.0.0.9"}});
  REQUIRE(slurm.ok());
  CHECK((slurm->launcher == "slurm" && slurm->rank == 1 && slurm->nRanks == 2));
  CHECK(controlAddressOf(*slurm) == "127.0.0.3:23103,127.0.0.9:23103");
}

TEST_CASE("jobs with different identities or secrets do not meet") {
  Environment torch = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "29500"}};
  const auto place = [&] { return *decodeUniqueId(launched(torch)->id); };
  const MeetingPlace first = place(), second = place();
  CHECK(first.commId != second.commId);  // another communicator of the same job
  torch["TUTTI_SECRET"] = "word";
  CHECK(place().secret != first.secret);
}

TEST_CASE("wrong, missing and inconsistent variables are named") {
  struct Row {
    Environment environment;
    const char* message;
  };
  const std::vector<Row> rows = {
      {{{"TUTTI_RANK", "0"}}, "tutti-run: TUTTI_RANK is set but TUTTI_NRANKS is not"},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_NRANKS", "2"}},
       "tutti-run: TUTTI_RANK and TUTTI_NRANKS are set but TUTTI_UNIQUE_ID is not; start the ranks with tutti-run, "
       "which "
       "sets all three"},
      {{{"TUTTI_RANK", "0"}, {"TUTTI_NRANKS", "2"}, {"TUTTI_UNIQUE_ID", "12"}},
       "TUTTI_UNIQUE_ID is not 256 hexadecimal digits; start the ranks with tutti-run, which sets it"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}},
       "torchrun: RANK and WORLD_SIZE are set but MASTER_ADDR is not; set it to the address of rank 0's host"},
      {{{"RANK", "0"}, {"MASTER_ADDR", "a"}}, "torchrun: RANK is set but WORLD_SIZE is not"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}, "MASTER_PORT is not set"},
      {{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK='x' is not a whole number"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK=2 is not below WORLD_SIZE=2; number the ranks from 0"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}},
       "WORLD_SIZE=0 is outside 1..16777216; have the launcher set it, or start with tutti-run"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}}, "slurm: SLURM_PROCID is set but SLURM_NTASKS is not"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}, "SLURM_JOBID is not set"},
      {{{"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_ID", "5"}},
       "slurm: neither SLURM_STEP_NODELIST nor SLURM_LAUNCH_NODE_IPADDR is set"},
      {{{"SLURM_PROCID", "1"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_ID", "5"},
        {"SLURM_STEP_NODELIST", "n[3"}},
       "SLURM_STEP_NODELIST='n[3' is not a list of nodes"},
      {{{"PMI_FD", "999"}, {"PMI_SIZE", "4"}}, "pmi: PMI_SIZE is set but PMI_RANK is not"},
      {{{"PMI_FD", "999"}, {"PMI_RANK", "0"}, {"PMI_SIZE", "4"}},
       "PMI_FD=999 is no connection with the launcher (Bad file descriptor): what starts the program under mpiexec has "
       "to leave that descriptor open"},
      {{{"PMI_PORT", "node0"}, {"PMI_ID", "0"}}, "PMI_PORT='node0' is not host:port"},
  };
  for (const Row& row : rows) {
    const Result<LaunchInfo> info = launched(row.environment);
    CAPTURE(row.message);
    CHECK(info.status().message() == row.message);
    CHECK(info.status().code() == tuttiInvalidUsage);
  }
}

TEST_CASE("over PMI-1 rank 0's place comes line by line, and what is no answer is named") {
  const auto says = [](const std::string& answers) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    REQUIRE(::write(ends[1], answers.data(), answers.size()) == static_cast<ssize_t>(answers.size()));
    ::shutdown(ends[1], SHUT_WR);
    Result<LaunchInfo> info = launched({{"PMI_FD", std::to_string(ends[0])}, {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
    ::close(ends[0]);
    ::close(ends[1]);
    return info;
  };
  CHECK(says("").status().message() == "pmi: the launcher has ended while 'response_to_init' was awaited");
  CHECK(says("cmd=response_to_init rc=-1\n").status().message() ==
        "pmi: the launcher says 'cmd=response_to_init rc=-1' where 'response_to_init' was awaited");
  CHECK(says("hello\n").status().message() == "pmi: the launcher says 'hello' where 'response_to_init' was awaited");
  CHECK(says(std::string(100'000, 'x')).status().message() == "pmi: the launcher sends no lines");
  const tuttiUniqueId id = encodeUniqueId(somePlace());
  const std::string begin = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\ncmd=my_kvsname kvsname=k\n";
  const std::string value = toHex(&id, sizeof id);
  const Result<LaunchInfo> met =
      says(cat(begin, "cmd=barrier_out\ncmd=get_result rc=0 msg=success value=", value, "\n"));
  REQUIRE(met.ok());
  CHECK((met->launcher == "pmi" && met->rank == 1 && met->nRanks == 2));
  CHECK(controlAddressOf(*met) == somePlace().controlAddress);
}

TEST_CASE("ranks of mpirun that cannot meet do not run as jobs of one rank each") {
  const std::string alone = launched({{"OMPI_COMM_WORLD_SIZE", "4"}}).status().message();
  CHECK(alone.find("OMPI_COMM_WORLD_SIZE=4, but PMIX_NAMESPACE and PMIX_RANK are not set") == 0);
  CHECK(alone.find("set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT") != std::string::npos);
  // Not even where the step that mpirun's own daemons run in could be taken for the job.
  const Environment step = {{"OMPI_COMM_WORLD_SIZE", "4"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_NTASKS", "1"},
                            {"SLURM_JOB_ID", "5"}};
  CHECK(launched(step).status().message() == alone);
  const std::string unanswered =
      launched(
          {{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_NAMESPACE", "x"}, {"PMIX_RANK", "0"}, {"PMIX_SERVER_TMPDIR", "/gone"}})
          .status()
          .message();
  // One or the other, as there is a libpmix.so.2 here or not.
  const bool says = unanswered.find(
                        "no PMIx server answers for PMIX_NAMESPACE=x; can this process reach mpirun's folder "
                        "PMIX_SERVER_TMPDIR=/gone?") != std::string::npos ||
                    unanswered.find("install it (Debian and Ubuntu: libpmix2)") != std::string::npos;
  CAPTURE(unanswered);
  CHECK(says);
}

TEST_CASE("the first host of a Slurm node list") {
  struct Row {
    const char* list;
    const char* host;
    bool single;
  };
  const auto row = GENERATE(values<Row>({{"n1", "n1", true},
                                         {"n1,n2", "n1", false},
                                         {"n[03-05,7],m1", "n03", false},
                                         {"rack[1-2]-n[10,20]", "rack1-n10", false},
                                         {"n[3]x", "n3x", false},
                                         {"n[3", "", false},
                                         {"n]3", "", true},
                                         {"n[]", "", false},
                                         {"n[a-b]", "", false},
                                         {"", "", false}}));
  CAPTURE(row.list);
  CHECK(launch::firstSlurmHost(row.list) == row.host);
  CHECK(launch::singleSlurmHost(row.list) == row.single);
}
