#include "src/import/mscclpp_json.hpp"

#if TUTTI_HAVE_NLOHMANN_JSON
#include <set>

#include "src/import/mscclpp_builder.hpp"
#include "src/import/mscclpp_legacy.hpp"

namespace tutti {
namespace foreign {
namespace {

struct RemoteBuffer {
  int rank;
  Buffer buffer;
};

/// What a gpu declares, in its order.
struct Gpu {
  std::vector<ChannelEnd> memory, port;
  std::vector<MulticastGroup> groups;
  std::vector<RemoteBuffer> remote;
};

/// A thread block's own lists of those, which its ops index.
struct Local {
  std::vector<ChannelEnd> memory, port;
  std::vector<MulticastGroup> groups;
  std::vector<RemoteBuffer> memoryBuffers, portBuffers;
};

class JsonReader {
 public:
  JsonReader(const JsonAt& top, const std::string& origin) : top_(top), builder_(&program_) {
    plan_.origin = origin;
    plan_.format = "mscclpp";
  }
  Result<ImportedPlan> read();

 private:
  Status readGpu(const JsonAt& gpu, int rank);
  Status readChannels(const JsonAt& gpu, int rank, Gpu* out) const;
  Status readThreadBlock(const JsonAt& element, const Gpu& gpu, int rank);
  Status readLocal(const JsonAt& element, const Gpu& gpu, Local* out) const;
  Status readOps(const JsonAt& holder, const Local& local, const std::string& prefix, bool piped, Thread* thread);
  Status readOp(const JsonAt& op, const std::string& name, const Local& local, bool piped, Step pattern,
                Thread* thread);
  Status readPipeline(const JsonAt& op, const Local& local, const std::string& prefix, Thread* thread);
  Status readDataOp(const JsonAt& op, const OpForm& form, const Local& local, Step pattern, Thread* thread);
  Status readSignals(const JsonAt& op, const std::string& name, const Local& local, bool piped, const Step& pattern,
                     Thread* thread);
  Result<Places> readPlaces(const JsonAt& ref, Wire wire, const Local& local, int rank, Step* pattern) const;
  Status markPiped(const JsonAt& op, int semaphore, bool piped);

