#include "src/import/mscclpp_builder.hpp"

namespace tutti::foreign {
namespace {

constexpr OpForm kForms[] = {
    {"put", OpForm::Pairs, kNone, kNone, false},  {"pws", OpForm::Pairs, kNone, kNone, true},
    {"pwsf", OpForm::Pairs, kNone, kNone, true},  {"get", OpForm::Pairs, kNone, kNone, false},
    {"copy", OpForm::Pairs, kNone, kNone, false}, {"cpkt", OpForm::Pairs, kNone, 0, false},
    {"upkt", OpForm::Pairs, 0, kNone, false},     {"ppkt", OpForm::Pairs, kNone, 0, false},
    {"rppkt", OpForm::Fold, 0, 0, false},         {"re", OpForm::Fold, kNone, kNone, false},
    {"res", OpForm::Fold, kNone, kNone, false},   {"rre", OpForm::Fold, kNone, kNone, false},
    {"rres", OpForm::Fold, kNone, kNone, false},  {"repkt", OpForm::Fold, 1, 1, false},
    {"respkt", OpForm::Fold, 1, 1, false},        {"recpkt", OpForm::Fold, 1, 1, false},
    {"recspkt", OpForm::Fold, 1, 1, false},       {"glre", OpForm::Fold, kNone, kNone, false},
    {"glres", OpForm::Fold, kNone, kNone, false}, {"gstore", OpForm::Fold, kNone, kNone, false},
    {"gstorepkt", OpForm::Fold, 0, 0, false}};

void append(const Places& places, bool packets, std::vector<Place>* to) {
  for (Place place : places) {
    place.packets = packets;
    to->push_back(place);
  }
}

}  // namespace

const OpForm* findOpForm(std::string_view name) {
  for (const OpForm& form : kForms) {
    if (name == form.name) return &form;
  }
  return nullptr;
}

Result<Buffer> readBuffer(const JsonAt& at, const char* key) {
  const Result<std::string> name = at.text(key);
  if (!name.ok()) return name.status();
  if (*name == "i") return Buffer::Input;
  if (*name == "o") return Buffer::Output;
  if (*name == "s") return Buffer::Scratch;
  return at.error(key, " '", *name, "' is none of i, o and s");
}

Result<Wire> readWire(const JsonAt& at, const char* key) {
  const Result<std::string> name = at.text(key);
  if (!name.ok()) return name.status();
  if (*name == "memory" || *name == "sm") return Wire::Memory;
  if (*name == "port" || *name == "proxy") return Wire::Port;
  if (*name == "switch" || *name == "nvls") return Wire::Switch;
  return at.error(key, " '", *name, "' is no kind of channel: memory, port and switch are");
}

Status readPlanHead(const JsonAt& top, Program* program, uint64_t* minBytes, uint64_t* maxBytes) {
  TUTTI_ASSIGN(program->name, top.text("name"));
  // Files from before there were several collectives to a program do not say which.
  std::string key = "allreduce";
  if (top.has("collective")) {
    TUTTI_ASSIGN(key, top.text("collective"));
  } else if (top.has("colletive")) {  // as some releases wrote it
    TUTTI_ASSIGN(key, top.text("colletive"));
  }
  if (!parseCollective(key, &program->collective) || program->collective == Collective::Barrier) {
    return top.error("collective '", key, "' is not one that can be run: allreduce, allgather, reducescatter and ",
                     "alltoall are");
  }
  TUTTI_ASSIGN(*minBytes, top.unsigned64("min_message_size", 0));
  TUTTI_ASSIGN(*maxBytes, top.unsigned64("max_message_size", UINT64_MAX));
  return {};
}

Result<std::vector<JsonAt>> readGpus(const JsonAt& top, const ChunkKeys& keys, Program* program) {
  TUTTI_ASSIGN(std::vector<JsonAt> gpus, top.list("gpus"));
  if (gpus.empty() || gpus.size() > kMostRanks)
    return top.error("has ", gpus.size(), " gpus; 1 to ", kMostRanks, " can be");
  program->nRanks = static_cast<int>(gpus.size());
  std::vector<ChunkCounts> counts;
  for (size_t r = 0; r < gpus.size(); ++r) {
    TUTTI_ASSIGN(const int64_t id, gpus[r].integer("id", JsonAt::kRequired, 0, INT32_MAX));
    if (static_cast<size_t>(id) != r) return gpus[r].error("has id ", id);
    ChunkCounts count;
    TUTTI_ASSIGN(count.input, gpus[r].whole(keys.input, JsonAt::kRequired, 0, kMostChunks));
    TUTTI_ASSIGN(count.output, gpus[r].whole(keys.output, JsonAt::kRequired, 0, kMostChunks));
    TUTTI_ASSIGN(count.scratch, gpus[r].whole(keys.scratch, 0, 0, kMostChunks));
    counts.push_back(count);
  }
  if (Status status = setChunks(counts, -1, program); !status.ok()) return top.error(status.message());
  return gpus;
}

Status ProgramBuilder::readEnds(const JsonAt& channel, const char* key, Wire wire, int rank, ChannelCount* count,
                                std::vector<ChannelEnd>* out) const {
  TUTTI_ASSIGN(const std::vector<JsonAt> peers, channel.list(key));
  for (const JsonAt& value : peers) {
    TUTTI_ASSIGN(const int64_t number, value.number(0, program_->nRanks - 1));
    const int peer = static_cast<int>(number);
    if (peer == rank) return value.error("gpu ", rank, " has a channel to itself");
    out->push_back({wire, peer, (*count)[{wire, peer}]++});
  }
  return {};
}

Status ProgramBuilder::readGroups(const JsonAt& channel, const char* key, Buffer buffer,
                                  std::vector<MulticastGroup>* out) const {
  TUTTI_ASSIGN(const std::vector<JsonAt> groups, channel.list(key));
  for (const JsonAt& group : groups) {
    MulticastGroup multicast{buffer, {}};
    TUTTI_ASSIGN(const std::vector<JsonAt> ranks, group.list("ranks"));
    for (const JsonAt& value : ranks) {
      TUTTI_ASSIGN(const int64_t member, value.number(0, program_->nRanks - 1));
      multicast.ranks.push_back(static_cast<int>(member));
    }
    if (multicast.ranks.empty()) return group.error("a multicast group of no ranks");
    out->push_back(std::move(multicast));
  }
  return {};
}

int ProgramBuilder::localSemaphore(int rank, int id, int initial) {
  const int index = static_cast<int>(program_->semaphores.size());
  program_->semaphores.push_back(initial);
  localSemaphores_[{rank, id}] = index;
  return index;
}

std::optional<int> ProgramBuilder::findLocalSemaphore(int rank, int id) const {
  const auto found = localSemaphores_.find({rank, id});
  return found == localSemaphores_.end() ? std::nullopt : std::optional(found->second);
}

Status ProgramBuilder::addBarrier(const JsonAt& op, const char* key, Step pattern, Thread* thread) {
  TUTTI_ASSIGN(const int id, op.whole("barrier_id", JsonAt::kRequired, 0, kMostThreads));
  TUTTI_ASSIGN(const int participants, op.whole(key, JsonAt::kRequired, 1, kMostThreads));
  const auto [known, isNew] = barriers_.try_emplace({thread->rank, id}, static_cast<int>(program_->barriers.size()));
  if (isNew) program_->barriers.push_back(participants);
  const int before = program_->barriers[static_cast<size_t>(known->second)];
  if (before != participants) {
    return op.error("barrier ", id, " of gpu ", thread->rank, " has ", participants, " thread blocks here and ", before,
                    " before");
  }
  pattern.kind = StepKind::Barrier;
  pattern.sync = known->second;
  thread->steps.push_back(std::move(pattern));
  return {};
}

int ProgramBuilder::addSignal(const ChannelEnd& end, bool posts, const Step& pattern, Thread* thread) {
  // The semaphore that signals from one end end up in, and the other waits for.
  const int from = posts ? thread->rank : end.peer, to = posts ? end.peer : thread->rank;
  const int next = static_cast<int>(program_->semaphores.size());
  const auto [known, isNew] = semaphores_.try_emplace({end.wire, from, to, end.number}, next);
  if (isNew) program_->semaphores.push_back(0);
  Step step{.kind = posts ? StepKind::Post : StepKind::Take, .where = pattern.where};
  step.sync = known->second;
  thread->steps.push_back(std::move(step));
  return known->second;
}

Status ProgramBuilder::addData(const JsonAt& op, const OpForm& form, const std::vector<Places>& sources,
                               const std::vector<Places>& targets, Step pattern, Thread* thread) {
  if (sources.empty() || targets.empty()) return op.error("(", form.name, ") has no source or no target");
  pattern.kind = StepKind::Data;
  const auto isPacket = [](size_t index, int first) { return index >= static_cast<size_t>(first); };
  if (form.shape == OpForm::Pairs) {
    if (sources.size() != targets.size()) {
      return op.error("(", form.name, ") has ", sources.size(), " sources and ", targets.size(), " targets");
    }
    for (size_t i = 0; i < sources.size(); ++i) {
      Step step = pattern;
      append(sources[i], isPacket(i, form.packetSources), &step.sources);
      append(targets[i], isPacket(i, form.packetTargets), &step.targets);
      thread->steps.push_back(std::move(step));
    }
    return {};
  }
  for (size_t i = 0; i < sources.size(); ++i) append(sources[i], isPacket(i, form.packetSources), &pattern.sources);
  for (size_t i = 0; i < targets.size(); ++i) append(targets[i], isPacket(i, form.packetTargets), &pattern.targets);
  thread->steps.push_back(std::move(pattern));
  return {};
}

}  // namespace tutti::foreign
