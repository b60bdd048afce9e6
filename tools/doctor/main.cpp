// tutti-doctor: what keeps Tutti from working, or from being fast, on this host and between two.  See tools/README.md.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/base/text.hpp"
#include "tools/doctor/checks.hpp"
#include "tools/doctor/reach.hpp"
#include "tools/doctor/talk.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;
using namespace tutti::doctor;

struct Section {
  const char* name;  // as --only takes it
  const char* title;
  std::function<Findings()> check;
};

struct Options {
  bool json = false, quiet = false, serves = false, once = false;
  int port = kServePort;
  std::optional<std::string> reach;
  std::vector<std::string> only;
};

std::vector<Section> sections() {
  return {{"host", "This host", [] { return checkHost(""); }},
          {"sharing", "Memory that ranks share", checkSharing},
          {"network", "Network", [] { return checkNetwork(""); }},
          {"devices", "Devices", [] { return checkDevices(""); }},
          {"settings", "Settings", checkSettings},
          {"ranks", "Ranks on this host", checkRanks}};
}

const char* sentenceOf(Verdict worst) {
  switch (worst) {
    case Verdict::Broken: return "Something is broken: see the lines that begin so.";
    case Verdict::Slow: return "Tutti works here, and could be faster.";
    default: return "Nothing is wrong here.";
  }
}

int report(const Options& options, const std::vector<std::pair<std::string, Findings>>& all) {
  Findings every;
  for (const auto& [title, findings] : all) {
    every.insert(every.end(), findings.begin(), findings.end());
    if (!options.json) std::fputs(sectionText(title, findings, options.quiet).c_str(), stdout);
  }
  const Verdict worst = worstOf(every);
  std::fputs(options.json ? findingsJson(every).c_str() : cat(sentenceOf(worst), "\n").c_str(), stdout);
  return worst == Verdict::Broken ? 1 : 0;
}

int examine(const Options& options) {
  std::vector<std::pair<std::string, Findings>> all;
  if (options.reach) {
    all.emplace_back(cat("Between this host and ", *options.reach), checkReach(*options.reach));
    return report(options, all);
  }
  for (const Section& section : sections()) {
    const auto named = [&](const std::string& name) { return name == section.name; };
    if (!options.only.empty() && std::ranges::none_of(options.only, named)) continue;
    all.emplace_back(section.title, section.check());
  }
  return report(options, all);
}

int serveOthers(const Options& options) {
  const Status status = serve(options.port, options.once, [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  });
  if (status.ok()) return 0;
  std::fprintf(stderr, "tutti-doctor: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "What keeps Tutti from working, or from being fast, on this host and between two; with what mends it.\n"
      "Exit status: 0, or 1 where something is broken.");
  app.set_version_flag("--version", programVersion("tutti-doctor"), "print the version");
  Options options;
  std::vector<std::string> names;
  for (const Section& section : sections()) names.emplace_back(section.name);
  auto* only =
      app.add_option("--only", options.only, "sections to look at: host, sharing, network, devices, settings, ranks")
          ->delimiter(',')
          ->check(CLI::IsMember(names));
  app.add_flag("--json", options.json, "the findings as a JSON array");
  app.add_flag("-q,--quiet", options.quiet, "leave out what is fine");
  auto* serves = app.add_flag("--serve", options.serves, "wait for --reach of other hosts, until interrupted");
  app.add_option("--port", options.port, "with --serve: the port to be called at; 0: any [29600]")
      ->check(CLI::Range(0, 65535))
      ->needs(serves);
  app.add_flag("--once", options.once, "with --serve: end after one host has asked")->needs(serves);
  app.add_option("--reach", options.reach,
                 "HOST or HOST:PORT where tutti-doctor --serve runs: whether ranks here and there reach each other, "
                 "and how fast")
      ->excludes(serves)
      ->excludes(only);
  CLI11_PARSE(app, argc, argv);
  return options.serves ? serveOthers(options) : examine(options);
}
