#include "tools/trace/torch_records.hpp"

#include <algorithm>
#include <map>

#include "src/base/text.hpp"
#include "src/base/types.hpp"
#include "tools/trace/pickle.hpp"

namespace tutti::trace {
namespace {

// The oldest version whose entries have all these fields.
constexpr const char* kVersion = "2.10";

using Process = std::pair<uint64_t, int32_t>;

Process processOf(const RankTrace& trace) { return {trace.header.hostId, trace.header.pid}; }

/// A communicator with its ranks as those of the largest.
struct Group {
  const Communicator* communicator = nullptr;
  std::vector<int> globalRanks;  // by rank
};

const char* torchName(Collective collective) {
  switch (collective) {
    case Collective::AllReduce: return "all_reduce";
    case Collective::Broadcast: return "broadcast";
    case Collective::Reduce: return "reduce";
    case Collective::AllGather: return "_all_gather_base";
    case Collective::ReduceScatter: return "_reduce_scatter_base";
    case Collective::AllToAll: return "all_to_all";
    case Collective::Gather: return "gather";
    case Collective::Scatter: return "scatter";
    case Collective::Barrier: return "barrier";
  }
  return "all_to_all";
}

const char* torchType(uint32_t dtype) {
  constexpr const char* kNames[] = {"Char",          "Byte",        "Int",   "UInt32", "Long",
                                    "UInt64",        "Half",        "Float", "Double", "BFloat16",
                                    "Float8_e4m3fn", "Float8_e5m2", "Short", "UInt16", "Bool"};
  return dtype < std::size(kNames) ? kNames[dtype] : "Byte";
}

/// Elements of the buffers; of v forms, whose counts a record has not, those of this rank's larger buffer.
struct Sizes {
  uint64_t input = 0, output = 0;
};
Sizes sizesOf(const Record& record, int nRanks) {
  const CallParts parts = partsOf(callOf(record));
  const auto n = static_cast<uint64_t>(nRanks);
  if (parts.kind == kKindPointToPoint) return {parts.count, parts.count};
  if (parts.kind >= kKindCounts) {
    const bool known = validDataType(static_cast<int>(parts.dtype));
    const uint64_t elements = record.bytes / (known ? dataTypeBytes(static_cast<tuttiDataType_t>(parts.dtype)) : 1);
    return {elements, elements};
  }
  switch (static_cast<Collective>(parts.kind)) {
    case Collective::AllGather:
    case Collective::Gather: return {parts.count, parts.count * n};
    case Collective::ReduceScatter:
    case Collective::Scatter: return {parts.count * n, parts.count};
    case Collective::AllToAll: return {parts.count * n, parts.count * n};
    default: return {parts.count, parts.count};
  }
}

std::string profilingName(const Record& record, int rank) {
  const CallParts parts = partsOf(callOf(record));
  const RecordDetail detail = decodeDetail(record.detail);
  if (parts.kind == kKindPointToPoint)
    return detail.isSend ? cat("nccl:send ", rank, "->", detail.peer) : cat("nccl:recv ", rank, "<-", detail.peer);
  const uint32_t kind = parts.kind >= kKindCounts ? parts.kind - kKindCounts : parts.kind;
  return cat("nccl:", torchName(static_cast<Collective>(std::min<uint32_t>(kind, kNumCollectives - 1))));
}

class Dump {
 public:
  Dump() {
    p_.beginDict();
    field("version");
    p_.text(kVersion);
  }

  void groups(const std::vector<Group>& groups) {
    field("pg_config");
    p_.beginDict();
    for (size_t i = 0; i < groups.size(); ++i) {
      p_.text(std::to_string(i));
      p_.beginDict();
      field("name");
      p_.text(std::to_string(i));
      field("desc");
      p_.text(descOf(groups, i));
      field("ranks");
      std::string list;
      for (const int rank : groups[i].globalRanks) list += cat(list.empty() ? "" : ", ", rank);
      p_.text("[" + list + "]");
      p_.endDict();
    }
    p_.endDict();
  }

