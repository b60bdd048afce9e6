// tutti-sim: what collectives cost on a described cluster of any size.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "src/topology/named_machines.hpp"
#include "tools/sentence.hpp"
#include "tools/sim/as_nccl.hpp"
#include "tools/sim/count.hpp"
#include "tools/sim/fail.hpp"
#include "tools/sim/report.hpp"
#include "tools/sim/validate.hpp"
#include "tools/topology/write.hpp"
#include "tools/version.hpp"

namespace {

using namespace tutti;
using namespace tutti::sim;

int finish(const Result<std::string>& text) {
  if (!text.ok()) {
    std::fprintf(stderr, "tutti-sim: %s\n", sentence(text.status()).c_str());
    return 1;
  }
  std::fputs(text->c_str(), stdout);
  return 0;
}

struct CommandLine {
  Question question;
  ReportOptions report;
  CompareOptions compare;
  NcclQuestion nccl;
  std::string as, executor;
  std::string fail, sets;
  bool compares = false, counts = false, lists = false, validates = false, fits = false;
};

Result<std::string> simulated(const CommandLine& line, const Asked& asked) {
  if (!line.fail.empty()) return fail(asked.cluster, asked, line.fail);
  TUTTI_ASSIGN(const Network network, Network::make(asked.cluster));
  if (line.counts) return countBytes(network, asked, line.report.json);
  return line.compares ? compare(network, asked, line.compare) : report(network, asked, line.report);
}

/// As the table in docs/simulation.md.
std::string machineTable() {
  std::string text = "| name | machine | parts | source |\n|---|---|---|---|\n";
  for (const topology::NamedMachine& m : topology::namedMachines()) {
    text += cat("| `", m.name, "` | `", m.words, "` | ", m.parts, " | ", m.source, " |\n");
  }
  return text;
}

/// NCCL's model has no schedule whose links, messages or losses could be looked at.
Result<std::string> answerAsNccl(const CommandLine& line) {
  const ReportOptions& r = line.report;
  const Question& q = line.question;
  const bool schedule = r.links > 0 || r.path || !r.traceFile.empty() || line.counts || !line.fail.empty() ||
                        !q.plan.empty() || q.channels > 0 || q.single || q.outOfPlace || !line.executor.empty() ||
                        !line.compare.svgFile.empty();
  if (schedule) {
    return invalidUsage(
        "--as nccl takes no --executor, --links, --critical-path, --trace, --count, --fail, --plan, --channels, "
        "--single, --out-of-place, --svg: these look at schedules of Tutti");
  }
  return line.compares ? compareWithNccl(q, line.nccl, line.compare) : reportNccl(q, line.nccl, r.json);
}

Result<std::string> answer(const CommandLine& line) {
  if (line.lists) return machineTable();
  if (line.validates) return validate(line.fits, line.sets);
  if (line.question.cluster.empty()) return invalidUsage("which cluster?  tutti-sim --help shows how to describe one");
  if (line.as == "nccl") return answerAsNccl(line);
  if (!line.as.empty() && line.as != "tutti") return invalidUsage("--as ", line.as, ": there are tutti and nccl");
  Question question = line.question;
  if (line.as == "tutti") question.executor = line.executor.empty() ? "auto" : line.executor;
  TUTTI_ASSIGN(const Asked asked, understand(question));
  Result<std::string> text = simulated(line, asked);
  if (text.ok() && !line.report.json) *text += topology::gaps(asked.cluster.machine);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What collectives cost on a described cluster");
  app.set_version_flag("--version", programVersion("tutti-sim"), "print the version");
  CommandLine line;
  Question& q = line.question;
  app.add_option("cluster", q.cluster, "a file, a machine's name, or the text itself: 'nodes 4; machine hgx-h100'");
  app.add_option("--collective", q.collective, "allreduce, allgather, ... [allreduce]");
  app.add_option("--algorithm", q.algorithm, "one or several, as ring,tree [all of the collective]");
  app.add_option("--plan", q.plan,
                 "a plan of MSCCL (XML) or MSCCL++ (JSON) instead; its ranks are all of the cluster's");
  app.add_option("--bytes", q.bytes, "vector (allreduce, broadcast, reduce) or one rank's block [1M]");
  app.add_option("--root", q.root, "of broadcast, reduce, gather, scatter [0]");
  app.add_option("--channels", q.channels, "copies of the schedule with a part of the bytes each [as ports need them]");
  app.add_option("--protocol", q.protocol, "only this one [the fastest for each message]");
  app.add_option("--detail", q.detail, "ranks (every one), classes (of ranks that do the same), auto [auto]");
  app.add_flag("--single", q.single, "each chunk is a message of its own, where a step sends several to one rank too");
  app.add_flag("--out-of-place", q.outOfPlace, "with buffers of their own for input and output");
  auto* as = app.add_option("--as", line.as,
                            "tutti: by the messages of its CUDA executors; nccl: its algorithms and protocols, with "
                            "--compare Tutti beside it "
                            "[Tutti's schedules by the description's protocols, or by NCCL's where it has none]");
  app.add_option("--executor", line.executor,
                 "with --as tutti: as TUTTI_CUDA_EXECUTOR: auto, resident, stream, proxy [auto]")
      ->needs(as);
  app.add_option("--nccl-release", line.nccl.release, "with --as nccl: whose choice of algorithms, 2.18 to 2.30 [2.30]")
      ->needs(as);
  app.add_option("--gpus-per-process", line.nccl.gpusPerProcess,
                 "with --as nccl: whose kernels one thread launches in turn, as nccl-tests -g [1]")
      ->needs(as);
  app.add_flag("--alone", line.nccl.alone,
               "with --as nccl: a call that waits for the one before, as PyTorch's events time it")
      ->needs(as);
  app.add_flag("--sharp", line.nccl.sharp, "with --as nccl: switches between nodes reduce")->needs(as);
  auto* links = app.add_option("--links", line.report.links, "show so many of the most loaded links");
  auto* path = app.add_flag("--critical-path", line.report.path, "what the time went into");
  auto* trace = app.add_option("--trace", line.report.traceFile, "write a timeline for chrome://tracing, Perfetto");
  auto* compares = app.add_flag("--compare", line.compares, "all algorithms over sizes");
  app.add_option("--min", line.compare.least, "with --compare: from this size [1K]")->needs(compares);
  app.add_option("--max", line.compare.most, "with --compare: up to this size [1G]")->needs(compares);
  app.add_option("--factor", line.compare.factor, "with --compare: from size to size [4]")->needs(compares);
  app.add_option("--svg", line.compare.svgFile, "with --compare: a picture into this file")->needs(compares);
  auto* counts = app.add_flag("--count", line.counts, "bytes and messages of every rank, beside textbooks' formulas");
  app.add_flag("--machines", line.lists, "machines that have names, and where their figures are from");
  auto* fails =
      app.add_option("--fail", line.fail, "link, nic or rank, with :NUMBER if not the default: what its loss costs");
  auto* json = app.add_flag("--json", line.report.json, "figures for programs, with and without --compare");
  json->excludes(path)->excludes(trace)->excludes(fails);
  for (CLI::Option* option : {links, path, trace}) option->excludes(compares)->excludes(fails);
  for (CLI::Option* option : {links, path, trace, compares, fails}) option->excludes(counts);
  compares->excludes(fails);
  auto* validates = app.add_flag("--validate", line.validates, "the simulator beside published measurements");
  app.add_flag("--fit", line.fits, "with --validate: look for better constants first")->needs(validates);
  app.add_option("--sets", line.sets, "with --validate: only sets with this in their name")->needs(validates);
  json->excludes(validates);
  CLI11_PARSE(app, argc, argv);
  line.compare.json = line.report.json;
  return finish(answer(line));
}
