#include "tools/trace/job.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

#include "src/base/text.hpp"
#include "src/base/types.hpp"

namespace tutti::trace {
namespace {

constexpr uint64_t kSequences = uint64_t{1} << 24;

void indexCollectives(Communicator* c) {
  c->collectives.resize(c->ranks.size());
  for (size_t rank = 0; rank < c->ranks.size(); ++rank) {
    if (!c->ranks[rank]) continue;
    uint64_t last = 0;
    const std::vector<Record>& records = c->ranks[rank]->records;
    for (size_t i = 0; i < records.size(); ++i) {
      if (isMessage(records[i])) continue;
      uint64_t sequence = partsOf(callOf(records[i])).sequence;
      while (sequence <= last) sequence += kSequences;
      c->collectives[rank][sequence] = i;
      last = sequence;
    }
  }
}

/// When the ranks of one host were in one call.
struct Stay {
  int64_t lastStart = INT64_MIN, firstEnd = INT64_MAX;
  bool whole = true;
};

/// What calls say of the offset of one host's clock to the first's: nobody leaves before everyone has entered.
struct Bounds {
  int64_t least = INT64_MIN, most = INT64_MAX;
};

std::map<uint64_t, Stay> staysIn(const Communicator& c, uint64_t sequence) {
  std::map<uint64_t, Stay> stays;
  for (int rank = 0; rank < c.nRanks; ++rank) {
    const Record* const record = c.find(rank, sequence);
    if (record == nullptr) continue;
    Stay& stay = stays[c.ranks[static_cast<size_t>(rank)]->header.hostId];
    stay.whole = stay.whole && record->endedNs > 0 && !decodeDetail(record->detail).coarse && synchronizes(*record);
    stay.lastStart = std::max(stay.lastStart, record->startedNs);
    stay.firstEnd = std::min(stay.firstEnd, record->endedNs);
  }
  return stays;
}

std::map<uint64_t, Bounds> boundsOf(const Job& job, uint64_t firstHost) {
  std::map<uint64_t, Bounds> bounds;
  for (const Communicator& c : job.communicators) {
    std::set<uint64_t> sequences;
    for (const auto& ofRank : c.collectives) {
      for (const auto& [sequence, index] : ofRank) sequences.insert(sequence);
    }
    for (const uint64_t sequence : sequences) {
      const std::map<uint64_t, Stay> stays = staysIn(c, sequence);
      const auto first = stays.find(firstHost);
      if (first == stays.end() || !first->second.whole) continue;
      for (const auto& [host, stay] : stays) {
        if (!stay.whole) continue;
        Bounds& b = bounds[host];
        b.least = std::max(b.least, first->second.lastStart - stay.firstEnd);
        b.most = std::min(b.most, first->second.firstEnd - stay.lastStart);
      }
    }
  }
  return bounds;
}

void alignClocks(Job* job) {
  const FileHeader* first = nullptr;
  std::map<uint64_t, int64_t> wallNs;
  for (const Communicator& c : job->communicators) {
    for (const auto& trace : c.ranks) {
      if (!trace) continue;
      if (first == nullptr) first = &trace->header;
      wallNs.emplace(trace->header.hostId, trace->header.wallNs);
    }
  }
  const std::map<uint64_t, Bounds> bounds = boundsOf(*job, first->hostId);
  for (const auto& [host, wall] : wallNs) {
    job->offsetNs[host] = wall - wallNs[first->hostId];
    job->errorNs[host] = host == first->hostId ? 0 : -1;
    const auto known = bounds.find(host);
    if (host == first->hostId || known == bounds.end() || known->second.least > known->second.most) continue;
    const int64_t width = known->second.most - known->second.least;
    job->offsetNs[host] = known->second.least + width / 2;
    job->errorNs[host] = width / 2;
  }
}

}  // namespace

const Record* Communicator::find(int rank, uint64_t sequence) const {
  const auto& calls = collectives[static_cast<size_t>(rank)];
  const auto found = calls.find(sequence);
  return found == calls.end() ? nullptr : &ranks[static_cast<size_t>(rank)]->records[found->second];
}

uint64_t Communicator::newest(int rank) const {
  const auto& calls = collectives[static_cast<size_t>(rank)];
  return calls.empty() ? 0 : calls.rbegin()->first;
}

std::string Communicator::title() const {
  char number[20];
  std::snprintf(number, sizeof number, "%016llx", static_cast<unsigned long long>(id));
  return cat("communicator ", name.empty() ? std::string(number) : cat("'", name, "'"), " (", nRanks, " ranks)");
}

bool synchronizes(const Record& record) {
  const CallParts parts = partsOf(callOf(record));
  if (parts.kind >= static_cast<uint32_t>(kNumCollectives)) return false;
  const auto collective = static_cast<Collective>(parts.kind);
  if (collective == Collective::Barrier) return true;
  const bool everyoneSendsToAll = collective == Collective::AllReduce || collective == Collective::AllGather ||
                                  collective == Collective::ReduceScatter || collective == Collective::AllToAll;
  return everyoneSendsToAll && parts.count > 0;
}

Result<Job> makeJob(std::vector<RankTrace> traces) {
  std::map<uint64_t, Communicator> byId;
  for (RankTrace& trace : traces) {
    const FileHeader& header = trace.header;
    Communicator& c = byId[header.communicator];
    if (c.nRanks != 0 && c.nRanks != header.nRanks)
      return invalidUsage(trace.path, " says that its communicator has ", header.nRanks, " ranks, another file ",
                          c.nRanks);
    c.id = header.communicator;
    c.nRanks = header.nRanks;
    c.name = header.name;
    c.ranks.resize(static_cast<size_t>(header.nRanks));
    c.ranks[static_cast<size_t>(header.rank)] = std::move(trace);
  }
  Job job;
  for (auto& [id, c] : byId) {
    indexCollectives(&c);
    job.communicators.push_back(std::move(c));
  }
  std::stable_sort(job.communicators.begin(), job.communicators.end(),
                   [](const Communicator& a, const Communicator& b) { return a.nRanks > b.nRanks; });
  alignClocks(&job);
  return job;
}

}  // namespace tutti::trace
