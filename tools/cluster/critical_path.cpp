#include "tools/cluster/critical_path.hpp"

#include <algorithm>
#include <cstdio>

namespace tutti::sim {
namespace {

const char* kindName(PathPart::Kind kind) {
  constexpr const char* kNames[] = {"launch", "lane", "wire", "latency"};
  return kNames[kind];
}

/// Goes back from the last step.
class Back {
 public:
  explicit Back(const Run& run) : run_(run) {}

  std::vector<PathPart> go() {
    if (run_.steps.empty()) return {};
    int32_t step = 0;
    for (size_t i = 1; i < run_.steps.size(); ++i) {
      if (run_.steps[i].end > run_.steps[static_cast<size_t>(step)].end) step = static_cast<int32_t>(i);
    }
    double until = run_.steps[static_cast<size_t>(step)].end;
    while (step >= 0) {
      const StepRecord& s = run_.steps[static_cast<size_t>(step)];
      add({PathPart::Lane, s.ready, until, s.member, s.lane, s.step, -1});
      until = s.ready;
      if (s.message >= 0) {
        step = overMessage(s.message, &until);
      } else {
        step = s.before;
      }
    }
    add({PathPart::Launch, 0, until, 0, 0, -1, -1});
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  void add(PathPart part) {
    if (part.end > part.begin) path_.push_back(part);
  }

  /// To the step that sent it, or that sent the first of those that it had to wait behind.
  int32_t overMessage(int32_t message, double* until) {
    const MessageRecord* m = &run_.sent[static_cast<size_t>(message)];
    const int32_t lane = run_.steps[static_cast<size_t>(m->step)].lane;
    add({PathPart::Latency, m->end, *until, m->member, lane, -1, message});
    *until = m->end;
    for (;; message = m->behind, m = &run_.sent[static_cast<size_t>(message)]) {
      add({PathPart::Wire, m->start, *until, m->member, lane, -1, message});
      *until = m->start;
      if (m->behind < 0) break;
    }
    *until = m->ready;
    return m->step;
  }

  const Run& run_;
  std::vector<PathPart> path_;
};

const LinkEdge& edgeOf(const Outcome& o, const MessageRecord& m) {
  return o.job.edges[static_cast<size_t>(m.member)][static_cast<size_t>(m.edge)];
}

std::string describePart(const Outcome& o, const PathPart& part) {
  const double us = part.end - part.begin;
  char head[64];
  std::snprintf(head, sizeof head, "%12.3f  %-8s", us, kindName(part.kind));
  std::string text = head;
  if (part.message < 0) return cat(text, "rank ", o.job.rankOf[static_cast<size_t>(part.member)], " lane ", part.lane);
  const MessageRecord& m = o.run.sent[static_cast<size_t>(part.message)];
  const LinkEdge& edge = edgeOf(o, m);
  return cat(text, "rank ", o.job.rankOf[static_cast<size_t>(m.member)], " -> ",
             o.job.rankOf[static_cast<size_t>(edge.to)], ", ", m.bytes, " bytes, ", edge.far ? "far " : "near ",
             (edge.far ? o.job.far : o.job.near)[static_cast<size_t>(m.protocol)].name);
}

/// One complete event.
void event(std::string* out, const std::string& name, int pid, int tid, double begin, double end,
           const std::string& args) {
  char numbers[128];
  std::snprintf(numbers, sizeof numbers, "\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.6f,\"dur\":%.6f", pid, tid, begin,
                end - begin);
  *out += cat(out->back() == '[' ? "\n" : ",\n", "{\"name\":\"", name, "\",", numbers, ",\"args\":{", args, "}}");
}

}  // namespace

std::vector<PathPart> criticalPath(const Outcome& outcome) { return Back(outcome.run).go(); }

std::string describePath(const Network& network, const Outcome& o, const std::vector<PathPart>& path) {
  double sums[4] = {}, farUs = 0, total = 0;
  int messages = 0;
  for (const PathPart& part : path) {
    const double us = part.end - part.begin;
    sums[part.kind] += us;
    total += us;
    if (part.message >= 0 && edgeOf(o, o.run.sent[static_cast<size_t>(part.message)]).far) farUs += us;
    if (part.kind == PathPart::Latency) ++messages;
  }
  std::string text = cat("critical path: ", messages, " messages one after the other\n");
  for (int kind = 0; kind < 4; ++kind) {
    char line[96];
    std::snprintf(line, sizeof line, "  %-8s %12.3f us  %5.1f %%\n", kindName(static_cast<PathPart::Kind>(kind)),
                  sums[kind], total > 0 ? 100 * sums[kind] / total : 0);
    text += line;
  }
  if (network.cluster().nodes > 1) {
    char line[96];
    std::snprintf(line, sizeof line, "  between nodes %7.3f us  %5.1f %%\n", farUs,
                  total > 0 ? 100 * farUs / total : 0);
    text += line;
  }
  std::vector<PathPart> longest = path;
  const size_t shown = std::min<size_t>(longest.size(), 5);
  std::partial_sort(longest.begin(), longest.begin() + static_cast<std::ptrdiff_t>(shown), longest.end(),
                    [](const PathPart& a, const PathPart& b) { return a.end - a.begin > b.end - b.begin; });
  text += "longest parts, us\n";
  for (size_t i = 0; i < shown; ++i) text += describePart(o, longest[i]) + "\n";
  return text;
}

std::string chromeTrace(const Outcome& o, int mostMembers) {
  constexpr int kWire = 1000;  // thread numbers of what is on the wire
  std::string out = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  for (const StepRecord& s : o.run.steps) {
    if (s.member >= mostMembers) continue;
    event(&out, cat("step ", s.step), o.job.rankOf[static_cast<size_t>(s.member)], s.lane, s.ready, s.end,
          cat("\"loop\":", s.loop));
  }
  for (const MessageRecord& m : o.run.sent) {
    if (m.member >= mostMembers) continue;
    const LinkEdge& edge = edgeOf(o, m);
    event(&out, cat("to ", o.job.rankOf[static_cast<size_t>(edge.to)]), o.job.rankOf[static_cast<size_t>(m.member)],
          kWire + o.run.steps[static_cast<size_t>(m.step)].lane, m.start, m.end,
          cat("\"bytes\":", m.bytes, ",\"arrives\":", m.arrival, ",\"far\":", edge.far ? "true" : "false"));
  }
  return out + "\n]}\n";
}

}  // namespace tutti::sim
