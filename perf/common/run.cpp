#include "perf/common/run.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>

#include "perf/common/bench.hpp"
#include "perf/common/environment.hpp"
#include "perf/common/options.hpp"
#include "perf/common/plot.hpp"
#include "perf/common/progress.hpp"
#include "perf/common/report.hpp"

namespace tutti::perf {
namespace {

struct RowPlan {
  TypeInfo type;
  OpInfo op;
  int root;
  size_t bytes;
};

// Types, then operators, then roots, then sizes: nccl-tests' order.
std::vector<RowPlan> planRows(const Options& o, const Collective& c, int nRanks) {
  std::vector<RowPlan> rows;
  const std::vector<OpInfo> none = {*findOp("sum")};
  for (const TypeInfo& type : o.types) {
    for (const OpInfo& op : c.reduces ? o.ops : none) {
      if (c.reduces && !opTakesType(op, type)) continue;
      const int first = c.rooted && !o.allRoots ? o.root : 0;
      const int last = c.rooted && o.allRoots ? nRanks - 1 : first;
      for (int root = first; root <= last; ++root) {
        for (size_t bytes : sweepSizes(o)) rows.push_back({type, op, root, bytes});
      }
    }
  }
  return rows;
}

double peakMemoryMiB() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

class Program {
 public:
  Program(const Options& options, const Collective& collective, int argc, char** argv)
      : options_(options), collective_(collective) {
    record_.arguments.assign(argv, argv + argc);
    record_.startTime = timestampNow();
    (void)tuttiGetVersion(&record_.libraryVersion);
  }

  int run();

 private:
  void threadMain(World& world, int thread);
  void sweep(World& world, int thread);
  void complain(const std::string& sentence);
  int conclude(bool print);

  const Options& options_;
  const Collective& collective_;
  RunRecord record_;  // written by thread 0 only, read after the threads have ended
  std::mutex mutex_;  // guards errors_
  std::vector<std::string> errors_;
};

void Program::complain(const std::string& sentence) {
  std::lock_guard lock(mutex_);
  std::fprintf(stderr, "%s: %s\n", collective_.program, sentence.c_str());
  errors_.push_back(sentence);
}

void Program::threadMain(World& world, int thread) {
  try {
    sweep(world, thread);
    return;
  } catch (const Stopped&) {
    // the thread that failed has said why
  } catch (const std::exception& e) {
    complain("ranks from " + std::to_string(world.firstRank(thread)) + ": " + e.what());
  }
  world.stop();
  world.abort(thread);
}

void Program::sweep(World& world, int thread) {
  Bench bench(world, options_, collective_, thread);
  const std::vector<RankLine> ranks = bench.describeRanks();
  const bool prints = world.process() == 0 && thread == 0;
  if (prints) {
    std::fputs(headerText(collective_, options_, ranks, record_.libraryVersion).c_str(), stdout);
    std::fflush(stdout);
  }
  if (thread == 0) record_.ranks = ranks;
  const std::vector<RowPlan> plans = planRows(options_, collective_, bench.smallestGroup());
  const auto cycles = static_cast<size_t>(std::max(1, options_.cycles));  // 0: until it is interrupted
  Progress progress(prints ? cycles * plans.size() : 0, "rows");
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (size_t i = 0; i < plans.size(); ++i) {
      const RowPlan& p = plans[i];
      progress.show(static_cast<size_t>(cycle) * plans.size() + i,
                    std::to_string(p.bytes) + " bytes of " + p.type.name);
      Row row = bench.measureRow(p.type, p.op, p.root, p.bytes);
      row.timestamp = timestampNow();
      if (thread == 0) record_.rows.push_back(row);
      if (!prints) continue;
      progress.clear();
      std::fputs(rowText(row, options_).c_str(), stdout);
      std::fflush(stdout);
    }
  }
  world.barrier(thread);  // nobody frees what another still reads
}

int Program::conclude(bool print) {
  record_.endTime = timestampNow();
  record_.errors = errors_;
  const Summary summary = summarize(record_.rows);
  bool ok = summary.dataOk() && summary.bandwidthOk();
  if (print) {
    std::fputs(footerText(collective_, options_, summary, peakMemoryMiB()).c_str(), stdout);
    std::fflush(stdout);
    std::string why;
    const auto write = [&](const std::string& path, const std::string& text) {
      if (path.empty() || writeFile(path, text, &why)) return;
      std::fprintf(stderr, "%s: %s\n", collective_.program, why.c_str());
      ok = false;
    };
    write(options_.jsonPath, options_.jsonPath.empty() ? "" : jsonText(collective_, options_, record_));
    write(options_.plotPath,
          options_.plotPath.empty() ? "" : plotSvg(collective_, options_, record_.rows, record_.ranks));
  }
  return ok ? 0 : 1;
}

int Program::run() {
  bool prints = false;
  try {
    World world(options_);
    prints = world.process() == 0;
    std::vector<std::thread> threads;
    for (int t = 1; t < world.threads(); ++t) threads.emplace_back([&, t] { threadMain(world, t); });
    threadMain(world, 0);
    for (std::thread& t : threads) t.join();
  } catch (const std::exception& e) {
    complain(e.what());
  }
  if (errors_.empty()) return conclude(prints);
  (void)conclude(prints && !record_.ranks.empty());  // what was measured is not lost
  return 3;
}

}  // namespace

int run(int argc, char** argv, const Collective& collective) {
  const ParsedOptions parsed = parseOptions(argc, argv, collective.reduces);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exitCode == 0 ? stdout : stderr);
    return parsed.exitCode;
  }
  if (const std::string complaint = checkTestsVariables(); !complaint.empty()) {
    std::fprintf(stderr, "%s: %s\n", collective.program, complaint.c_str());
    return 1;
  }
  return Program(*parsed.options, collective, argc, argv).run();
}

}  // namespace tutti::perf
