#include "perf/common/report.hpp"

#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

Json environment() {
  Json list = Json::array();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool ours = text.starts_with("TUTTI_") || text.starts_with("NCCL_");
    const bool secret = text.starts_with("TUTTI_UNIQUE_ID=") || text.starts_with("TUTTI_SECRET=");
    if (ours && !secret) list.push_back(text);
  }
  return list;
}

Json config(const Options& o, const std::vector<RankLine>& ranks) {
  Json c = {{"nthreads", o.threads},
            {"ngpus", o.ranksPerThread},
            {"minimum_bytes", o.minBytes},
            {"maximum_bytes", o.maxBytes}};
  if (o.stepFactor > 1) {
    c["step_factor"] = o.stepFactor;
  } else {
    c["step_bytes"] = o.stepBytes;
  }
  c["warmup_iters"] = o.warmup;
  c["iterations"] = o.iterations;
  c["aggregated_iterations"] = o.aggregate;
  c["validation"] = o.checks;
  c["graph"] = 0;
  c["blocking_collectives"] = o.blocking;
  c["run_cycles"] = o.cycles;
  c["average"] = static_cast<int>(o.average);
  c["local_register"] = o.registration;
  c["adopt"] = o.adopt ? 1 : 0;
  c["report_cputime"] = o.cpuTime ? 1 : 0;
  c["fresh_data"] = o.fresh ? 1 : 0;
  c["devices"] = Json::array();
  for (const RankLine& r : ranks) {
    c["devices"].push_back({{"rank", r.rank},
                            {"group", r.group},
                            {"pid", r.pid},
                            {"hostname", r.host},
                            {"device", r.device},
                            {"device_hex", "host memory"},
                            {"device_info", r.processor}});
  }
  return c;
}

Json placement(const std::optional<Measurement>& m, const Options& o) {
  if (!m) return nullptr;
  Json j;
  j[o.cpuTime ? "cpu_time" : "time"] = m->timeUs;
  j["alg_bw"] = m->algbw;
  j["bus_bw"] = m->busbw;
  if (m->wrong) {
    j["nwrong"] = *m->wrong;
  } else {
    j["nwrong"] = "N/A";
  }
  return j;
}

void addSpread(Json* row, const char* prefix, const std::optional<Measurement>& m) {
  if (!m) return;
  const Spread& s = m->spread;
  (*row)[std::string(prefix) + "_per_iter"] = {
      {"min", s.minUs}, {"max", s.maxUs}, {"p99", s.p99Us}, {"cv", s.cvPercent}, {"times", m->callTimesUs}};
}

// Not among nccl-tests' fields: between which times 8 of 10 calls were.
void addBand(Json* row, const char* prefix, const std::optional<Measurement>& m) {
  if (m && m->spread.p10Us > 0)
    (*row)[std::string(prefix) + "_band"] = {{"p10", m->spread.p10Us}, {"p90", m->spread.p90Us}};
}

// Not among nccl-tests' fields: the library's estimate.
Json expectedJson(const std::optional<Expectation>& e) {
  if (!e) return nullptr;
  return {{"time", e->timeUs}, {"algorithm", e->algorithm}, {"protocol", e->protocol}, {"channels", e->channels}};
}

Json rowJson(const Collective& c, const Options& o, const Row& row) {
  Json j = {{"size", row.bytes},
            {"count", row.count},
            {"type", row.type},
            {"redop", row.op},
            {"root", row.root},
            {"out_of_place", placement(row.outOfPlace, o)},
            {"in_place", placement(row.inPlace, o)},
            {"expected", expectedJson(row.expected)},
            {"actual_iterations", row.iterations},
            {"experiment_name", c.program}};
  if (o.timestamps) j["timestamp"] = row.timestamp;
  if (o.wantsCallTimes()) {
    addBand(&j, "out_of_place", row.outOfPlace);
    addBand(&j, "in_place", row.inPlace);
  }
  if (o.perIteration) {
    addSpread(&j, "out_of_place", row.outOfPlace);
    addSpread(&j, "in_place", row.inPlace);
  }
  return j;
}

}  // namespace

std::string timestampNow() {
  const time_t now = time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

std::string jsonText(const Collective& c, const Options& o, const RunRecord& run) {
  const Summary summary = summarize(run.rows);
  Json j;
  j["version"] = 3;
  j["start_time"] = run.startTime;
  j["args"] = run.arguments;
  j["env"] = environment();
  j["nccl_version"] = "tutti " + versionText(run.libraryVersion);  // where scripts look for the library's version
  j["tutti_version"] = versionText(run.libraryVersion);
  j["config"] = config(o, run.ranks);
  j["results"] = Json::array();
  for (const Row& row : run.rows) j["results"].push_back(rowJson(c, o, row));
  j["out_of_bounds"] = {{"count", summary.wrong}, {"okay", summary.dataOk()}};
  j["average_bus_bandwidth"] = {{"bandwidth", summary.averageBusbw}, {"okay", summary.bandwidthOk()}};
  j["errors"] = run.errors;
  j["end_time"] = run.endTime;
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool writeFile(const std::string& path, const std::string& text, std::string* why) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return true;
  *why = "cannot write " + path + ": " + std::strerror(errno);
  return false;
}

}  // namespace tutti::perf
