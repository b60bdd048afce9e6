#include "tools/trace/messages.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "src/base/text.hpp"
#include "src/base/types.hpp"

namespace tutti::trace {
namespace {

/// Messages from one rank to another are numbered, on both ends alike.
using Key = std::tuple<int, int, uint64_t>;  // from, to, number
struct Ends {
  const Record* send = nullptr;
  const Record* receive = nullptr;
};

std::map<Key, Ends> endsOf(const Communicator& c) {
  std::map<Key, Ends> ends;
  for (int rank = 0; rank < c.nRanks; ++rank) {
    if (!c.ranks[static_cast<size_t>(rank)]) continue;
    for (const Record& record : c.ranks[static_cast<size_t>(rank)]->records) {
      if (!isMessage(record)) continue;
      const RecordDetail detail = decodeDetail(record.detail);
      const int peer = static_cast<int>(detail.peer);
      const uint64_t number = partsOf(callOf(record)).sequence;
      if (detail.isSend) {
        ends[{rank, peer, number}].send = &record;
      } else {
        ends[{peer, rank, number}].receive = &record;
      }
    }
  }
  return ends;
}

std::string sizeOf(const Record& record) {
  const CallParts parts = partsOf(callOf(record));
  const std::string type = validDataType(static_cast<int>(parts.dtype))
                               ? dataTypeName(static_cast<tuttiDataType_t>(parts.dtype))
                               : cat("type ", parts.dtype);
  return cat("(count ", parts.count, ", ", type, ")");
}

/// Whom each rank with an open end waits for, by ends whose other one has not begun.
using WaitsFor = std::map<int, int>;

/// From a rank along who waits for whom: the one that waits for nobody, or a cycle.
std::vector<int> follow(const WaitsFor& waitsFor, int rank, bool* cycle) {
  std::vector<int> way{rank};
  for (auto next = waitsFor.find(rank); next != waitsFor.end(); next = waitsFor.find(next->second)) {
    const auto seen = std::find(way.begin(), way.end(), next->second);
    if (seen != way.end()) {
      *cycle = true;
      return {seen, way.end()};
    }
    way.push_back(next->second);
  }
  return {way.back()};
}

void blame(const WaitsFor& waitsFor, MessageFindings* findings) {
  if (waitsFor.empty()) return;
  bool cycle = false;
  findings->culprits = follow(waitsFor, waitsFor.begin()->first, &cycle);
  if (!cycle) {
    findings->summary += cat("; it all waits for rank ", findings->culprits.front());
    return;
  }
  findings->summary += "; ranks wait in a cycle:";
  for (const int rank : findings->culprits) findings->summary += cat(" ", rank, " for ", waitsFor.at(rank), ",");
  findings->summary.pop_back();
  std::sort(findings->culprits.begin(), findings->culprits.end());
}

}  // namespace

std::string describeMessage(const Record& record) {
  const RecordDetail detail = decodeDetail(record.detail);
  return cat(detail.isSend ? "Send" : "Recv", " number ", partsOf(callOf(record)).sequence,
             detail.isSend ? " to rank " : " from rank ", detail.peer, " ", sizeOf(record));
}

MessageFindings judgeMessages(const Communicator& c) {
  MessageFindings findings;
  WaitsFor waitsFor;
  for (const auto& [key, ends] : endsOf(c)) {
    const auto& [from, to, number] = key;
    const bool both = ends.send != nullptr && ends.receive != nullptr;
    if (both && (ends.send->head != ends.receive->head || ends.send->count != ends.receive->count)) {
      findings.differ = true;
      findings.culprits = {std::min(from, to), std::max(from, to)};
      findings.summary = cat("message number ", number, " from rank ", from, " to rank ", to, " differs: rank ", from,
                             " sends ", sizeOf(*ends.send), ", rank ", to, " receives ", sizeOf(*ends.receive));
      return findings;
    }
    for (const Record* const end : {ends.send, ends.receive}) {
      if (end == nullptr || !isOpen(*end)) continue;
      const int rank = end == ends.send ? from : to, peer = end == ends.send ? to : from;
      const bool noFile = !c.ranks[static_cast<size_t>(peer)];
      const std::string other = both     ? "which has begun its end, too"
                                : noFile ? "which has left no file"
                                         : "which has not begun its end";
      findings.waits.push_back(cat("rank ", rank, " is in ", describeMessage(*end), ", ", other));
      if (findings.summary.empty()) findings.summary = cat("rank ", rank, " waits in ", describeMessage(*end));
      if (!both) waitsFor.emplace(rank, peer);
    }
  }
  blame(waitsFor, &findings);
  return findings;
}

}  // namespace tutti::trace