  JsonAt top_;
  Program program_;
  ProgramBuilder builder_;
  ImportedPlan plan_;
  std::pair<int64_t, int64_t> pipelineSize_ = {-1, -1};  // unit bytes and chunks of all pipelines
  std::vector<int8_t> piped_;  // by semaphore: used inside pipelines, outside, or not yet (-1)
};

Status JsonReader::readChannels(const JsonAt& gpu, int rank, Gpu* out) const {
  ProgramBuilder::ChannelCount count;
  TUTTI_ASSIGN(const std::vector<JsonAt> channels, gpu.list("channels"));
  for (const JsonAt& channel : channels) {
    TUTTI_ASSIGN(const Wire wire, readWire(channel, "channel_type"));
    if (wire == Wire::Switch) {
      // Older releases call it "buff".
      TUTTI_ASSIGN(const Buffer buffer, readBuffer(channel, channel.has("buffer_type") ? "buffer_type" : "buff"));
      TUTTI_TRY(builder_.readGroups(channel, "rank_groups", buffer, &out->groups));
    } else {
      TUTTI_TRY(builder_.readEnds(channel, "connected_to", wire, rank, &count,
                                  wire == Wire::Memory ? &out->memory : &out->port));
    }
  }
  return {};
}

Status JsonReader::readGpu(const JsonAt& gpu, int rank) {
  Gpu known;
  TUTTI_TRY(readChannels(gpu, rank, &known));
  TUTTI_ASSIGN(const std::vector<JsonAt> remote, gpu.list("remote_buffers"));
  for (const JsonAt& element : remote) {
    TUTTI_ASSIGN(const int64_t owner, element.integer("rank", JsonAt::kRequired, 0, program_.nRanks - 1));
    TUTTI_ASSIGN(const Buffer buffer, readBuffer(element, "type"));
    known.remote.push_back({static_cast<int>(owner), buffer});
  }
  TUTTI_ASSIGN(const std::vector<JsonAt> semaphores, gpu.list("semaphores"));
  for (size_t i = 0; i < semaphores.size(); ++i) {
    TUTTI_ASSIGN(const int64_t initial, semaphores[i].integer("init_value", 0, 0, kMostChunks));
    builder_.localSemaphore(rank, static_cast<int>(i), static_cast<int>(initial));
  }
  TUTTI_ASSIGN(const std::vector<JsonAt> blocks, gpu.list("threadblocks"));
  for (const JsonAt& block : blocks) TUTTI_TRY(readThreadBlock(block, known, rank));
  return {};
}

/// all[ids] behind each other, for the thread block's list under key.
template <class T>
Status pick(const JsonAt& element, const char* key, const std::vector<T>& all, const char* what, std::vector<T>* out) {
  TUTTI_ASSIGN(const std::vector<JsonAt> ids, element.list(key));
  for (const JsonAt& value : ids) {
    TUTTI_ASSIGN(const int64_t id, value.number(0, INT32_MAX));
    if (static_cast<size_t>(id) >= all.size()) return value.error("the gpu has only ", all.size(), " ", what);
    out->push_back(all[static_cast<size_t>(id)]);
  }
  return {};
}

Status JsonReader::readLocal(const JsonAt& element, const Gpu& gpu, Local* out) const {
  TUTTI_ASSIGN(const std::vector<JsonAt> channels, element.list("channels"));
  for (const JsonAt& channel : channels) {
    TUTTI_ASSIGN(const Wire wire, readWire(channel, "channel_type"));
    if (wire == Wire::Memory) TUTTI_TRY(pick(channel, "channel_ids", gpu.memory, "memory channels", &out->memory));
    if (wire == Wire::Port) TUTTI_TRY(pick(channel, "channel_ids", gpu.port, "port channels", &out->port));
    if (wire == Wire::Switch) TUTTI_TRY(pick(channel, "channel_ids", gpu.groups, "switch channels", &out->groups));
  }
  TUTTI_ASSIGN(const std::vector<JsonAt> refs, element.list("remote_buffer_refs"));
  for (const JsonAt& ref : refs) {
    TUTTI_ASSIGN(const Wire wire, readWire(ref, "access_channel_type"));
    if (wire == Wire::Switch) return ref.error("remote buffers are reached by memory or port channels");
    TUTTI_TRY(pick(ref, "remote_buffer_ids", gpu.remote, "remote buffers",
                   wire == Wire::Memory ? &out->memoryBuffers : &out->portBuffers));
  }
  return {};
}

Status JsonReader::readThreadBlock(const JsonAt& element, const Gpu& gpu, int rank) {
  TUTTI_ASSIGN(const int64_t id, element.integer("id", JsonAt::kRequired, 0, kMostThreads));
  if (program_.threads.size() == kMostThreads) return element.error("more than ", kMostThreads, " thread blocks");
  Local local;
  TUTTI_TRY(readLocal(element, gpu, &local));
  Thread thread{.rank = rank, .channel = static_cast<int>(id), .where = cat("gpu ", rank, " tb ", id), .steps = {}};
  TUTTI_TRY(readOps(element, local, "", false, &thread));
  program_.threads.push_back(std::move(thread));
  return {};
}

Status JsonReader::readOps(const JsonAt& holder, const Local& local, const std::string& prefix, bool piped,
                           Thread* thread) {
  TUTTI_ASSIGN(const std::vector<JsonAt> ops, holder.list("ops"));
  for (size_t i = 0; i < ops.size(); ++i) {
    const JsonAt& op = ops[i];
    TUTTI_ASSIGN(const std::string name, op.text("name"));
    Step pattern{.where = cat("op ", prefix, i, " (", name, ")")};
    if (name == "pipeline") {
      if (piped) return op.error("a pipeline in a pipeline");
      TUTTI_TRY(readPipeline(op, local, cat(i, "."), thread));
      continue;
    }
    TUTTI_TRY(readOp(op, name, local, piped, std::move(pattern), thread));
  }
  return {};
}

// Played once over whole chunks, which is the same as unit by unit if all pipelines count alike, and if what is
// signalled in one is waited for in one.
Status JsonReader::readPipeline(const JsonAt& op, const Local& local, const std::string& prefix, Thread* thread) {
  TUTTI_ASSIGN(const JsonAt context, op.at("iter_context"));
  TUTTI_ASSIGN(const int64_t unitBytes, context.integer("unit_size", JsonAt::kRequired, 1, INT32_MAX));
  TUTTI_ASSIGN(const int64_t chunks, context.integer("num_chunks", JsonAt::kRequired, 1, kMostChunks));
  const std::pair size(unitBytes, chunks);
  if (pipelineSize_.first >= 0 && pipelineSize_ != size) {
    return op.error("a pipeline of ", chunks, " chunks in units of ", unitBytes, " bytes beside one of ",
                    pipelineSize_.second, " in units of ", pipelineSize_.first,
                    ": how often each runs depends on the message, which a schedule cannot express");
  }
  pipelineSize_ = size;
  const size_t begin = thread->steps.size();
  TUTTI_TRY(readOps(op, local, prefix, true, thread));
  for (size_t s = begin; s < thread->steps.size(); ++s) {
    const Step& step = thread->steps[s];
    if (step.kind != StepKind::Data || step.count == chunks) continue;
    return op.error(step.where, " moves ", step.count, " chunks in a pipeline of ", chunks,
                    ", which a schedule cannot express");
  }
  return {};
}

Status JsonReader::markPiped(const JsonAt& op, int semaphore, bool piped) {
  piped_.resize(program_.semaphores.size(), -1);
  int8_t& known = piped_[static_cast<size_t>(semaphore)];
  if (known >= 0 && known != static_cast<int8_t>(piped)) {
    return op.error("signals between a pipeline and what is outside of it, which a schedule cannot express");
  }
  known = static_cast<int8_t>(piped);
  return {};
}

Status JsonReader::readOp(const JsonAt& op, const std::string& name, const Local& local, bool piped, Step pattern,
                          Thread* thread) {
  if (const OpForm* form = findOpForm(name)) {
    if (op.has("tbg_info")) {
      TUTTI_ASSIGN(const JsonAt group, op.at("tbg_info"));
      TUTTI_ASSIGN(pattern.nShares, group.whole("tbg_size", JsonAt::kRequired, 1, kMostChunks));
      TUTTI_ASSIGN(pattern.share, group.whole("tb_id", JsonAt::kRequired, 0, pattern.nShares - 1));
    }
    TUTTI_TRY(readDataOp(op, *form, local, pattern, thread));
    return form->signals ? readSignals(op, "signal", local, piped, pattern, thread) : Status();
  }
  if (name == "nop" || name == "flush") {  // orders a thread block with itself, as all steps are
    thread->steps.push_back(std::move(pattern));
    return {};
  }
  if (name == "signal" || name == "wait" || name == "rlxsignal" || name == "rlxwait") {
    return readSignals(op, name.ends_with("signal") ? "signal" : "wait", local, piped, pattern, thread);
  }
  if (name == "barrier") return builder_.addBarrier(op, "num_threadblocks", std::move(pattern), thread);
  if (name == "sem_acquire" || name == "sem_release") {
    TUTTI_ASSIGN(const std::vector<JsonAt> ids, op.list("semaphore_ids"));
    for (const JsonAt& value : ids) {
      TUTTI_ASSIGN(const int64_t id, value.number(0, kMostThreads));
      const std::optional<int> semaphore = builder_.findLocalSemaphore(thread->rank, static_cast<int>(id));
      if (!semaphore) return value.error("gpu ", thread->rank, " has no semaphore ", id);
      TUTTI_TRY(markPiped(op, *semaphore, piped));
      pattern.kind = name == "sem_acquire" ? StepKind::Take : StepKind::Post;
      pattern.sync = *semaphore;
      thread->steps.push_back(pattern);
    }
    return {};
  }
  return op.error("'", name, "' of ", thread->where, " ", pattern.where, " is not an op that is known");
}

Status JsonReader::readSignals(const JsonAt& op, const std::string& name, const Local& local, bool piped,
                               const Step& pattern, Thread* thread) {
  TUTTI_ASSIGN(const Wire wire, readWire(op, "channel_type"));
  if (wire == Wire::Switch) return op.error("switch channels have no signals");
  std::vector<ChannelEnd> ends;
  TUTTI_TRY(pick(op, "channel_ids", wire == Wire::Memory ? local.memory : local.port,
                 "such channels in the thread block", &ends));
  for (const ChannelEnd& end : ends) {
    TUTTI_TRY(markPiped(op, builder_.addSignal(end, name == "signal", pattern, thread), piped));
  }
  return {};
}

Status JsonReader::readDataOp(const JsonAt& op, const OpForm& form, const Local& local, Step pattern, Thread* thread) {
  Wire wire = Wire::Memory;
  if (op.has("channel_type")) {
    TUTTI_ASSIGN(const std::string name, op.text("channel_type"));
    if (name != "none") {
      TUTTI_ASSIGN(wire, readWire(op, "channel_type"));
    }
  }
  std::vector<Places> places[2];
  pattern.count = -1;
  for (const bool target : {false, true}) {
    TUTTI_ASSIGN(const std::vector<JsonAt> refs, op.list(target ? "dst_buff" : "src_buff"));
    for (const JsonAt& ref : refs) {
      TUTTI_ASSIGN(Places found, readPlaces(ref, wire, local, thread->rank, &pattern));
      places[target].push_back(std::move(found));
    }
  }
  return builder_.addData(op, form, places[0], places[1], std::move(pattern), thread);
}

Result<Places> JsonReader::readPlaces(const JsonAt& ref, Wire wire, const Local& local, int rank, Step* pattern) const {
  Place place{.rank = rank};
  TUTTI_ASSIGN(place.index, ref.whole("index", JsonAt::kRequired, 0, kMostChunks));
  TUTTI_ASSIGN(const int64_t size, ref.integer("size", JsonAt::kRequired, 1, kMostChunks));
  if (pattern->count >= 0 && pattern->count != size) {
    return ref.error("has ", size, " chunks where another one of the op has ", pattern->count);
  }
  pattern->count = static_cast<int>(size);
  if (ref.has("switch_channel_id")) {
    TUTTI_ASSIGN(const int64_t id, ref.integer("switch_channel_id", 0, 0, INT32_MAX));
    if (static_cast<size_t>(id) >= local.groups.size()) {
      return ref.error("the thread block has only ", local.groups.size(), " switch channels");
    }
    const MulticastGroup& group = local.groups[static_cast<size_t>(id)];
    Places result;
    for (const int member : group.ranks) {
      place.rank = member;
      place.buffer = group.buffer;
      result.push_back(place);
    }
    return result;
  }
  if (ref.has("buffer_id")) {
    const std::vector<RemoteBuffer>& buffers = wire == Wire::Port ? local.portBuffers : local.memoryBuffers;
    TUTTI_ASSIGN(const int64_t id, ref.integer("buffer_id", 0, 0, INT32_MAX));
    if (static_cast<size_t>(id) >= buffers.size()) {
      return ref.error("the thread block has only ", buffers.size(), " such remote buffers");
    }
    place.rank = buffers[static_cast<size_t>(id)].rank;
    place.buffer = buffers[static_cast<size_t>(id)].buffer;
    return Places{place};
  }
  TUTTI_ASSIGN(place.buffer, readBuffer(ref, "type"));
  return Places{place};
}

Result<ImportedPlan> JsonReader::read() {
  TUTTI_TRY(readPlanHead(top_, &program_, &plan_.minBytes, &plan_.maxBytes));
  TUTTI_ASSIGN(const bool inPlace, top_.flag("inplace", false));
  TUTTI_ASSIGN(const std::vector<JsonAt> gpus,
               readGpus(top_, {"input_chunks", "output_chunks", "scratch_chunks"}, &program_));
  for (size_t r = 0; r < gpus.size(); ++r) TUTTI_TRY(readGpu(gpus[r], static_cast<int>(r)));
  return finishImport(program_, plan_, !inPlace, inPlace);
}

}  // namespace
}  // namespace foreign

Result<ImportedPlan> importMscclppJson(std::string_view text, const std::string& origin) {
  TUTTI_ASSIGN(const nlohmann::json document, foreign::parseJson(text, origin));
  const foreign::JsonAt top(document, origin);
  TUTTI_ASSIGN(const std::vector<foreign::JsonAt> gpus, top.list("gpus"));
  if (!gpus.empty() && gpus.front().has("inputChunks")) return foreign::importMscclppLegacy(top, origin);
  return foreign::JsonReader(top, origin).read();
}

Result<PlanHead> headOfMscclppJson(std::string_view text, const std::string& origin) {
  TUTTI_ASSIGN(const nlohmann::json document, foreign::parseJson(text, origin));
  const foreign::JsonAt top(document, origin);
  TUTTI_ASSIGN(const std::vector<foreign::JsonAt> gpus, top.list("gpus"));
  PlanHead head{static_cast<int>(gpus.size()), {}, {}};
  foreign::Program program;
  uint64_t least = 0, most = 0;
  if (foreign::readPlanHead(top, &program, &least, &most).ok()) {
    head.collective = program.collective;
    head.name = program.name;
  }
  return head;
}

}  // namespace tutti
#else
namespace tutti {
Result<PlanHead> headOfMscclppJson(std::string_view text, const std::string& origin) {
  return importMscclppJson(text, origin).status();
}
Result<ImportedPlan> importMscclppJson(std::string_view, const std::string& origin) {
  return internalError(ErrorCode::ReaderMissing, origin,
                       ": MSCCL++'s JSON cannot be read, since this build has no nlohmann-json");
}
}  // namespace tutti
#endif
