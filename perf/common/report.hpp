// The results as JSON, in nccl-tests' shape (version 3) with Tutti's names beside it.
#pragma once

#include <string>
#include <vector>

#include "perf/common/table.hpp"

namespace tutti::perf {

/// "2026-03-01 12:00:00", local time, now.
std::string timestampNow();

struct RunRecord {
  std::string startTime, endTime;
  std::vector<std::string> arguments;
  std::vector<RankLine> ranks;
  int libraryVersion = 0;
  std::vector<Row> rows;
  std::vector<std::string> errors;
};

/// Secrets of the environment (TUTTI_UNIQUE_ID, TUTTI_SECRET) are left out.
std::string jsonText(const Collective& c, const Options& o, const RunRecord& run);

/// False (and a sentence in *why) if it cannot be written.
bool writeFile(const std::string& path, const std::string& text, std::string* why);

}  // namespace tutti::perf
