#include "tools/trace/trace_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "src/base/text.hpp"
#include "src/base/types.hpp"

namespace tutti::trace {
namespace {

namespace fs = std::filesystem;

template <size_t bytes>
void endText(char (&text)[bytes]) {
  text[bytes - 1] = 0;
}

Status checkHeader(const std::string& path, FileHeader* header) {
  if (std::memcmp(header->magic, kRecordMagic, sizeof kRecordMagic) != 0)
    return invalidUsage(path, ": no flight record: it does not begin with TUTTIREC");
  if (header->version != kRecordVersion)
    return invalidUsage(path, ": version ", header->version, " of flight records; this tutti-trace reads version ",
                        kRecordVersion);
  const bool sizes = header->headerBytes == sizeof(FileHeader) && header->recordBytes == sizeof(Record);
  const bool ranks = header->nRanks > 0 && header->rank >= 0 && header->rank < header->nRanks;
  if (!sizes || !ranks || header->numAlgorithms > kMostAlgorithms)
    return invalidUsage(path, ": a flight record whose header is damaged");
  endText(header->host);
  endText(header->name);
  endText(header->reason);
  for (auto& algorithm : header->algorithms) endText(algorithm);
  return {};
}

/// The calls of both; of one call in both, the one that is over.
void addTo(RankTrace* all, RankTrace more) {
  std::map<uint64_t, Record> byNumber;
  for (const Record& record : all->records) byNumber[record.number] = record;
  for (const Record& record : more.records) {
    Record& known = byNumber[record.number];
    if (known.number == 0 || isOpen(known)) known = record;
  }
  if (more.header.writtenNs > all->header.writtenNs) {
    all->header = more.header;
    all->path = more.path;
  }
  all->records.clear();
  for (const auto& [number, record] : byNumber) all->records.push_back(record);
}

Result<std::vector<std::string>> filesOf(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
    const std::string end = entry.path().extension().string();
    if (end == ".trace" || end == ".dump") files.push_back(entry.path().string());
  }
  if (error) return invalidUsage("cannot read the folder ", path, ": ", error.message());
  if (files.empty())
    return invalidUsage("the folder ", path, " has no *.trace nor *.dump: TUTTI_TRACE or TUTTI_DUMP makes them");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<RankTrace> readTrace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return invalidUsage("cannot read ", path, ": ", std::strerror(errno));
  RankTrace trace;
  trace.path = path;
  if (!file.read(reinterpret_cast<char*>(&trace.header), sizeof trace.header))
    return invalidUsage(path, ": no flight record: it is shorter than a header");
  TUTTI_TRY(checkHeader(path, &trace.header));
  Record record;
  while (file.read(reinterpret_cast<char*>(&record), sizeof record)) {
    if (isWhole(record)) trace.records.push_back(record);
  }
  std::sort(trace.records.begin(), trace.records.end(),
            [](const Record& a, const Record& b) { return a.number < b.number; });
  return trace;
}

Result<std::vector<RankTrace>> readTraces(const std::vector<std::string>& paths) {
  std::map<std::pair<uint64_t, int>, RankTrace> byRank;
  for (const std::string& path : paths) {
    TUTTI_ASSIGN(const std::vector<std::string> files, filesOf(path));
    for (const std::string& file : files) {
      TUTTI_ASSIGN(RankTrace trace, readTrace(file));
      const std::pair key{trace.header.communicator, static_cast<int>(trace.header.rank)};
      const auto known = byRank.find(key);
      if (known == byRank.end()) {
        byRank.emplace(key, std::move(trace));
      } else {
        addTo(&known->second, std::move(trace));
      }
    }
  }
  if (byRank.empty()) return invalidUsage("which files?  tutti-trace --help shows what to give");
  std::vector<RankTrace> traces;
  for (auto& [key, trace] : byRank) traces.push_back(std::move(trace));
  return traces;
}

std::string algorithmOf(const RankTrace& trace, const Record& record) {
  const uint32_t index = decodeDetail(record.detail).algorithm;
  return index == 0 || index > trace.header.numAlgorithms ? "" : trace.header.algorithms[index - 1];
}

std::string nameOf(const Record& record) {
  const CallParts parts = partsOf(callOf(record));
  if (parts.kind == kKindPointToPoint) return decodeDetail(record.detail).isSend ? "Send" : "Recv";
  const bool byRank = parts.kind >= kKindCounts;
  const uint32_t kind = byRank ? parts.kind - kKindCounts : parts.kind;
  if (kind >= static_cast<uint32_t>(kNumCollectives)) return cat("operation ", parts.kind);
  return cat(collectiveName(static_cast<Collective>(kind)), byRank ? "v" : "");
}

}  // namespace tutti::trace
