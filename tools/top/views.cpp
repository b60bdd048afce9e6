#include "tools/top/views.hpp"

#include <algorithm>
#include <cstdio>

#include "src/base/text.hpp"
#include "tools/json.hpp"

namespace tutti::top {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[512];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

const RankNow* find(const Snapshot& snapshot, const CommunicatorNow& of, int rank, int64_t* takenNs) {
  for (const CommunicatorNow& c : snapshot) {
    if (c.id != of.id || static_cast<size_t>(rank) >= c.ranks.size()) continue;
    *takenNs = c.takenNs;
    return &c.ranks[static_cast<size_t>(rank)];
  }
  return nullptr;
}

std::string seconds(int64_t ns) { return format("%.1f s", static_cast<double>(ns) / 1e9); }

/// "AllReduce number 6 (count 32, float, sum) for 1.5 s, waits for rank 2"
std::string stateOf(const RankNow& rank) {
  if (!rank.answered && rank.silentMs > 0)
    return cat("does not answer; its host has been silent for ", seconds(rank.silentMs * 1'000'000));
  if (!rank.answered) return "does not answer";
  if (rank.left) return "has left";
  if (rank.doing.empty()) return "between calls";
  std::string text = cat(rank.doing, " for ", seconds(rank.doingNs));
  if (rank.waitingOn >= 0) text += cat(", waits for rank ", rank.waitingOn);
  return text;
}

std::string title(const CommunicatorNow& c) {
  return cat("communicator ", c.name.empty() ? c.id : cat("'", c.name, "' ", c.id), ", ", c.ranks.size(), " ranks, on ",
             c.host, " (process ", c.pid, ")");
}

std::string rates(const RankNow& rank, const RankNow* before, int64_t ns) {
  if (before == nullptr || !before->answered || !rank.answered || ns <= 0) return format("%10s %10s", "-", "-");
  const double s = static_cast<double>(ns) / 1e9;
  return format("%10.0f %10.3f", static_cast<double>(rank.calls - before->calls) / s,
                static_cast<double>(rank.bytes - before->bytes) / s / 1e9);
}

uint64_t mostCollectives(const CommunicatorNow& c) {
  uint64_t most = 0;
  for (const RankNow& rank : c.ranks) most = std::max(most, rank.collectives);
  return most;
}

const char* healthName(Health health) {
  constexpr const char* kNames[] = {"RUNNING", "MISMATCH", "INCOMPLETE", "ABORT"};
  return kNames[static_cast<size_t>(health)];
}

}  // namespace

std::string table(const Snapshot& now, const Snapshot& before) {
  if (now.empty()) return "no communicator of this user's has its rank 0 on this host\n";
  std::string text;
  for (const CommunicatorNow& c : now) {
    text += title(c) + "\n";
    if (!c.failure.empty()) text += cat("  failed: ", c.failure, "\n");
    text += format("  %5s %8s %12s %10s %10s  %s\n", "rank", "process", "calls", "calls/s", "GB/s", "state");
    for (const RankNow& rank : c.ranks) {
      int64_t takenNs = 0;
      const RankNow* const earlier = find(before, c, rank.rank, &takenNs);
      text += format("  %5d %8d %12llu ", rank.rank, rank.pid, static_cast<unsigned long long>(rank.calls));
      text += cat(rates(rank, earlier, c.takenNs - takenNs), "  ", stateOf(rank), "\n");
    }
  }
  return text;
}

