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

int ProgramBuilder::semaphore(Wire wire, int from, int to, int number) {
  const auto [known, isNew] = semaphores_.try_emplace({wire, from, to, number}, 0);
  if (isNew) {
    known->second = static_cast<int>(program_->semaphores.size());
    program_->semaphores.push_back(0);
  }
  return known->second;
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

Result<int> ProgramBuilder::barrier(const JsonAt& op, int rank, int id, int participants) {
  const auto [known, isNew] = barriers_.try_emplace({rank, id}, 0);
  if (isNew) {
    known->second = static_cast<int>(program_->barriers.size());
    program_->barriers.push_back(participants);
  }
  const int before = program_->barriers[static_cast<size_t>(known->second)];
  if (before != participants) {
    return op.error("barrier ", id, " of gpu ", rank, " has ", participants, " thread blocks here and ", before,
                    " before");
  }
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
