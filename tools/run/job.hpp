// What to start: the command line of tutti-run, read and checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::run {

enum class Bind { Core, Share, None };

struct Job {
  int nRanks = 0;
  Bind bind = Bind::Core;
  double timeoutS = 0;      // 0: none
  double graceS = 2;        // what the other ranks get after a failure, before SIGTERM, and then again before SIGKILL
  std::optional<bool> tag;  // unset: if the output is a terminal
  bool everyError = false;  // also those that are the same on several ranks
  std::vector<std::string> environment;  // "NAME=VALUE"
  std::vector<std::string> command;
};

/// No job: print `text` (to stderr if exitCode is not 0) and leave.
struct ParsedJob {
  std::optional<Job> job;
  int exitCode = 0;
  std::string text;
};
ParsedJob parseJob(int argc, char** argv);

}  // namespace tutti::run
