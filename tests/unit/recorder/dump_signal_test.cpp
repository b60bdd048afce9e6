// TUTTI_DUMP_SIGNAL: the handler stays for the rest of this process.
#include "src/recorder/dump_signal.hpp"

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>

#include "src/recorder/flight_recorder.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/variable.hpp"
#include "tools/trace/trace_file.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

volatile sig_atomic_t calledBefore = 0;
void programsOwn(int) { calledBefore = calledBefore + 1; }

}  // namespace

TEST_CASE("at the signal all recorders are written, and the program's own handler is called") {
  const TempFolder folder;
  const Variable where("TUTTI_DUMP", folder.path());
  const Variable signal("TUTTI_DUMP_SIGNAL", "USR2");
  std::signal(SIGUSR2, programsOwn);
  const std::string first = folder.path() + "/tutti-0000000000000001-rank0000.dump";
  const std::string second = folder.path() + "/tutti-0000000000000002-rank0001.dump";
  {
    FlightRecorder one, two;
    REQUIRE(one.open({0, 2, 1, 7, "one"}).message() == "");
    REQUIRE(two.open({1, 2, 2, 7, "two"}).message() == "");
    one.enter(1, {uint64_t{1} << 40, 3}, {12, 0, 0, true});
    ::raise(SIGUSR2);
  }
  CHECK(calledBefore == 1);
  const Result<trace::RankTrace> trace = trace::readTrace(first);
  REQUIRE(trace.status().message() == "");
  CHECK(trace->records.size() == 1);
  CHECK(std::string(trace->header.reason).find("signal") != std::string::npos);
  CHECK(std::filesystem::exists(second));
  std::filesystem::remove(first);
  ::raise(SIGUSR2);  // of recorders that are gone nothing is written
  CHECK(calledBefore == 2);
  CHECK_FALSE(std::filesystem::exists(first));
  const Variable other("TUTTI_DUMP_SIGNAL", "USR1");
  FlightRecorder late;
  CHECK(late.open({0, 1, 3, 7, "late"}).code() == tuttiInvalidUsage);
}

TEST_CASE("signals that end a process, or stop it, are refused") {
  CHECK(*parseDumpSignal("USR1") == SIGUSR1);
  CHECK(*parseDumpSignal("SIGQUIT") == SIGQUIT);
  CHECK(*parseDumpSignal(std::to_string(SIGUSR2)) == SIGUSR2);
  CHECK(*parseDumpSignal("RTMIN+2") == SIGRTMIN + 2);
  for (const char* wrong : {"KILL", "9", "SEGV", "RTMIN+99", "RTMIN-1", "0", "usr1", ""})
    CHECK(parseDumpSignal(wrong).status().code() == tuttiInvalidUsage);
}
