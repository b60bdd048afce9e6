#include "tools/export/export_check.hpp"

#include <array>
#include <map>

#include "src/import/program.hpp"
#include "src/schedule/verifier.hpp"

namespace tutti::foreign {
namespace {

bool isLogical(const Op& op) {
  if (op.token || op.direct || op.from.size() + op.to.size() > 1 || op.sources.size() > 2) return false;
  if (!op.to.empty()) return op.sources.size() == 1 && !op.hasDst;
  if (!op.from.empty()) return op.sources.size() <= 1 && op.hasDst;
  return op.hasDst && !op.sources.empty();
}

}  // namespace

Status checkExportable(const std::vector<Schedule>& schedules) {
  if (const std::string complaint = verify(schedules); !complaint.empty()) return invalidArgument(complaint);
  if (schedules.front().collective == Collective::Barrier) {
    return invalidArgument("a barrier moves no data, which foreign plans are about");
  }
  for (const Schedule& schedule : schedules) {
    for (size_t l = 0; l < schedule.lanes.size(); ++l) {
      const std::vector<Op>& ops = schedule.lanes[l].ops;
      for (size_t i = 0; i < ops.size(); ++i) {
        if (isLogical(ops[i])) continue;
        return invalidArgument("rank ", schedule.rank, " lane ", l, " op ", i, " (", toString(ops[i]),
                               ") is none of send, recv, recvReduce, copy and reduce: export before fusing");
      }
    }
  }
  return {};
}

const char* bufferLetter(Buffer buffer) { return buffer == Buffer::Input ? "i" : buffer == Buffer::Output ? "o" : "s"; }

int planIndex(const Schedule& schedule, int lane, Chunk chunk) {
  if (chunk.buffer == Buffer::Scratch) return chunk.index;
  return chunk.index * schedule.nChannels + schedule.channelOf(lane);
}

bool liesBehind(const Schedule& schedule, int lane, const Op& op, const Op& next) {
  const auto behind = [&](Chunk a, Chunk b) {
    return a.buffer == b.buffer && planIndex(schedule, lane, a) + 1 == planIndex(schedule, lane, b);
  };
  return op.sources.size() == next.sources.size() && op.hasDst == next.hasDst &&
         std::equal(op.sources.begin(), op.sources.end(), next.sources.begin(), behind) &&
         (!op.hasDst || behind(op.dst, next.dst));
}

RunsOfOps runsOf(const std::vector<Schedule>& schedules) {
  // Of the k-th chunk that goes from one rank to another in a lane: whether it goes on with a run, at both ends.
  std::map<std::array<int, 3>, std::vector<bool>> goesOn;
  const auto eachChunk = [&](const auto& visit) {
    for (const Schedule& s : schedules) {
      for (int lane = 0; lane < static_cast<int>(s.lanes.size()); ++lane) {
        std::map<std::array<int, 3>, size_t> count;
        const std::vector<Op>& ops = s.lanes[static_cast<size_t>(lane)].ops;
        for (size_t i = 0; i < ops.size(); ++i) {
          if (ops[i].from.empty() && ops[i].to.empty()) continue;
          const std::array<int, 3> way = ops[i].from.empty()
                                             ? std::array{s.rank, static_cast<int>(ops[i].to[0]), lane}
                                             : std::array{static_cast<int>(ops[i].from[0]), s.rank, lane};
          std::vector<bool>& chunks = goesOn[way];
          const size_t k = count[way]++;
          if (k == chunks.size()) chunks.push_back(true);
          visit(s, lane, i, chunks, k);
        }
      }
    }
  };
  RunsOfOps runs;
  for (const Schedule& s : schedules) {
    runs.emplace_back();
    for (const Lane& lane : s.lanes) runs.back().emplace_back(lane.ops.size());
  }
  eachChunk([](const Schedule& s, int lane, size_t i, std::vector<bool>& chunks, size_t k) {
    const std::vector<Op>& ops = s.lanes[static_cast<size_t>(lane)].ops;
    if (!ops[i].joined || !liesBehind(s, lane, ops[i - 1], ops[i])) chunks[k] = false;
  });
  eachChunk([&](const Schedule& s, int lane, size_t i, const std::vector<bool>& chunks, size_t k) {
    runs[static_cast<size_t>(s.rank)][static_cast<size_t>(lane)][i] = chunks[k];
  });
  return runs;
}

int planPieces(const Schedule& schedule) {
  return schedule.nChannels * (isOneVector(schedule.collective) ? schedule.nChunks : schedule.nRanks);
}

}  // namespace tutti::foreign
