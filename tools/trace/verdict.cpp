#include "tools/trace/verdict.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "src/base/text.hpp"
#include "src/control/diagnosis.hpp"
#include "tools/json.hpp"
#include "tools/trace/messages.hpp"
#include "tools/trace/punctuality.hpp"

namespace tutti::trace {
namespace {

Fingerprint withoutSequence(const Record& record) { return {record.head & 0xff'ffff'ffff, record.count}; }

std::vector<int> ranksThat(const Communicator& c, const auto& hold) {
  std::vector<int> ranks;
  for (int rank = 0; rank < c.nRanks; ++rank) {
    if (hold(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool hasFile(const Communicator& c, int rank) { return c.ranks[static_cast<size_t>(rank)].has_value(); }

std::string ranksText(const std::vector<int>& ranks) { return nameRanks(ranks); }

/// "since 5.0 s", by the time the rank's file was written.
std::string since(const RankTrace& trace, const Record& record) {
  const int64_t until = record.endedNs < 0 ? -record.endedNs : trace.header.writtenNs;
  if (until <= record.startedNs) return "";
  char text[48];
  std::snprintf(text, sizeof text, " for %.3f s", static_cast<double>(until - record.startedNs) / 1e9);
  return text;
}

/// The earliest collective that ranks see differently.
bool findDifferent(const Communicator& c, Verdict* verdict) {
  std::set<uint64_t> sequences;
  for (const auto& ofRank : c.collectives) {
    for (const auto& [sequence, index] : ofRank) sequences.insert(sequence);
  }
  for (const uint64_t sequence : sequences) {
    std::map<std::pair<uint64_t, uint64_t>, std::vector<int>> byCall;
    for (int rank = 0; rank < c.nRanks; ++rank) {
      const Record* const record = c.find(rank, sequence);
      if (record == nullptr) continue;
      const Fingerprint call = withoutSequence(*record);
      byCall[{call.head, call.count}].push_back(rank);
    }
    if (byCall.size() < 2) continue;
    const auto most = std::max_element(byCall.begin(), byCall.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const bool majority = most->second.size() * 2 > ranksThat(c, [&](int r) { return c.find(r, sequence); }).size();
    verdict->finding = Finding::Different;
    verdict->summary = cat("calls differ at collective number ", sequence, ":");
    for (const auto& [call, ranks] : byCall) {
      verdict->summary += cat(verdict->summary.back() == ':' ? " " : "; ", ranksText(ranks), " made ",
                              describeCall(callOf(*c.find(ranks.front(), sequence))));
      if (!majority || ranks != most->second)
        verdict->culprits.insert(verdict->culprits.end(), ranks.begin(), ranks.end());
    }
    std::sort(verdict->culprits.begin(), verdict->culprits.end());
    return true;
  }
  return false;
}

/// "its newest call is AllReduce number 17 (...), over"
std::string whereIs(const Communicator& c, int rank) {
  const std::vector<Record>& records = c.ranks[static_cast<size_t>(rank)]->records;
  if (records.empty()) return "it has made no call";
  const Record& last = records.back();
  const std::string call = isMessage(last) ? describeMessage(last) : describeCall(callOf(last));
  return cat("its newest call is ", call, isOpen(last) ? ", which is not over" : ", which is over");
}

/// Where the communicator has failed: those that left nothing, or nothing of that.
std::vector<int> endedWithoutAWord(const Communicator& c) {
  const auto failed = [](const auto& trace) { return trace && trace->header.failed != 0; };
  if (std::none_of(c.ranks.begin(), c.ranks.end(), failed)) return {};
  return ranksThat(c, [&](int r) { return !hasFile(c, r) || c.ranks[static_cast<size_t>(r)]->header.writtenNs == 0; });
}

/// Others wait in a collective that a rank has not entered, or has left no file of.
bool findBehind(const Communicator& c, Verdict* verdict) {
  uint64_t last = 0;  // the earliest in which a rank waits: later ones wait for that
  for (int rank = 0; rank < c.nRanks; ++rank) {
    const uint64_t newest = c.newest(rank);
    const Record* const record = c.find(rank, newest);
    if (record != nullptr && isOpen(*record) && (last == 0 || newest < last)) last = newest;
  }
  const auto waits = [&](int rank) {
    const Record* const record = c.find(rank, last);
    return record != nullptr && isOpen(*record);
  };
  const std::vector<int> waiting = ranksThat(c, waits);
  if (last == 0 || waiting.empty()) return false;
  // Ranks that heard of somebody's end before they made the call are not to blame.
  const std::vector<int> silent = endedWithoutAWord(c);
  const auto mayBeLate = [&](int r) {
    return silent.empty() || std::find(silent.begin(), silent.end(), r) != silent.end();
  };
  const std::vector<int> behind =
      ranksThat(c, [&](int r) { return hasFile(c, r) && c.newest(r) < last && mayBeLate(r); });
  const std::vector<int> missing = ranksThat(c, [&](int r) { return !hasFile(c, r); });
  const std::string call = describeCall(callOf(*c.find(waiting.front(), last)));
  if (!behind.empty()) {
    verdict->finding = Finding::Behind;
    verdict->culprits = behind;
    verdict->summary = cat(ranksText(behind), behind.size() == 1 ? " is" : " are", " behind: ", ranksText(waiting),
                           waiting.size() == 1 ? " waits" : " wait", " in ", call, ", which ",
                           behind.size() == 1 ? "it has" : "they have", " not entered");
    for (const int rank : behind) verdict->waits.push_back(cat("rank ", rank, ": ", whereIs(c, rank)));
  } else if (!missing.empty()) {
    verdict->finding = Finding::Missing;
    verdict->culprits = missing;
    verdict->summary = cat(ranksText(waiting), waiting.size() == 1 ? " waits" : " wait", " in ", call, "; ",
                           ranksText(missing), missing.size() == 1 ? " has" : " have",
                           " left no file: gone before it was written, or it is on another host");
  } else {
    verdict->finding = Finding::Waiting;
    verdict->culprits = endedWithoutAWord(c);
    verdict->summary = cat("all ranks have entered ", call, ", and ", ranksText(waiting), " not left it");
  }
  return true;
}

/// No call is open, and all the same it failed: whoever ended without a word is the likeliest reason.
bool findFailed(const Communicator& c, Verdict* verdict) {
  const auto failed = std::find_if(c.ranks.begin(), c.ranks.end(),
                                   [](const auto& trace) { return trace && trace->header.failed != 0; });
  if (failed == c.ranks.end()) return false;
  verdict->finding = Finding::Failed;
  verdict->culprits = endedWithoutAWord(c);
  verdict->summary = "it failed while no recorded call was under way";
  if (!verdict->culprits.empty()) verdict->summary += cat("; ", ranksText(verdict->culprits), " ended without a word");
  return true;
}

void listWaits(const Communicator& c, Verdict* verdict) {
  for (int rank = 0; rank < c.nRanks; ++rank) {
    if (!hasFile(c, rank)) continue;
    const RankTrace& trace = *c.ranks[static_cast<size_t>(rank)];
    const Record* const record = c.find(rank, c.newest(rank));
    const int peer = trace.header.waitingOn;
    if (record == nullptr || !isOpen(*record)) continue;
    const std::string whom = peer >= 0 && peer < c.nRanks ? cat(" for rank ", peer) : "";
    verdict->waits.push_back(cat("rank ", rank, record->endedNs < 0 ? " waited" : " waits", whom, " in ",
                                 describeCall(callOf(*record)), since(trace, *record)));
  }
  for (const auto& trace : c.ranks) {
    if (trace && trace->header.reason[0] != 0 && verdict->finding != Finding::Well)
      verdict->waits.push_back(cat("rank ", trace->header.rank, " wrote its file because: ", trace->header.reason));
  }
}

uint64_t numCalls(const Communicator& c) {
  uint64_t calls = 0;
  for (const auto& trace : c.ranks) calls += trace ? trace->records.size() : 0;
  return calls;
}

}  // namespace

const char* findingName(Finding finding) {
  constexpr const char* kNames[] = {"well", "different", "missing", "behind", "unmatched", "waiting", "failed"};
  return kNames[static_cast<size_t>(finding)];
}

// The order is that of what explains the rest: ranks that made different calls also wait for each other.
Verdict judge(const Job& job, const Communicator& c) {
  Verdict verdict;
  const bool different = findDifferent(c, &verdict);
  const MessageFindings messages = judgeMessages(c);
  if (!different && messages.differ) {
    verdict.finding = Finding::Unmatched;
    verdict.summary = messages.summary;
    verdict.culprits = messages.culprits;
  } else if (!different && !findBehind(c, &verdict) && !messages.summary.empty()) {
    verdict.finding = Finding::Unmatched;
    verdict.summary = messages.summary;
    verdict.culprits = messages.culprits;
  }
  if (verdict.finding == Finding::Well) findFailed(c, &verdict);
  verdict.waits.insert(verdict.waits.end(), messages.waits.begin(), messages.waits.end());
  listWaits(c, &verdict);
  if (verdict.finding == Finding::Well)
    verdict.summary = cat("nothing is wrong: ", numCalls(c), " calls recorded, none open, none different");
  verdict.late = whoIsLate(job, c);
  return verdict;
}

std::string report(const Job& job) {
  std::string text;
  for (const Communicator& c : job.communicators) {
    const Verdict verdict = judge(job, c);
    text += cat(c.title(), ": ", verdict.summary, "\n");
    for (const std::string& line : verdict.waits) text += cat("  ", line, "\n");
    if (!verdict.late.empty()) text += cat("  ", verdict.late, "\n");
    const std::vector<int> missing = ranksThat(c, [&](int r) { return !hasFile(c, r); });
    if (!missing.empty() && verdict.finding != Finding::Missing) text += cat("  no file of ", ranksText(missing), "\n");
  }
  return text;
}

std::string reportJson(const Job& job) {
  const auto numbers = [](const std::vector<int>& ranks) {
    std::vector<std::string> texts;
    for (const int rank : ranks) texts.push_back(std::to_string(rank));
    return jsonList(texts);
  };
  std::vector<std::string> all;
  for (const Communicator& c : job.communicators) {
    const Verdict verdict = judge(job, c);
    std::vector<std::string> waits;
    for (const std::string& line : verdict.waits) waits.push_back(jsonText(line));
    char id[20];
    std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(c.id));
    all.push_back(cat("{\"communicator\": ", jsonText(id), ", \"name\": ", jsonText(c.name), ", \"nRanks\": ", c.nRanks,
                      ", \"finding\": ", jsonText(findingName(verdict.finding)),
                      ", \"culprits\": ", numbers(verdict.culprits),
                      ", \"missing\": ", numbers(ranksThat(c, [&](int r) { return !hasFile(c, r); })),
                      ", \"summary\": ", jsonText(verdict.summary), ", \"waits\": ", jsonList(waits),
                      ", \"late\": ", jsonText(verdict.late), "}"));
  }
  return cat("{\"communicators\": ", jsonList(all), "}\n");
}

}  // namespace tutti::trace