  void beginEntries() {
    field("entries");
    p_.beginList();
  }
  void entry(const std::vector<Group>& groups, size_t group, const RankTrace& trace, const Record& record, int64_t id) {
    const CallParts parts = partsOf(callOf(record));
    const bool message = isMessage(record);
    const int64_t wall = trace.header.wallNs;
    p_.beginDict();
    number("record_id", id);
    number("pg_id", static_cast<int64_t>(group));
    field("process_group");
    p_.beginTuple();
    p_.text(std::to_string(group));
    p_.text(descOf(groups, group));
    p_.endTuple();
    number("collective_seq_id", message ? 0 : parts.sequence);
    number("p2p_seq_id", message ? parts.sequence + 1 : 0);
    number("op_id", static_cast<int64_t>(record.number));
    field("profiling_name");
    p_.text(profilingName(record, trace.header.rank));
    const Sizes sizes = sizesOf(record, trace.header.nRanks);
    buffers("input", sizes.input, parts.dtype);
    buffers("output", sizes.output, parts.dtype);
    field("state");
    p_.text(record.endedNs > 0 ? "completed" : "started");
    number("time_created_ns", wall + (record.enqueuedNs != 0 ? record.enqueuedNs : record.startedNs));
    number("time_discovered_started_ns", wall + record.startedNs);
    field("time_discovered_completed_ns");
    record.endedNs > 0 ? p_.number(wall + record.endedNs) : p_.none();
    field("retired");
    p_.flag(record.endedNs != 0);
    field("is_p2p");
    p_.flag(message);
    number("timeout_ms", 0);
    field("frames");
    p_.beginList();
    p_.endList();
    p_.endDict();
  }
  std::string end() {
    p_.endList();
    p_.endDict();
    return p_.take();
  }

 private:
  static std::string descOf(const std::vector<Group>& groups, size_t i) {
    return i == 0 ? "default_pg" : groups[i].communicator->name.empty() ? "undefined" : groups[i].communicator->name;
  }
  void field(const char* name) { p_.text(name); }
  void number(const char* name, int64_t value) {
    field(name);
    p_.number(value);
  }
  void buffers(const std::string& which, uint64_t elements, uint32_t dtype) {
    field((which + "_sizes").c_str());
    p_.beginList();
    p_.beginList();
    p_.number(static_cast<int64_t>(elements));
    p_.endList();
    p_.endList();
    field((which + "_dtypes").c_str());
    p_.beginList();
    p_.text(torchType(dtype));
    p_.endList();
  }

  Pickle p_;
};

/// The largest communicator first.  A rank of it that has left no file counts as itself.
std::vector<Group> groupsOf(const Job& job) {
  std::map<Process, int> globalRank;
  std::vector<Group> groups;
  for (const Communicator& c : job.communicators) {
    Group group{&c, {}};
    bool known = true;
    for (int rank = 0; rank < c.nRanks; ++rank) {
      const auto& trace = c.ranks[static_cast<size_t>(rank)];
      if (groups.empty()) {
        group.globalRanks.push_back(rank);
        known = known && (!trace || globalRank.emplace(processOf(*trace), rank).second);
        continue;
      }
      const auto found = trace ? globalRank.find(processOf(*trace)) : globalRank.end();
      known = known && found != globalRank.end();
      if (known) group.globalRanks.push_back(found->second);
    }
    if (!groups.empty() && !known) continue;
    groups.push_back(std::move(group));
    if (groups.size() == 1 && !known) break;  // ranks are threads of one process: nobody can tell which are whose
  }
  return groups;
}

}  // namespace

std::vector<TorchFile> torchFiles(const Job& job) {
  const std::vector<Group> groups = groupsOf(job);
  std::vector<TorchFile> files;
  for (int global = 0; global < groups.front().communicator->nRanks; ++global) {
    if (!groups.front().communicator->ranks[static_cast<size_t>(global)]) continue;
    Dump dump;
    dump.groups(groups);
    dump.beginEntries();
    int64_t id = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      const auto& ranks = groups[g].globalRanks;
      const auto own = std::find(ranks.begin(), ranks.end(), global);
      if (own == ranks.end()) continue;
      const RankTrace& trace = *groups[g].communicator->ranks[static_cast<size_t>(own - ranks.begin())];
      for (const Record& record : trace.records) dump.entry(groups, g, trace, record, id++);
    }
    files.push_back({global, dump.end()});
  }
  return files;
}

}  // namespace tutti::trace
