#include "tools/sim/ask.hpp"

#include <cstdio>

#include "src/base/nearest.hpp"
#include "tools/cluster/executors.hpp"

namespace tutti::sim {
namespace {

Result<std::vector<const Algorithm*>> algorithmsOf(Collective collective, const std::string& name) {
  std::vector<const Algorithm*> all;
  std::string text;
  std::vector<std::string> names;
  for (const Algorithm* a : algorithms()) {
    if (a->collective != collective) continue;
    text += cat(text.empty() ? "" : ", ", a->name);
    names.emplace_back(a->name);
    all.push_back(a);
  }
  if (name.empty()) return all;
  std::vector<const Algorithm*> some;
  for (const std::string& one : split(name, ',')) {
    const Algorithm* found = findAlgorithm(collective, one);
    if (found == nullptr) {
      return invalidUsage("--algorithm ", one, ": ", collectiveKey(collective), " has no such algorithm",
                          didYouMean(one, names), "; it has ", text);
    }
    some.push_back(found);
  }
  return some;
}

/// The plan of a file: all that its collective is asked about.
Status takePlan(const Question& q, Asked* asked) {
  if (!q.algorithm.empty()) return invalidUsage("--plan and --algorithm: one of them");
  TUTTI_ASSIGN(ImportedPlan plan, importPlanFile(q.plan));
  asked->collective = plan.collective;
  const bool inPlace = !q.outOfPlace && !plan.inPlace.empty();
  if (plan.schedules(inPlace).empty()) return invalidUsage("--plan ", q.plan, " is for calls in place alone");
  asked->plan = std::make_unique<AskedPlan>(AskedPlan{std::move(plan), {}});
  Algorithm& algorithm = asked->plan->algorithm;
  algorithm.collective = asked->collective;
  algorithm.name = asked->plan->plan.name;
  asked->task.schedules = &asked->plan->plan.schedules(inPlace);
  asked->algorithms = {&algorithm};
  return {};
}

/// Clusters name their protocols themselves.
Status checkProtocol(const std::string& name, const Cluster& cluster) {
  std::string names;
  for (const std::vector<ProtocolSpec>* list : {&cluster.near, &cluster.far}) {
    for (const ProtocolSpec& p : *list) {
      if (p.name == name) return {};
      names += (names.empty() ? "" : ", ") + p.name;
    }
  }
  return name.empty() ? Status() : invalidUsage("--protocol ", name, ": the cluster has ", names);
}

}  // namespace

Task Asked::taskFor(const Algorithm* algorithm, size_t size) const {
  Task result = task;
  result.algorithm = algorithm;
  result.bytes = collective == Collective::Barrier ? 0 : size;
  return result;
}

Result<Asked> understand(const Question& q) {
  Asked asked;
  if (!parseCollective(q.collective, &asked.collective)) {
    return invalidUsage("--collective ", notACollective(q.collective));
  }
  if (q.plan.empty()) {
    TUTTI_ASSIGN(asked.algorithms, algorithmsOf(asked.collective, q.algorithm));
    asked.byName = !q.algorithm.empty();
  } else {
    TUTTI_TRY(takePlan(q, &asked));
  }
  if (!parseBytes(q.bytes, &asked.bytes)) return invalidUsage("--bytes ", q.bytes, " is not a size such as 8, 64K, 1M");
  if (asked.bytes > size_t{1} << 46) return invalidUsage("--bytes ", q.bytes, ": at most 64 TB");
  TUTTI_ASSIGN(asked.cluster, loadCluster(q.cluster));
  if (!q.executor.empty()) {
    TUTTI_ASSIGN(const Executor executor, parseExecutor(q.executor));
    TUTTI_TRY(useExecutor(executor, &asked.cluster));
  }
  asked.task.root = asked.plan ? asked.plan->plan.root : q.root;
  asked.task.inPlace = !q.outOfPlace && (!asked.plan || !asked.plan->plan.inPlace.empty());
  asked.task.joined = !q.single;
  asked.task.options.sliceBytes = asked.cluster.sliceBytes;
  if (q.channels < 0 || q.channels > 1024) return invalidUsage("--channels ", q.channels, ": 0 to 1024");
  asked.options.channels = q.channels;
  asked.options.asMachine = true;
  TUTTI_TRY(checkProtocol(q.protocol, asked.cluster));
  asked.options.protocol = q.protocol;
  if (q.detail == "ranks") {
    asked.options.detail = Detail::Ranks;
  } else if (q.detail == "classes") {
    asked.options.detail = Detail::Classes;
  } else if (q.detail != "auto") {
    return invalidUsage("--detail ", q.detail, ": there are ranks, classes, auto");
  }
  return asked;
}

std::string shortNumber(double value) {
  char text[32];
  const char* format = value >= 99999999.5 ? "%.4g" : value >= 1000 ? "%.0f" : value >= 100 ? "%.1f" : "%.2f";
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string padded(const std::string& text, size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

}  // namespace tutti::sim