std::string prometheus(const Snapshot& now) {
  struct Metric {
    const char *name, *kind, *help;
    double (*value)(const RankNow&);
  };
  static constexpr Metric kMetrics[] = {
      {"tutti_rank_answers", "gauge", "1 if the rank answered in time",
       [](const RankNow& r) { return r.answered ? 1.0 : 0.0; }},
      {"tutti_host_silent_seconds", "gauge",
       "for how long the rank's host has answered some rank nothing; 0: it answers",
       [](const RankNow& r) { return static_cast<double>(r.silentMs) / 1e3; }},
      {"tutti_calls_total", "counter", "calls made, collectives and messages",
       [](const RankNow& r) { return static_cast<double>(r.calls); }},
      {"tutti_collectives_total", "counter", "collectives entered",
       [](const RankNow& r) { return static_cast<double>(r.collectives); }},
      {"tutti_bytes_total", "counter", "bytes of calls, of the larger buffer each",
       [](const RankNow& r) { return static_cast<double>(r.bytes); }},
      {"tutti_pending_seconds", "gauge", "how long the call under way has gone on; 0: none is",
       [](const RankNow& r) { return r.doing.empty() ? 0.0 : static_cast<double>(r.doingNs) / 1e9; }},
      {"tutti_waiting_on_rank", "gauge", "the rank that is waited for; -1: none",
       [](const RankNow& r) { return static_cast<double>(r.waitingOn); }},
  };
  std::string text;
  for (const Metric& metric : kMetrics) {
    text += cat("# HELP ", metric.name, " ", metric.help, "\n# TYPE ", metric.name, " ", metric.kind, "\n");
    for (const CommunicatorNow& c : now) {
      for (const RankNow& rank : c.ranks)
        text += cat(metric.name, "{communicator=", jsonText(c.id), ",name=", jsonText(c.name), ",rank=\"", rank.rank,
                    "\"} ", jsonNumber(metric.value(rank)), "\n");
    }
  }
  text += "# HELP tutti_communicator_failed 1 if the communicator has failed\n# TYPE tutti_communicator_failed gauge\n";
  for (const CommunicatorNow& c : now)
    text += cat("tutti_communicator_failed{communicator=", jsonText(c.id), ",name=", jsonText(c.name), "} ",
                c.failure.empty() ? 0 : 1, "\n");
  return text;
}

Health healthOf(const CommunicatorNow& c) {
  if (!c.failure.empty()) return Health::Failed;
  const uint64_t most = mostCollectives(c);
  bool all = true, same = true;
  for (const RankNow& rank : c.ranks) {
    all = all && rank.answered;
    same = same && (!rank.answered || rank.collectives == most);
  }
  return !all ? Health::Incomplete : same ? Health::Running : Health::Mismatch;
}

std::string rasText(const Snapshot& now, bool verbose) {
  std::string text = "Job summary\n===========\n\n  Comms  Ranks  Answering  Failed\n";
  size_t ranks = 0, answering = 0, failed = 0;
  for (const CommunicatorNow& c : now) {
    ranks += c.ranks.size();
    answering +=
        static_cast<size_t>(std::count_if(c.ranks.begin(), c.ranks.end(), [](const RankNow& r) { return r.answered; }));
    failed += c.failure.empty() ? 0 : 1;
  }
  text += format("  %5zu  %5zu  %9zu  %6zu\n\nCommunicators\n=============\n\n", now.size(), ranks, answering, failed);
  for (const CommunicatorNow& c : now) {
    const Health health = healthOf(c);
    text += cat("  ", c.id, " ", c.name, "  Ranks ", c.ranks.size(), "  Status ", healthName(health), "\n");
    if (!c.failure.empty()) text += cat("    ", c.failure, "\n");
    const uint64_t most = mostCollectives(c);
    for (const RankNow& rank : c.ranks) {
      const bool odd = !rank.answered || rank.collectives != most;
      if (verbose || (health != Health::Running && odd))
        text += cat("    Rank ", rank.rank, " (process ", rank.pid, "): ", rank.collectives, " operations launched, ",
                    stateOf(rank), "\n");
    }
  }
  return text;
}

std::string rasJson(const Snapshot& now) {
  std::vector<std::string> communicators;
  for (const CommunicatorNow& c : now) {
    std::vector<std::string> ranks, missing;
    for (const RankNow& rank : c.ranks) {
      if (!rank.answered) missing.push_back(cat("{\"rank\": ", rank.rank, ", \"pid\": ", rank.pid, "}"));
      if (!rank.answered) continue;
      ranks.push_back(cat("{\"rank\": ", rank.rank, ", \"host\": ", jsonText(c.host), ", \"pid\": ", rank.pid,
                          ", \"status\": ", jsonText(stateOf(rank)),
                          ", \"collective_counts\": {\"all\": ", rank.collectives, "}}"));
    }
    communicators.push_back(cat("{\"hash\": ", jsonText(c.id), ", \"size\": ", c.ranks.size(),
                                ", \"status\": ", jsonText(healthName(healthOf(c))), ", \"ranks\": ", jsonList(ranks),
                                ", \"missing_ranks\": ", jsonList(missing), "}"));
  }
  return cat("{\"communicators\": ", jsonList(communicators), "}\n");
}

}  // namespace tutti::top
