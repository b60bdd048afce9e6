#include "tools/report/measure.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/fd.hpp"
#include "src/base/text.hpp"

namespace tutti::report {
namespace {

using Json = nlohmann::json;

/// A file that is gone when this is.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() / ("tutti-report-" + std::string(6, 'X'))),
        fd_(mkostemp(path_.data(), O_CLOEXEC)) {}
  ~TemporaryFile() {
    if (fd_.valid()) unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Fd fd_;
};

double number(const Json& row, const char* field) {
  const auto found = row.find(field);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

Json part(const Json& row, const char* field) {
  const auto found = row.find(field);
  return found != row.end() && found->is_object() ? *found : Json::object();
}

SizeResult sizeResult(const Json& row) {
  SizeResult result;
  result.bytes = row.value("size", size_t{0});
  const Json out = part(row, "out_of_place"), in = part(row, "in_place"), expected = part(row, "expected");
  const Json band = part(row, "out_of_place_band");
  result.timeUs = number(out, "time");
  result.busbw = number(out, "bus_bw");
  result.inPlaceUs = number(in, "time");
  result.inPlaceBusbw = number(in, "bus_bw");
  result.p10Us = number(band, "p10");
  result.p90Us = number(band, "p90");
  result.expectedUs = number(expected, "time");
  result.wrong = static_cast<size_t>(number(out, "nwrong") + number(in, "nwrong"));
  if (!expected.empty())
    result.plan =
        cat(expected.value("algorithm", ""), "/", expected.value("protocol", ""), "/", expected.value("channels", 1));
  return result;
}

CollectiveResult measureOne(const std::string& name, const Options& options) {
  CollectiveResult result{name, "", {}};
  const TemporaryFile json, plot;
  int status = 0;
  const Result<std::string> said =
      outputOf({programPath("tutti-run"), "-n", std::to_string(options.nRanks), "--no-tag", programPath(name + "_perf"),
                "-b", std::to_string(options.least), "-e", std::to_string(options.most), "-f", "4", "-J", json.path(),
                "--plot", plot.path()},
               &status);
  if (!said.ok() || status != 0) {
    result.failure = said.ok() ? cat("ended with status ", status) : said.status().text();
    return result;
  }
  std::ifstream file(json.path());
  const Json run = Json::parse(file, nullptr, false);
  if (run.is_discarded() || !run.contains("results")) {
    result.failure = "its JSON is not understood";
    return result;
  }
  for (const Json& row : run["results"])
    if (SizeResult one = sizeResult(row); one.bytes > 0) result.sizes.push_back(std::move(one));
  return result;
}

std::string firstValue(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with(key) && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "";
}

std::vector<Finding> findings() {
  int status = 0;
  const Result<std::string> said = outputOf({programPath("tutti-doctor"), "--json"}, &status);
  const Json all = said.ok() ? Json::parse(*said, nullptr, false) : Json();
  std::vector<Finding> list;
  if (!all.is_array()) return list;
  for (const Json& one : all)
    list.push_back(
        {one.value("verdict", ""), one.value("subject", ""), one.value("what", ""), one.value("remedy", "")});
  return list;
}

std::string said(const std::vector<std::string>& command) {
  int status = 0;
  const Result<std::string> text = outputOf(command, &status);
  return text.ok() && status == 0 ? *text : "";
}

}  // namespace

const std::vector<std::string>& allCollectives() {
  static const std::vector<std::string> names = {"all_reduce", "reduce_scatter", "all_gather", "alltoall", "broadcast",
                                                 "reduce",     "gather",         "scatter",    "sendrecv"};
  return names;
}

std::string programPath(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code none;
  const fs::path folder = fs::read_symlink("/proc/self/exe", none).parent_path();
  for (const fs::path& path : {folder / name, folder.parent_path() / "perf" / name})
    if (fs::exists(path, none)) return path.string();
  return name;
}

Result<std::string> outputOf(const std::vector<std::string>& command, int* status) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return errnoError(errno, "cannot make a pipe");
  const Fd reads(ends[0]);
  Fd writes(ends[1]);
  const pid_t child = fork();
  if (child < 0) return errnoError(errno, cat("cannot start ", command.front()));
  if (child == 0) {
    dup2(writes.get(), STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments.front(), arguments.data());
    _exit(127);
  }
  writes.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(reads.get(), buffer, sizeof buffer)) != 0;) {
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    if (n < 0 && errno != EINTR) break;
  }
  int ended = 0;
  while (waitpid(child, &ended, 0) < 0 && errno == EINTR) continue;
  *status = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
  if (*status == 127) return systemError(ErrorCode::NotPermitted, "cannot start ", command.front());
  return text;
}

std::vector<CollectiveResult> measureCollectives(const Options& options, const Tell& tell) {
  const std::vector<std::string>& names = options.collectives.empty() ? allCollectives() : options.collectives;
  std::vector<CollectiveResult> results;
  for (const std::string& name : names) {
    tell(results.size(), names.size(), name);
    results.push_back(measureOne(name, options));
  }
  return results;
}

Machine lookAtMachine() {
  Machine machine;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  machine.host = host;
  machine.processor = firstValue("/proc/cpuinfo", "model name");
  machine.cores = static_cast<int>(std::thread::hardware_concurrency());
  machine.library = said({programPath("tutti-info"), "--version"});
  if (const size_t blank = machine.library.find(' '); blank != std::string::npos)
    machine.library.replace(0, blank, "libtutti");  // of one version with the programs
  machine.topologyText = said({programPath("tutti-info"), "--topology"});
  machine.topologySvg = said({programPath("tutti-info"), "--topology", "--svg"});
  machine.findings = findings();
  for (char** variable = environ; *variable != nullptr; ++variable)
    if (std::strncmp(*variable, "TUTTI_", 6) == 0 && std::strncmp(*variable, "TUTTI_SECRET", 12) != 0)
      machine.settings.emplace_back(*variable);
  const time_t now = time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  machine.when = text;
  return machine;
}

}  // namespace tutti::report
