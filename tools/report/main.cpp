// tutti-report: what a machine is, what Tutti plans on it, and what all collectives reach, as one HTML file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>

#include "perf/common/progress.hpp"
#include "src/base/text.hpp"
#include "tools/report/page.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;
using namespace tutti::report;

int fail(const std::string& why) {
  std::fprintf(stderr, "tutti-report: %s\n", why.c_str());
  return 1;
}

int write(const Report& report) {
  std::ofstream file(report.options.out);
  file << toHtml(report);
  file.close();
  if (!file) return fail(cat("cannot write ", report.options.out));
  size_t failed = 0;
  for (const CollectiveResult& c : report.collectives) failed += c.sizes.empty() ? 1 : 0;
  const size_t shown = report.collectives.size() - failed;
  std::printf("%s: %zu %s on %d ranks", report.options.out.c_str(), shown, shown == 1 ? "collective" : "collectives",
              report.options.nRanks);
  std::printf(failed > 0 ? ", %zu failed\n" : "\n", failed);
  return failed > 0 ? 1 : 0;
}

int run(const Options& options) {
  perf::Progress progress(options.collectives.empty() ? allCollectives().size() : options.collectives.size(),
                          "collectives");
  Report report{options, lookAtMachine(), {}, measureCopies(options)};
  report.collectives =
      measureCollectives(options, [&](size_t done, size_t, const std::string& what) { progress.show(done, what); });
  progress.clear();
  return write(report);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("One HTML file of this machine: what it is, what Tutti plans on it, and what all collectives reach");
  app.set_version_flag("--version", programVersion("tutti-report"), "print the version");
  Options options;
  std::string least = "8", most = "32M";
  app.add_option("-o,--out", options.out, "the file")->capture_default_str();
  app.add_option("-n,--ranks", options.nRanks, "ranks [one for each core, 2 to 8]")->check(CLI::Range(2, 4096));
  app.add_option("-b,--min", least, "bytes of the smallest calls")->capture_default_str();
  app.add_option("-e,--max", most, "bytes of the largest calls")->capture_default_str();
  app.add_option("--collectives", options.collectives, "e.g. all_reduce,alltoall [all]")
      ->delimiter(',')
      ->check(CLI::IsMember(allCollectives()));
  CLI11_PARSE(app, argc, argv);
  if (!parseBytes(least, &options.least) || options.least == 0) return fail(cat("--min ", least, " is not a size"));
  if (!parseBytes(most, &options.most) || options.most < options.least || options.most > size_t{1} << 33)
    return fail(cat("--max ", most, " is not a size of --min to 8G"));
  if (options.nRanks == 0) options.nRanks = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 2, 8);
  return run(options);
}
