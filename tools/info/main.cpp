// tutti-info: the configuration of Tutti, the machine that it sees, and what it would plan there.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>

#include "src/base/config.hpp"
#include "src/cost/calibration.hpp"
#include "tools/info/config_view.hpp"
#include "tools/info/error_view.hpp"
#include "tools/info/exchange_view.hpp"
#include "tools/info/plan_view.hpp"
#include "tools/info/topology_view.hpp"
#include "tools/sentence.hpp"
#include "tools/version.hpp"
#include "transport/table.hpp"

namespace {

using namespace tutti;

int fail(const Status& status) {
  std::fprintf(stderr, "tutti-info: %s\n", sentence(status).c_str());
  return 1;
}

int printCalibration() {
  const MachineIdentity machine = thisMachine();
  const std::string path = calibrationPath(machine);
  const Calibration builtIn = defaultCalibration(machine, linkKinds());
  const auto kept = path.empty() ? Result<Calibration>(builtIn) : readCalibration(path, machine);
  std::printf("# %s\n", path.empty() ? "built in" : kept.ok() ? path.c_str() : "built in; nothing is measured yet");
  std::fputs(toText(kept.ok() ? *kept : builtIn).c_str(), stdout);
  return 0;
}

int printExplained(const std::string& code, bool markdown) {
  const Result<std::string> text = markdown ? Result<std::string>(errorsMarkdown()) : explainError(code);
  if (!text.ok()) return fail(text.status());
  std::fputs(text->c_str(), stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("What Tutti sees and would do on this machine");
  app.set_version_flag("--version", programVersion("tutti-info"), "print the version");
  bool config = false, markdown = false, calibration = false;
  PlanQuestion question;
  auto* configFlag = app.add_flag("--config", config, "all configuration variables, their values and meanings");
  app.add_flag("--markdown", markdown, "with --config or --explain all: as in docs/environment.md and docs/errors.md");
  std::string errorCode;
  auto* explain = app.add_option("--explain", errorCode,
                                 "what an error is, what causes it and what mends it: a code as TUTTI-5104, a message "
                                 "with one, or all");
  app.add_flag("--calibration", calibration, "the link costs that plans are made with");
  auto* plan = app.add_option("--plan", question.collective, "explain the plan for a collective, e.g. allreduce");
  const auto onlyWithPlan = [&](CLI::Option* option) { option->needs(plan); };
  onlyWithPlan(
      app.add_option("--bytes", question.bytes, "vector (allreduce, broadcast, reduce) or one rank's block [1M]"));
  auto* ranks = app.add_option("--ranks", question.ranks,
                               "with --plan or --export: ranks in all [2; with --topo one for each GPU or NUMA node]");
  onlyWithPlan(app.add_option("--topo", question.topology,
                              "with --plan: the machine that each host is, a file or line as for --topology"));
  auto* hosts =
      app.add_option("--hosts", question.hosts, "hosts they are on [1]; with --rings: as many of this machine");
  onlyWithPlan(
      app.add_option("--transport", question.transport, "inside a host, as TUTTI_TRANSPORTS names it [the best]"));
  onlyWithPlan(app.add_option("--cores", question.cores, "cores of a host [this machine's]"));
  onlyWithPlan(app.add_flag("--threads", question.threads, "the ranks of a host are threads of one process"));
  onlyWithPlan(app.add_flag("--direct", question.direct, "all buffers are registered or from tuttiMemAlloc"));
  onlyWithPlan(app.add_option("--way", question.way,
                              "ranks on CUDA devices: cuda-blocks, cuda-streams or cuda-proxy; on the GPUs of --topo, "
                              "else all on one like an H200"));
  TopologyQuestion machine;
  auto* topologyOption = app.add_option("--topology", machine.file,
                                        "the machine as Tutti sees it, or one that a file or a line such as "
                                        "'node:4 gpu:8 nvlink:18x25 nic:8x50' describes")
                             ->expected(0, 1);
  app.add_flag("--dot", machine.dot, "the machine for Graphviz");
  app.add_flag("--svg", machine.svg, "the machine as a picture");
  app.add_flag("--xml", machine.xml, "the machine as NCCL's topology XML");
  bool json = false;
  app.add_flag("--json", json, "with --plan or --topology: the answer for programs");
  app.add_flag("--paths", machine.paths, "path classes and bandwidths between its devices");
  auto* rings = app.add_flag("--rings", machine.rings.asked,
                             "rings and trees per channel on it; with --svg drawn, with --xml as NCCL's graph XML");
  app.add_option("--gpus", machine.rings.gpus, "with --rings: only these GPUs of every host, e.g. 0,2,5")
      ->delimiter(',')
      ->needs(rings);
  ExchangeQuestion exchange;
  app.add_option("--import", exchange.file,
                 "what a plan in MSCCL's XML or MSCCL++'s JSON becomes here, or why it is wrong");
  auto* exportOption = app.add_option("--export", exchange.exported,
                                      "an algorithm as a plan for msccl or mscclpp, e.g. --export msccl allreduce:ring")
                           ->expected(2);
  app.add_flag("--in-place", exchange.inPlace, "with --export: for calls in place")->needs(exportOption);
  CLI11_PARSE(app, argc, argv);
  if (markdown && configFlag->count() == 0 && errorCode != "all")
    return fail(invalidUsage("--markdown needs --config or --explain all"));
  if (hosts->count() > 0 && plan->count() + rings->count() == 0)
    return fail(invalidUsage("--hosts needs --plan or --rings"));
  if (hosts->count() > 0) machine.rings.hosts = question.hosts;
  if (json && plan->count() + topologyOption->count() == 0)
    return fail(invalidUsage("--json needs --plan or --topology"));
  question.json = json && plan->count() > 0;
  machine.json = json && topologyOption->count() > 0;
  exchange.ranks = question.ranks;
  machine.text = topologyOption->count() > 0;
  if (explain->count() > 0) return printExplained(errorCode, markdown);
  if (!config && !calibration && question.collective.empty() && !machine.asked() && !exchange.asked()) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  if (config) {
    if (const Status status = checkConfig(); !status.ok()) return fail(status);
    std::fputs((markdown ? configMarkdown() : configView()).c_str(), stdout);
  }
  if (calibration) printCalibration();
  if (machine.asked()) {
    const auto view = topologyView(machine);
    if (!view.ok()) return fail(view.status());
    std::fputs(view->c_str(), stdout);
  }
  if (exchange.asked()) {
    const auto view = exchangeView(exchange);
    if (!view.ok()) return fail(view.status());
    std::fputs(view->c_str(), stdout);
  }
  if (question.collective.empty()) return 0;
  if (ranks->count() == 0 && !question.topology.empty()) question.ranks = 0;
  const auto text = explainPlan(question);
  if (!text.ok()) return fail(text.status());
  std::fputs(text->c_str(), stdout);
  return 0;
}
