#include "tools/trace/timeline.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "src/base/text.hpp"
#include "src/base/types.hpp"
#include "tools/json.hpp"
#include "tools/trace/messages.hpp"

namespace tutti::trace {
namespace {

constexpr const char* kProtocols[] = {"", "inline", "slots", "direct"};

std::string microseconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", static_cast<double>(ns) / 1e3);
  return text;
}

class Timeline {
 public:
  explicit Timeline(const Job& job) : job_(job) { findStart(); }

  void add(size_t index, const Communicator& c) {
    for (const auto& trace : c.ranks) {
      if (!trace) continue;
      const int process = processOf(*trace);
      const int track = ++tracks_;
      event(cat(R"("ph":"M","name":"thread_name","pid":)", process, ",\"tid\":", track,
                ",\"args\":{\"name\":", jsonText(cat("rank ", trace->header.rank, " of ", c.title())), "}"));
      for (const Record& record : trace->records) addCall(index, *trace, record, process, track);
    }
  }

  void add(const std::vector<SimulatedCall>& calls) {
    if (calls.empty()) return;
    event(R"("ph":"M","name":"process_name","pid":0,"args":{"name":"simulated"})");
    for (const SimulatedCall& call : calls) {
      event(cat("\"ph\":\"X\",\"name\":", jsonText(call.name),
                ",\"cat\":\"simulated\",\"pid\":0,\"tid\":", call.communicator + 1,
                ",\"ts\":", microseconds(call.startNs - startNs_), ",\"dur\":", jsonNumber(call.us)));
    }
  }

  std::string text() const { return cat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", events_, "\n]}\n"); }

 private:
  void findStart() {
    startNs_ = INT64_MAX;
    for (const Communicator& c : job_.communicators) {
      for (const auto& trace : c.ranks) {
        if (!trace) continue;
        for (const Record& record : trace->records) startNs_ = std::min(startNs_, job_.timeNs(*trace, madeNs(record)));
      }
    }
  }
  static int64_t madeNs(const Record& record) {
    return record.enqueuedNs != 0 ? std::min(record.enqueuedNs, record.startedNs) : record.startedNs;
  }

  int processOf(const RankTrace& trace) {
    const auto [place, isNew] =
        processes_.emplace(std::pair{trace.header.hostId, trace.header.pid}, static_cast<int>(processes_.size()) + 1);
    if (isNew)
      event(cat(R"("ph":"M","name":"process_name","pid":)", place->second, ",\"args\":{\"name\":",
                jsonText(cat("rank ", trace.header.rank, " (", trace.header.host, ", process ", trace.header.pid, ")")),
                "}"));
    return place->second;
  }

  static std::string arguments(const RankTrace& trace, const Record& record) {
    const CallParts parts = partsOf(callOf(record));
    const RecordDetail detail = decodeDetail(record.detail);
    const bool message = isMessage(record);
    std::string text = cat("\"call\":", jsonText(message ? describeMessage(record) : describeCall(callOf(record))),
                           ",\"number\":", parts.sequence, ",\"bytes\":", record.bytes);
    if (!message)
      text += cat(",\"algorithm\":", jsonText(algorithmOf(trace, record)),
                  ",\"protocol\":", jsonText(kProtocols[detail.protocol]), ",\"channels\":", detail.nChannels);
    if (record.enqueuedNs != 0) text += cat(",\"queuedUs\":", microseconds(record.startedNs - madeNs(record)));
    if (record.endedNs <= 0) text += cat(",\"state\":", jsonText(record.endedNs < 0 ? "failed" : "not over"));
    if (detail.coarse) text += ",\"times\":\"coarse\"";
    return text;
  }

  /// What is not over lasts until its file was written.
  void addCall(size_t index, const RankTrace& trace, const Record& record, int process, int track) {
    const int64_t end = record.endedNs != 0 ? endOf(record) : trace.header.writtenNs;
    const int64_t start = job_.timeNs(trace, record.startedNs) - startNs_;
    const int64_t took = std::max<int64_t>(end - record.startedNs, 0);
    const std::string head = cat("\"name\":", jsonText(nameOf(record)), ",\"pid\":", process, ",\"tid\":", track);
    const std::string args = cat(",\"args\":{", arguments(trace, record), "}");
    if (!isMessage(record)) {
      event(cat("\"ph\":\"X\",\"cat\":\"collective\",", head, ",\"ts\":", microseconds(start),
                ",\"dur\":", microseconds(took), args));
      return;
    }
    const std::string id = jsonText(cat(index, ".", trace.header.rank, ".", record.number));
    event(cat("\"ph\":\"b\",\"cat\":\"message\",\"id\":", id, ",", head, ",\"ts\":", microseconds(start), args));
    event(cat("\"ph\":\"e\",\"cat\":\"message\",\"id\":", id, ",", head, ",\"ts\":", microseconds(start + took)));
  }

  void event(const std::string& fields) { events_ += cat(events_.empty() ? "{" : ",\n{", fields, "}"); }

  const Job& job_;
  int64_t startNs_ = 0;
  std::map<std::pair<uint64_t, int32_t>, int> processes_;
  int tracks_ = 0;
  std::string events_;
};

}  // namespace

std::string timeline(const Job& job, const std::vector<SimulatedCall>& simulated) {
  Timeline all(job);
  for (size_t i = 0; i < job.communicators.size(); ++i) all.add(i, job.communicators[i]);
  all.add(simulated);
  return all.text();
}

}  // namespace tutti::trace
