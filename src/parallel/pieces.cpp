#include "src/parallel/pieces.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::parallel {
namespace {

struct Run {
  int64_t at, position, length;  // in the piece, in the whole
};

std::vector<Run> runsOf(const PieceInfo& p) {
  std::vector<Run> runs;
  const int64_t width = p.column1 - p.column0;
  for (int64_t i = p.begin; i < p.end;) {
    const int64_t row = i / width, column = i % width, n = std::min(p.end - i, width - column);
    const int64_t position = (p.row0 + row) * p.columns + p.column0 + column;
    if (!runs.empty() && runs.back().position + runs.back().length == position) {
      runs.back().length += n;
    } else {
      runs.push_back({i - p.begin, position, n});
    }
    i += n;
  }
  return runs;
}

/// Takes from `missing` what `have` has.
template <class Each>
std::vector<Run> without(const std::vector<Run>& missing, const std::vector<Run>& have, const Each& each) {
  std::vector<Run> rest;
  size_t h = 0;
  for (Run m : missing) {
    while (h < have.size() && have[h].position + have[h].length <= m.position) ++h;
    size_t i = h;
    while (m.length > 0) {
      if (i == have.size() || have[i].position >= m.position + m.length) {
        rest.push_back(m);
        break;
      }
      const int64_t before = std::max<int64_t>(0, have[i].position - m.position);
      if (before > 0) rest.push_back({m.at, m.position, before});
      m = {m.at + before, m.position + before, m.length - before};
      const int64_t offset = m.position - have[i].position, n = std::min(m.length, have[i].length - offset);
      each(have[i].at + offset, m.at, n);
      m = {m.at + n, m.position + n, m.length - n};
      ++i;
    }
  }
  return rest;
}

}  // namespace

bool isSound(const PieceInfo& p) {
  const bool box = 0 <= p.row0 && p.row0 <= p.row1 && p.row1 <= p.rows && 0 <= p.column0 && p.column0 <= p.column1 &&
                   p.column1 <= p.columns;
  if (!box || p.dtype < 0 || p.dtype >= tuttiNumTypes || p.begin < 0 || p.begin > p.end) return false;
  int64_t whole = 0, boxed = 0;
  return !__builtin_mul_overflow(p.rows, p.columns, &whole) && whole <= (int64_t{1} << 56) &&
         !__builtin_mul_overflow(p.row1 - p.row0, p.column1 - p.column0, &boxed) && p.end <= boxed;
}

PieceInfo infoOf(const tuttiPiece_t& p) {
  require(p.name != nullptr, "a piece has no name");
  PieceInfo info{hashOfBytes(p.name, std::strlen(p.name)),
                 p.dtype,
                 p.rows,
                 p.columns,
                 p.row0,
                 p.row1,
                 p.column0,
                 p.column1,
                 p.begin,
                 p.end};
  require(isSound(info), "the piece of ", p.name, " is none: elements [", p.begin, ", ", p.end, ") of rows [", p.row0,
          ", ", p.row1, "), columns [", p.column0, ", ", p.column1, ") of ", p.rows, " x ", p.columns);
  require(p.data != nullptr || info.count() == 0, "the piece of ", p.name, " has no data");
  return info;
}

std::vector<PieceInfo> infosOf(const tuttiPiece_t* pieces, size_t n) {
  require(pieces != nullptr || n == 0, "pieces is NULL");
  std::vector<PieceInfo> infos;
  for (size_t i = 0; i < n; ++i) infos.push_back(infoOf(pieces[i]));
  return infos;
}

