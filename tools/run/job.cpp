#include "tools/run/job.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "tools/version.hpp"

namespace tutti::run {
namespace {

constexpr const char* kHostsAnswer =
    "tutti-run starts ranks on this host only; for several hosts use mpirun, srun or torchrun, which Tutti joins by "
    "itself (tuttiCommInitEnv)";

// "NAME=VALUE" as it is; "NAME" takes its value from here.
std::string checkVariables(std::vector<std::string>* variables) {
  for (std::string& v : *variables) {
    if (v.empty() || v[0] == '=') return "-x '" + v + "' does not name a variable";
    if (v.find('=') != std::string::npos) continue;
    const char* value = std::getenv(v.c_str());
    if (value == nullptr) return "-x " + v + ": there is no such variable here, and no value was given";
    v += std::string("=") + value;
  }
  return "";
}

/// The command line, last argument first, as CLI11 takes it, with mpirun's -np, which has a dash too few for it, as
/// --np. What the program gets is its own.
std::vector<std::string> withLongNames(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> line(argv + 1, argv + argc);
  for (size_t i = 0; i < line.size() && line[i].starts_with("-") && line[i] != "--"; ++i) {
    if (line[i] == "-np") line[i] = "--np";
    const CLI::Option* const option = app.get_option_no_throw(line[i]);
    if (option != nullptr && option->get_items_expected_max() > 0) ++i;  // its value
  }
  std::reverse(line.begin(), line.end());
  return line;
}

}  // namespace

ParsedJob parseJob(int argc, char** argv) {
  Job job;
  bool noBind = false, tag = false, noTag = false;
  std::string bind = "core";
  std::vector<std::string> hosts;
  CLI::App app("Start N ranks of a program on this host: tutti-run -n N [flags] PROGRAM [ARGUMENTS...]", "tutti-run");
  app.add_option("-n,--np", job.nRanks, "number of ranks; -np is understood too")->check(CLI::Range(1, 4096));
  app.add_option("--bind", bind,
                 "core: rank r runs on core r, modulo the number of cores; share: cores are divided among the ranks, "
                 "neighbours side by side; none. More ranks than cores are bound if every core gets as many of them")
      ->check(CLI::IsMember({"core", "share", "none"}));
  app.add_flag("--no-bind", noBind, "the same as --bind none");
  app.add_option("--timeout", job.timeoutS, "seconds after which everything is ended, with exit status 124")
      ->check(CLI::Range(0.0, 1e9));
  app.add_option("--grace", job.graceS, "seconds that the other ranks have after one has failed, before they are ended")
      ->check(CLI::Range(0.0, 1e9));
  app.add_flag("--tag-output", tag, "put [rank] in front of every line, even if the output is not a terminal");
  app.add_flag("--no-tag", noTag, "never do that");
  app.add_flag("--every-error", job.everyError,
               "every rank's errors, also those that are the same on several, of which else one is printed");
  app.add_option("-x", job.environment, "NAME=VALUE (or NAME) for the environment of the ranks; may be repeated")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--host,--hosts,--hostfile", hosts, "not supported: use mpirun, srun or torchrun");
  app.set_version_flag("--version", programVersion("tutti-run"), "print the version");
  app.prefix_command();
  const auto refuse = [](const std::string& why) { return ParsedJob{std::nullopt, 1, "tutti-run: " + why + "\n"}; };
  try {
    app.parse(withLongNames(app, argc, argv));
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::CallForVersion& version) {
    return {std::nullopt, 0, version.what() + std::string("\n")};
  } catch (const CLI::ParseError& e) {
    return refuse(e.what());
  }
  job.command = app.remaining();
  if (!hosts.empty()) return refuse(kHostsAnswer);
  const bool ended = !job.command.empty() && job.command[0] == "--";  // of the flags
  if (ended) job.command.erase(job.command.begin());
  if (!job.command.empty() && job.command[0].starts_with("-"))
    return refuse(ended ? "there is no program " + job.command[0] : "unknown flag " + job.command[0] + " (see --help)");
  if (job.nRanks < 1) return refuse("-n N is missing: the number of ranks");
  if (job.command.empty()) return refuse("there is no program to run");
  if (tag && noTag) return refuse("--tag-output and --no-tag exclude each other");
  if (tag || noTag) job.tag = tag;
  job.bind = noBind || bind == "none" ? Bind::None : bind == "share" ? Bind::Share : Bind::Core;
  const std::string complaint = checkVariables(&job.environment);
  if (!complaint.empty()) return refuse(complaint);
  return {std::move(job), 0, ""};
}

}  // namespace tutti::run
