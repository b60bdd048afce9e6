#include "src/import/export_check.hpp"

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

int planPieces(const Schedule& schedule) {
  return schedule.nChannels * (isVectorCollective(schedule.collective) ? schedule.nChunks : schedule.nRanks);
}

}  // namespace tutti::foreign
