// tutti-trace: what the flight records of a job's ranks say together.  docs/diagnosis.md tells how to use it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "src/base/text.hpp"
#include "tools/sentence.hpp"
#include "tools/trace/simulated.hpp"
#include "tools/trace/timeline.hpp"
#include "tools/trace/torch_records.hpp"
#include "tools/trace/verdict.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;
using namespace tutti::trace;

constexpr const char* kFooter =
    "FILES are those of TUTTI_TRACE, TUTTI_DUMP and tuttiCommDump, or folders of them: all ranks', of all hosts.\n"
    "Exit status: 0 nothing is wrong, 1 something is, 2 the files or the command line cannot be used.\n"
    "  tutti-trace /tmp/records                       who is behind, who waits for whom, which calls differ\n"
    "  tutti-trace /tmp/records --chrome run.json     a timeline for ui.perfetto.dev\n"
    "  tutti-trace /tmp/records --torch /tmp/fr && torchfrtrace --prefix rank_ /tmp/fr";

struct Line {
  std::vector<std::string> files;
  std::string chrome, torch, cluster;
  bool json = false;
};

Status write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? Status() : invalidUsage("cannot write ", path);
}

Status writeTimeline(const Job& job, const Line& line) {
  Simulated simulated;
  if (!line.cluster.empty()) {
    TUTTI_ASSIGN(simulated, simulateCalls(job, line.cluster));
  }
  if (simulated.leftOut > 0)
    std::fprintf(stderr,
                 "tutti-trace: %d calls are not simulated: other sizes of communicators, or no such algorithm\n",
                 simulated.leftOut);
  return write(line.chrome, timeline(job, simulated.calls));
}

Status writeTorch(const Job& job, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return invalidUsage("cannot make the folder ", folder, ": ", error.message());
  for (const TorchFile& file : torchFiles(job)) TUTTI_TRY(write(cat(folder, "/rank_", file.rank), file.pickle));
  return {};
}

Result<bool> run(const Line& line) {
  TUTTI_ASSIGN(std::vector<RankTrace> traces, readTraces(line.files));
  TUTTI_ASSIGN(const Job job, makeJob(std::move(traces)));
  if (!line.chrome.empty()) TUTTI_TRY(writeTimeline(job, line));
  if (!line.torch.empty()) TUTTI_TRY(writeTorch(job, line.torch));
  std::fputs((line.json ? reportJson(job) : report(job)).c_str(), stdout);
  bool well = true;
  for (const Communicator& c : job.communicators) well = well && judge(job, c).finding == Finding::Well;
  return well;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What the flight records of a job's ranks say together: one verdict, one timeline", "tutti-trace");
  app.set_version_flag("--version", programVersion("tutti-trace"), "print the version");
  app.footer(kFooter);
  Line line;
  app.add_option("files", line.files, "files of all ranks, or folders of them")->required();
  app.add_flag("--json", line.json, "the verdict for programs");
  auto* chrome = app.add_option("--chrome", line.chrome, "write a timeline for chrome://tracing, ui.perfetto.dev");
  app.add_option("--simulate", line.cluster,
                 "with --chrome: the same calls on this cluster beside it, as tutti-sim takes it")
      ->needs(chrome);
  app.add_option("--torch", line.torch, "write rank_0, rank_1, ... into this folder, for PyTorch's torchfrtrace");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const Result<bool> well = run(line);
  if (well.ok()) return *well ? 0 : 1;
  std::fprintf(stderr, "tutti-trace: %s\n", sentence(well.status()).c_str());
  return 2;
}
