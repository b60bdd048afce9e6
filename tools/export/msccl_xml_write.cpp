#include <array>
#include <map>
#include <set>

#include "src/base/text.hpp"
#include "tools/export/export.hpp"
#include "tools/export/export_check.hpp"

namespace tutti {
namespace {

using foreign::bufferLetter;
using foreign::planIndex;

struct StepId {
  int block, step;
};

struct WrittenBlock {
  int send = -1, recv = -1, channel = 0;
  std::vector<std::string> steps;  // without hasdep, which is known at the end
  std::set<int> awaited;
};

/// One gpu.  Thread blocks run side by side, each in its own order, and wait for each other only where they touch the
/// same chunk: less order than the lane has, so whatever lets the lane complete lets them complete.
class XmlGpuWriter {
 public:
  /// goesOn: of each lane's ops, those of one step with the op before them.
  XmlGpuWriter(const Schedule& schedule, const std::vector<std::vector<bool>>& goesOn)
      : schedule_(schedule), goesOn_(goesOn) {}

  std::string write() {
    for (int lane = 0; lane < static_cast<int>(schedule_.lanes.size()); ++lane) {
      const std::vector<Op>& ops = schedule_.lanes[static_cast<size_t>(lane)].ops;
      const std::vector<bool>& goesOn = goesOn_[static_cast<size_t>(lane)];
      for (size_t i = 0, end = 0; i < ops.size(); i = end) {
        for (end = i + 1; end < ops.size() && goesOn[end];) ++end;
        add(lane, ops[i], static_cast<int>(end - i));
      }
    }
    const int parts = schedule_.nChannels;
    std::string text =
        cat("  <gpu id=\"", schedule_.rank, "\" i_chunks=\"", schedule_.inputChunks() * parts, "\" o_chunks=\"",
            schedule_.outputChunks() * parts, "\" s_chunks=\"", schedule_.nScratch, "\">\n");
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const WrittenBlock& block = blocks_[b];
      text += cat("    <tb id=\"", b, "\" send=\"", block.send, "\" recv=\"", block.recv, "\" chan=\"", block.channel,
                  "\">\n");
      for (size_t s = 0; s < block.steps.size(); ++s) {
        const bool awaited = block.awaited.count(static_cast<int>(s)) != 0;
        text += cat("      <step s=\"", s, "\" ", block.steps[s], " hasdep=\"", awaited ? 1 : 0, "\"/>\n");
      }
      text += "    </tb>\n";
    }
    return text + "  </gpu>\n";
  }

 private:
  struct Cell {
    StepId write = {-1, -1};
    std::vector<StepId> reads;  // since then
  };

  /// `op` and count - 1 like it on the chunks behind its own.
  void add(int lane, const Op& op, int count) {
    const auto run = [&](Chunk first) {
      std::vector<Chunk> chunks;
      for (int i = 0; i < count; ++i) chunks.push_back({first.buffer, first.index + i});
      return chunks;
    };
    if (!op.to.empty()) {
      const Chunk source = op.sources[0];
      return step(lane, op.to[0], -1, "s", source, source, run(source), {}, count);
    }
    if (!op.from.empty()) {
      if (op.sources.empty()) return step(lane, -1, op.from[0], "r", op.dst, op.dst, {}, run(op.dst), count);
      return step(lane, -1, op.from[0], "rrc", op.sources[0], op.dst, run(op.sources[0]), run(op.dst), count);
    }
    if (op.sources.size() == 1) return local(lane, "cpy", op.sources[0], op.dst);
    // "re" accumulates: one of the operands has to be where the result goes.
    const Chunk left = schedule_.memoryOf(op.sources[0]), right = schedule_.memoryOf(op.sources[1]);
    const Chunk dst = schedule_.memoryOf(op.dst);
    if (right == dst) return local(lane, "re", op.sources[0], op.dst);
    if (left != dst) local(lane, "cpy", op.sources[0], op.dst);
    local(lane, "re", op.sources[1], op.dst);
  }

