// tutti-doctor: what keeps Tutti from working, or from being fast, on this host and between two.  See tools/README.md.
#include <unistd.h>

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
#include "tools/sentence.hpp"
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

/// What was found so far; a section is printed when it has been looked at, and before that named on a terminal.
class Examination {
 public:
  explicit Examination(const Options& options) : options_(options) {}

  void look(const std::string& title, const std::function<Findings()>& check) {
    const bool tells = !options_.json && isatty(STDERR_FILENO) == 1;
    if (tells) std::fprintf(stderr, "looking at: %s ...", title.c_str());
    const Findings findings = check();
    if (tells) std::fprintf(stderr, "\r\033[K");
    every_.insert(every_.end(), findings.begin(), findings.end());
    if (options_.json) return;
    std::fputs(sectionText(title, findings, options_.quiet).c_str(), stdout);
    std::fflush(stdout);
  }
  int conclude() const {
    const Verdict worst = worstOf(every_);
    std::fputs(options_.json ? findingsJson(every_).c_str() : cat(sentenceOf(worst), "\n").c_str(), stdout);
    return worst == Verdict::Broken ? 1 : 0;
  }

 private:
  const Options& options_;
  Findings every_;
};

int examine(const Options& options) {
  Examination examination(options);
  if (options.reach) {
    examination.look(cat("Between this host and ", *options.reach), [&] { return checkReach(*options.reach); });
    return examination.conclude();
  }
  for (const Section& section : sections()) {
    const auto named = [&](const std::string& name) { return name == section.name; };
    if (!options.only.empty() && std::ranges::none_of(options.only, named)) continue;
    examination.look(section.title, section.check);
  }
  return examination.conclude();
}

int serveOthers(const Options& options) {
  const Status status = serve(options.port, options.once, [](const std::string& line) {
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  });
  if (status.ok()) return 0;
  std::fprintf(stderr, "tutti-doctor: %s\n", sentence(status).c_str());
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
