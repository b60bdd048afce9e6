#include "tools/sim/as_nccl.hpp"

#include <algorithm>
#include <cstdio>

#include "tools/cluster/executors.hpp"
#include "tools/json.hpp"
#include "tools/nccl_model/predict.hpp"
#include "tools/sim/report.hpp"

namespace tutti::sim {
namespace {

using nccl_model::Candidate;
using nccl_model::Prediction;

/// A question to NCCL, understood.
struct AskedNccl {
  Cluster cluster;
  nccl_model::Machine machine;
  Collective collective = Collective::AllReduce;
  size_t bytes = 0;
  nccl_model::Settings settings;

  /// A Shape names one rank's block where NCCL names all of them.
  double ncclBytes(size_t size) const {
    return static_cast<double>(size) * (isOneVector(collective) ? 1 : cluster.nRanks());
  }
  Result<Prediction> predictFor(size_t size) const {
    return nccl_model::predict(machine, collective, ncclBytes(size), settings);
  }
};

/// "2.27", "2.27.7" -> 227.
Result<int> releaseOf(const std::string& text) {
  const std::vector<std::string> parts = split(text, '.');
  int minor = 0;
  const bool two = parts.size() >= 2 && parts.size() <= 3 && parts[0] == "2" && parts[1].size() == 2;
  if (!two || std::sscanf(parts[1].c_str(), "%2d", &minor) != 1) {
    return invalidUsage("--nccl-release ", text, " is not a release such as 2.27");
  }
  return 200 + minor;
}

/// Each of the names has to be one of NCCL's.
template <class List>
Status checkNames(const char* option, const std::string& names, const List& known) {
  for (const std::string& name : split(names, ',')) {
    const auto same = [&](auto one) {
      return std::ranges::equal(name, nameOf(one), [](char a, char b) { return std::tolower(a) == std::tolower(b); });
    };
    if (names.empty() || std::ranges::any_of(known, same)) continue;
    std::string all;
    for (const auto one : known) all += cat(all.empty() ? "" : ", ", nameOf(one));
    return invalidUsage(option, " ", name, ": NCCL has ", all);
  }
  return {};
}

Result<AskedNccl> understandNccl(const Question& q, const NcclQuestion& nccl) {
  AskedNccl asked;
  Question rest = q;
  rest.algorithm.clear();
  rest.protocol.clear();
  TUTTI_ASSIGN(const Asked common, understand(rest));
  asked.cluster = common.cluster;
  asked.collective = common.collective;
  asked.bytes = common.bytes;
  TUTTI_ASSIGN(const Network network, Network::make(asked.cluster));
  TUTTI_ASSIGN(asked.machine, nccl_model::machineOf(network));
  TUTTI_ASSIGN(asked.settings.release, releaseOf(nccl.release));
  TUTTI_TRY(checkNames("--algorithm", q.algorithm, nccl_model::kWays));
  TUTTI_TRY(checkNames("--protocol", q.protocol, nccl_model::kProtocols));
  asked.settings.gpusPerProcess = nccl.gpusPerProcess;
  asked.settings.alone = nccl.alone;
  asked.settings.sharp = nccl.sharp;
  asked.settings.ways = q.algorithm;
  asked.settings.protocols = q.protocol;
  return asked;
}

std::string candidateTable(const Prediction& p) {
  std::string text = "     algorithm  protocol  NCCL expects        us  until first bytes  channels     chunk\n";
  for (const Candidate& c : p.candidates) {
    const std::string chunk = c.time.chunkBytes > 0 ? formatBytes(static_cast<size_t>(c.time.chunkBytes)) : "-";
    text += cat("  ", &c == &p.best() ? "*" : " ", padded(std::string(nameOf(c.way)), 11), "  ",
                padded(std::string(nameOf(c.protocol)), 8), "  ", padded(shortNumber(c.estimateUs), 12), "  ",
                padded(shortNumber(c.time.us()), 8), "  ", padded(shortNumber(c.time.latencyUs), 17), "  ",
                padded(cat(c.time.channels), 8), "  ", padded(chunk, 8), "\n");
  }
  return text +
         (p.byPlugin ? "  * what the adapters' plugin chooses\n" : "  * what NCCL chooses, by what it expects\n");
}

std::string jsonReport(const AskedNccl& asked, const Prediction& p, double bus) {
  std::vector<std::string> candidates;
  for (const Candidate& c : p.candidates) {
    candidates.push_back(cat("{\"algorithm\": ", jsonText(nameOf(c.way)),
                             ", \"protocol\": ", jsonText(nameOf(c.protocol)),
                             ", \"expected_us\": ", jsonNumber(c.estimateUs), ", \"us\": ", jsonNumber(c.time.us()),
                             ", \"latency_us\": ", jsonNumber(c.time.latencyUs), ", \"channels\": ", c.time.channels,
                             ", \"chunk_bytes\": ", jsonNumber(c.time.chunkBytes), "}"));
  }
  return cat("{\"cluster\": ", jsonText(describe(asked.cluster)), ", \"ranks\": ", asked.cluster.nRanks(),
             ", \"collective\": ", jsonText(collectiveKey(asked.collective)), ", \"bytes\": ", asked.bytes,
             ", \"as\": \"nccl\", \"algorithm\": ", jsonText(nameOf(p.best().way)),
             ", \"protocol\": ", jsonText(nameOf(p.best().protocol)), ", \"us\": ", jsonNumber(p.us()),
             ", \"launch_us\": ", jsonNumber(p.launchUs), ", \"alone_us\": ", jsonNumber(p.aloneUs),
             ", \"busbw_gbps\": ", jsonNumber(bus), ", \"candidates\": ", jsonList(candidates), "}\n");
}

/// The fastest of Tutti's algorithms that work there.
struct Fastest {
  const Algorithm* algorithm = nullptr;
  double us = 1e300;
};

Result<Fastest> fastestOf(const Network& network, const Asked& asked, size_t size) {
  Fastest best;
  for (const Algorithm* algorithm : fitting(network, asked)) {
    TUTTI_ASSIGN(const Outcome o, simulate(network, asked.taskFor(algorithm, size), asked.options));
    if (o.us < best.us) best = {algorithm, o.us};
  }
  return best;
}

/// Tutti by one of its executors.
struct Own {
  std::string executor;
  Asked asked;
  Network network;
};

/// By what `auto` takes there, and by blocks of kernels where these could be asked for.
Result<std::vector<Own>> ownOf(const Question& question, const Cluster& cluster) {
  std::vector<Own> all;
  for (const Executor executor : {Executor::Auto, Executor::Resident}) {
    if (executor == Executor::Resident && cluster.nodes > 1) continue;
    Question own = question;
    own.algorithm.clear();
    own.protocol.clear();
    own.executor = executorName(executor);
    TUTTI_ASSIGN(Asked asked, understand(own));
    TUTTI_ASSIGN(Network network, Network::make(asked.cluster));
    all.push_back({executorName(executorOf(executor, cluster)), std::move(asked), std::move(network)});
  }
  return all;
}

struct Row {
  size_t bytes;
  double ncclUs;
  Candidate nccl;
  std::vector<Fastest> own;  // [executor]
};

std::string tableOf(const AskedNccl& asked, const std::string& release, const std::vector<Own>& own,
                    const std::vector<Row>& rows) {
  std::string text =
      cat(collectiveKey(asked.collective), ", ", describe(asked.cluster), ", microseconds: NCCL ", release,
          " beside the fastest of Tutti's algorithms by executor\n", "   bytes       NCCL  by               ");
  for (const Own& one : own) text += cat(padded(one.executor, 9), "  by                   NCCL / it");
  text += "\n";
  for (const Row& row : rows) {
    char line[160];
    std::snprintf(line, sizeof line, "%8s  %9s  %-10s %-6s", formatBytes(row.bytes).c_str(),
                  shortNumber(row.ncclUs).c_str(), std::string(nameOf(row.nccl.way)).c_str(),
                  std::string(nameOf(row.nccl.protocol)).c_str());
    text += line;
    for (const Fastest& best : row.own) {
      std::snprintf(line, sizeof line, "%9s  %-20s %9.2f", shortNumber(best.us).c_str(),
                    std::string(best.algorithm->name).c_str(), row.ncclUs / best.us);
      text += line;
    }
    text += "\n";
  }
  return text;
}

std::string jsonRows(const AskedNccl& asked, const std::vector<Own>& own, const std::vector<Row>& rows) {
  std::vector<std::string> results;
  for (const Row& row : rows) {
    std::vector<std::string> executors;
    for (size_t i = 0; i < own.size(); ++i) {
      executors.push_back(cat("{\"executor\": ", jsonText(own[i].executor), ", \"us\": ", jsonNumber(row.own[i].us),
                              ", \"algorithm\": ", jsonText(row.own[i].algorithm->name), "}"));
    }
    results.push_back(cat("{\"bytes\": ", row.bytes, ", \"nccl_us\": ", jsonNumber(row.ncclUs),
                          ", \"nccl_algorithm\": ", jsonText(nameOf(row.nccl.way)), ", \"nccl_protocol\": ",
                          jsonText(nameOf(row.nccl.protocol)), ", \"tutti\": ", jsonList(executors), "}"));
  }
  return cat("{\"cluster\": ", jsonText(describe(asked.cluster)), ", \"ranks\": ", asked.cluster.nRanks(),
             ", \"collective\": ", jsonText(collectiveKey(asked.collective)), ", \"results\": ", jsonList(results),
             "}\n");
}

}  // namespace

Result<std::string> reportNccl(const Question& question, const NcclQuestion& nccl, bool json) {
  TUTTI_ASSIGN(const AskedNccl asked, understandNccl(question, nccl));
  TUTTI_ASSIGN(const Prediction p, asked.predictFor(asked.bytes));
  const double bus = busGBps(asked.collective, static_cast<double>(asked.bytes), asked.cluster.nRanks(), p.us());
  if (json) return jsonReport(asked, p, bus);
  std::string text =
      cat(collectiveKey(asked.collective), " as NCCL ", nccl.release, ", ", formatBytes(asked.bytes), ", ",
          describe(asked.cluster), ": ", shortNumber(p.us()), " us, busbw ", shortNumber(bus), " GB/s\n");
  if (p.launchUs > p.best().time.us()) {
    text += cat("  as long as one thread launches the kernels of ", nccl.gpusPerProcess, " GPUs\n");
  }
  if (p.aloneUs > 0) text += cat("  of which ", shortNumber(p.aloneUs), " until a call alone is launched\n");
  return text + candidateTable(p);
}

Result<std::string> compareWithNccl(const Question& question, const NcclQuestion& nccl, const CompareOptions& options) {
  TUTTI_ASSIGN(const std::vector<size_t> sizes, sizesOf(options));
  TUTTI_ASSIGN(const AskedNccl asked, understandNccl(question, nccl));
  TUTTI_ASSIGN(const std::vector<Own> own, ownOf(question, asked.cluster));
  std::vector<Row> rows;
  for (const size_t size : sizes) {
    TUTTI_ASSIGN(const Prediction p, asked.predictFor(size));
    Row row{size, p.us(), p.best(), {}};
    for (const Own& one : own) {
      TUTTI_ASSIGN(const Fastest best, fastestOf(one.network, one.asked, size));
      row.own.push_back(best);
    }
    rows.push_back(std::move(row));
  }
  return options.json ? jsonRows(asked, own, rows) : tableOf(asked, nccl.release, own, rows);
}

}  // namespace tutti::sim