  void local(int lane, const char* type, Chunk source, Chunk dst) {
    const bool accumulates = std::string_view(type) == "re";
    step(lane, -1, -1, type, source, dst, accumulates ? std::vector<Chunk>{source, dst} : std::vector<Chunk>{source},
         {dst});
  }

  void step(int lane, int send, int recv, const char* type, Chunk source, Chunk dst, const std::vector<Chunk>& reads,
            const std::vector<Chunk>& writes, int count = 1) {
    const int b = blockFor(lane, send, recv);
    std::map<int, int> after;  // the last step to wait for, of each thread block
    const auto await = [&](StepId id) {
      if (id.block < 0 || id.block == b) return;
      const auto [known, isNew] = after.try_emplace(id.block, id.step);
      if (!isNew) known->second = std::max(known->second, id.step);
    };
    for (const Chunk chunk : reads) await(cell(lane, chunk).write);
    for (const Chunk chunk : writes) {
      await(cell(lane, chunk).write);
      for (const StepId id : cell(lane, chunk).reads) await(id);
    }
    WrittenBlock& block = blocks_[static_cast<size_t>(b)];
    StepId last{-1, -1};
    for (const auto& [other, step] : after) {
      blocks_[static_cast<size_t>(other)].awaited.insert(step);
      if (last.block >= 0) block.steps.push_back(text("nop", "i", -1, "o", -1, 0, last));
      last = {other, step};
    }
    const StepId self{b, static_cast<int>(block.steps.size())};
    block.steps.push_back(text(type, bufferLetter(source.buffer), planIndex(schedule_, lane, source),
                               bufferLetter(dst.buffer), planIndex(schedule_, lane, dst), count, last));
    for (const Chunk chunk : reads) cell(lane, chunk).reads.push_back(self);
    for (const Chunk chunk : writes) cell(lane, chunk) = {self, {}};
  }

  static std::string text(const char* type, const char* srcBuf, int srcOff, const char* dstBuf, int dstOff, int count,
                          StepId after) {
    return cat("type=\"", type, "\" srcbuf=\"", srcBuf, "\" srcoff=\"", srcOff, "\" dstbuf=\"", dstBuf, "\" dstoff=\"",
               dstOff, "\" cnt=\"", count, "\" depid=\"", after.block, "\" deps=\"", after.step, "\"");
  }

  int blockFor(int lane, int send, int recv) {
    const auto [known, isNew] = blockOf_.try_emplace({lane, send, recv}, static_cast<int>(blocks_.size()));
    if (isNew) blocks_.push_back({send, recv, lane, {}, {}});
    return known->second;
  }

  Cell& cell(int lane, Chunk chunk) {
    const Chunk memory = schedule_.memoryOf(chunk);
    return cells_[{memory.buffer, planIndex(schedule_, lane, memory)}];
  }

  const Schedule& schedule_;
  const std::vector<std::vector<bool>>& goesOn_;
  std::vector<WrittenBlock> blocks_;
  std::map<std::array<int, 3>, int> blockOf_;  // by lane, send and recv peer
  std::map<std::pair<Buffer, int>, Cell> cells_;
};

}  // namespace

Result<std::string> exportMscclXml(const std::vector<Schedule>& schedules, const std::string& name) {
  TUTTI_TRY(foreign::checkExportable(schedules));
  const Schedule& first = schedules.front();
  std::string text = cat("<algo name=\"", toXml(name), "\" proto=\"Simple\" nchannels=\"", first.lanes.size(),
                         "\" nchunksperloop=\"", foreign::planPieces(first), "\" ngpus=\"", first.nRanks, "\" coll=\"",
                         collectiveKey(first.collective), "\" inplace=\"", first.inPlace ? 1 : 0, "\" outofplace=\"",
                         first.inPlace ? 0 : 1, "\" minBytes=\"0\" maxBytes=\"0\"");
  if (isRooted(first.collective)) text += cat(" root=\"", first.root, "\"");
  text += ">\n";
  const foreign::RunsOfOps runs = foreign::runsOf(schedules);
  for (size_t r = 0; r < schedules.size(); ++r) text += XmlGpuWriter(schedules[r], runs[r]).write();
  return text + "</algo>\n";
}

}  // namespace tutti
