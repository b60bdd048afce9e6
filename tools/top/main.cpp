// tutti-top: the ranks of running jobs, live.  docs/diagnosis.md tells how to use it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "src/comm/monitor.hpp"
#include "tools/sentence.hpp"
#include "tools/top/serve.hpp"
#include "tools/top/views.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;
using namespace tutti::top;

constexpr const char* kFooter =
    "It asks the processes of this host and user that are rank 0 of a communicator, and those ask all other ranks, of\n"
    "all hosts.  Nothing is asked of a job unless this runs.\n"
    "  tutti-top                          a table, anew every second\n"
    "  tutti-top --once                   one table, of what each rank is doing\n"
    "  tutti-top --prometheus             metrics, as Prometheus's text\n"
    "  tutti-top --serve 28028            the same at http://127.0.0.1:28028/metrics; and ncclras -p 28028";

struct Line {
  std::string folder = monitorFolder();
  std::string serve;
  double interval = 1;
  bool once = false, prometheus = false;
};

int fail(const Status& status) {
  std::fprintf(stderr, "tutti-top: %s\n", sentence(status).c_str());
  return 2;
}

int watch(const Line& line) {
  Snapshot before;
  for (;;) {
    const Result<Snapshot> now = takeSnapshot(line.folder);
    if (!now.ok()) return fail(now.status());
    if (isatty(STDOUT_FILENO) == 1 && !line.once) std::fputs("\x1b[H\x1b[2J", stdout);
    std::fputs(table(*now, before).c_str(), stdout);
    std::fflush(stdout);
    if (line.once) return now->empty() ? 1 : 0;
    before = *now;
    usleep(static_cast<useconds_t>(line.interval * 1e6));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The ranks of running jobs: calls, bandwidth, what they are in and whom they wait for", "tutti-top");
  app.set_version_flag("--version", programVersion("tutti-top"), "print the version");
  app.footer(kFooter);
  Line line;
  auto* once = app.add_flag("--once", line.once, "one table; exit status 1 if there is no job");
  app.add_option("--interval", line.interval, "seconds between tables")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  auto* prometheus = app.add_flag("--prometheus", line.prometheus, "metrics on standard output, once")->excludes(once);
  app.add_option("--serve", line.serve,
                 "PORT or ADDRESS:PORT (127.0.0.1) to answer Prometheus and ncclras at; port 0: any")
      ->excludes(once)
      ->excludes(prometheus);
  app.add_option("--folder", line.folder, "where the processes' sockets are")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!line.serve.empty()) {
    const auto ready = [](int port) {
      std::printf("serving at port %d\n", port);
      std::fflush(stdout);
    };
    return fail(serve(
        line.serve, [&] { return takeSnapshot(line.folder); }, ready));
  }
  if (!line.prometheus) return watch(line);
  const Result<Snapshot> now = takeSnapshot(line.folder);
  if (!now.ok()) return fail(now.status());
  std::fputs(top::prometheus(*now).c_str(), stdout);
  return 0;
}