std::vector<Move> movesFor(const std::vector<PieceInfo>& want, const std::vector<std::vector<PieceInfo>>& sources,
                           size_t first, const std::string& who) {
  std::vector<Move> moves;
  for (size_t w = 0; w < want.size(); ++w) {
    std::vector<Run> missing = runsOf(want[w]);
    for (size_t k = 0; k < sources.size() && !missing.empty(); ++k) {
      const size_t s = (first + k) % sources.size();
      for (size_t p = 0; p < sources[s].size() && !missing.empty(); ++p) {
        const PieceInfo& have = sources[s][p];
        if (have.key != want[w].key) continue;
        if (have.dtype != want[w].dtype || have.rows != want[w].rows || have.columns != want[w].columns) {
          fail(tuttiInvalidUsage, who, " wants piece ", w, " of a tensor of ", want[w].rows, " x ", want[w].columns,
               "; what is there of that name is ", have.rows, " x ", have.columns, ", or of another dtype");
        }
        missing = without(missing, runsOf(have), [&](int64_t from, int64_t to, int64_t length) {
          moves.push_back({s, p, w, from, to, length});
        });
      }
    }
    if (!missing.empty()) {
      fail(tuttiInvalidUsage, who, " wants piece ", w, ", of which nobody has element ", missing[0].position,
           " of the whole");
    }
  }
  return moves;
}

PieceData::PieceData(Device& device, const tuttiPiece_t* pieces, const std::vector<PieceInfo>& infos, bool read)
    : device_(device), pieces_(pieces), infos_(infos) {
  for (size_t i = 0; i < infos.size(); ++i) {
    if (device.onHost()) {
      at_.push_back(static_cast<char*>(pieces[i].data));
      continue;
    }
    copies_.emplace_back(infos[i].bytes());
    at_.push_back(copies_.back().data());
    if (read) getBytes(device, at_[i], pieces[i].data, infos[i].bytes());
  }
}

void PieceData::putBack() {
  for (size_t i = 0; i < copies_.size(); ++i) {
    putBytes(device_, pieces_[i].data, at_[i], infos_[i].bytes());
  }
}

std::vector<std::vector<PieceInfo>> gatherInfos(Group& group, const std::vector<PieceInfo>& mine) {
  const size_t n = static_cast<size_t>(group.size()), rank = static_cast<size_t>(group.rank());
  std::vector<uint64_t> counts(n);
  std::vector<int64_t> ones, cuts = {0};
  for (size_t r = 0; r <= n; ++r) ones.push_back(static_cast<int64_t>(r));
  counts[rank] = mine.size();
  group.allGatherHost(counts.data(), ones.data(), tuttiUint64);
  for (const uint64_t c : counts) cuts.push_back(cuts.back() + static_cast<int64_t>(c * sizeof(PieceInfo)));
  std::vector<char> all(static_cast<size_t>(cuts.back()));
  if (!mine.empty()) std::memcpy(all.data() + cuts[rank], mine.data(), mine.size() * sizeof(PieceInfo));
  group.allGatherHost(all.data(), cuts.data(), tuttiUint8);
  std::vector<std::vector<PieceInfo>> lists(n);
  for (size_t r = 0; r < n; ++r) {
    lists[r].resize(counts[r]);
    if (counts[r] != 0) std::memcpy(lists[r].data(), all.data() + cuts[r], counts[r] * sizeof(PieceInfo));
  }
  return lists;
}

void agreeOrFail(Group& group, tuttiResult_t code, const std::string& complaint) {
  int32_t bad = complaint.empty() ? INT32_MAX : group.rank();
  try {
    group.allReduceHost(&bad, 1, tuttiInt32, tuttiMin);
  } catch (const Failure&) {  // a rank that has heard of it may have aborted: the own sentence says more than that
    if (complaint.empty()) throw;
  }
  if (!complaint.empty()) fail(code, complaint);
  if (bad != INT32_MAX) fail(code, "rank ", bad, " failed; it knows why");
}

uint64_t hashOfBytes(const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  uint64_t hash = 0x9e3779b97f4a7c15u ^ bytes;
  for (; bytes > 0;) {
    uint64_t word = 0;
    const size_t n = std::min<size_t>(bytes, 8);
    std::memcpy(&word, at, n);
    hash = (hash ^ word) * 0xff51afd7ed558ccdu;  // the multiplier of MurmurHash3's finisher
    hash ^= hash >> 32;
    at += n;
    bytes -= n;
  }
  return hash;
}

}  // namespace tutti::parallel
