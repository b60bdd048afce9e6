#include "src/import/msccl_xml.hpp"

#if TUTTI_HAVE_PUGIXML
#include <map>
#include <set>

#include "src/base/xml_text.hpp"
#include "src/import/program.hpp"

namespace tutti {
namespace {

using foreign::ChunkCounts;
using foreign::Place;
using foreign::Program;
using foreign::Step;
using foreign::StepKind;
using foreign::Thread;

/// What a step does, by its type.
struct Verb {
  const char* name;
  bool receives, sends, reads, stores, readsTarget;
};
constexpr Verb kVerbs[] = {{"s", false, true, true, false, false},    {"r", true, false, false, true, false},
                           {"rcs", true, true, false, true, false},   {"rrs", true, true, true, false, false},
                           {"rrc", true, false, true, true, false},   {"rrcs", true, true, true, true, false},
                           {"cpy", false, false, true, true, false},  {"re", false, false, true, true, true},
                           {"nop", false, false, false, false, false}};

struct ReadBlock {  // a thread block, with what is resolved only when all are known
  pugi::xml_node element;
  Thread thread;
  int send = -1, recv = -1;
  std::vector<std::pair<int, int>> dependsOn;  // per step: thread block and step of this gpu
  std::vector<bool> silent;                    // per step: hasdep="0"
};

class XmlReader {
 public:
  Result<ImportedPlan> read(std::string_view text, const std::string& origin);
  Result<PlanHead> readOnlyHead(std::string_view text, const std::string& origin);

 private:
  /// As XmlText::integer, for limits that fit an int.
  Result<int> whole(pugi::xml_node node, const char* name, int64_t absent, int64_t least, int64_t most) const {
    TUTTI_ASSIGN(const int64_t value, xml_.integer(node, name, absent, least, most));
    return static_cast<int>(value);
  }
  Status readHead();
  Status readCollective();
  Status readGpu(pugi::xml_node gpu);
  Status readBlock(pugi::xml_node element, int rank);
  Status readCopies(pugi::xml_node gpu, int rank);
  Status readStep(pugi::xml_node element, ReadBlock* block);
  Result<Place> readPlace(pugi::xml_node element, const char* side, int rank);
  Status resolveDependencies();
  Status checkConnections();

  XmlText xml_{ErrorCode::PlanMalformed};
  pugi::xml_node algo_;
  Program program_;
  ImportedPlan plan_;
  std::vector<ChunkCounts> counts_;
  std::vector<bool> seen_;
  std::vector<ReadBlock> blocks_;
  std::map<std::pair<int, int>, size_t> blockOf_;  // by rank and id
  std::vector<size_t> preludes_;                   // blocks_ that copy before the rest begins
};

Status XmlReader::readCollective() {
  const std::string key = algo_.attribute("coll").value();
  if (!parseCollective(key, &program_.collective) || program_.collective == Collective::Barrier) {
    return xml_.error(algo_, "coll='", key, "' is not a collective that can be run: allreduce, broadcast, reduce, ",
                      "allgather, reducescatter, alltoall, gather and scatter are");
  }
  return {};
}

Status XmlReader::readHead() {
  algo_ = xml_.root();
  if (std::string_view(algo_.name()) != "algo") return xml_.error(algo_, "is not <algo>, an MSCCL plan");
  program_.name = algo_.attribute("name").value();
  TUTTI_TRY(readCollective());
  TUTTI_ASSIGN(const int64_t nRanks, xml_.integer(algo_, "ngpus", 0, 1, foreign::kMostRanks));
  if (nRanks == 0) return xml_.error(algo_, "has no ngpus");
  program_.nRanks = static_cast<int>(nRanks);
  TUTTI_ASSIGN(const int64_t least, xml_.integer(algo_, "minBytes", 0, 0, INT64_MAX));
  TUTTI_ASSIGN(const int64_t most, xml_.integer(algo_, "maxBytes", 0, 0, INT64_MAX));
  plan_.minBytes = static_cast<uint64_t>(least);
  if (most > 0) plan_.maxBytes = static_cast<uint64_t>(most);  // 0: no limit
  counts_.resize(static_cast<size_t>(nRanks));
  seen_.resize(static_cast<size_t>(nRanks));
  return {};
}

Status XmlReader::readGpu(pugi::xml_node gpu) {
  TUTTI_ASSIGN(const int64_t id, xml_.integer(gpu, "id", -1, 0, program_.nRanks - 1));
  if (id < 0) return xml_.error(gpu, "has no id");
  if (seen_[static_cast<size_t>(id)]) return xml_.error(gpu, "gpu ", id, " is there twice");
  seen_[static_cast<size_t>(id)] = true;
  ChunkCounts& counts = counts_[static_cast<size_t>(id)];
  TUTTI_ASSIGN(counts.input, whole(gpu, "i_chunks", 0, 0, foreign::kMostChunks));
  TUTTI_ASSIGN(counts.output, whole(gpu, "o_chunks", 0, 0, foreign::kMostChunks));
  TUTTI_ASSIGN(counts.scratch, whole(gpu, "s_chunks", 0, 0, foreign::kMostChunks));
  TUTTI_TRY(readCopies(gpu, static_cast<int>(id)));
  for (const pugi::xml_node element : gpu.children()) {
    const std::string_view tag = element.name();
    if (element.type() != pugi::node_element || tag == "copy") continue;
    if (tag != "tb" && tag != "threadblock") return xml_.error(element, "is not known inside of <gpu>");
    TUTTI_TRY(readBlock(element, static_cast<int>(id)));
  }
  return {};
}

// <copy i_off o_off>: input chunk to output chunk, before any step.
Status XmlReader::readCopies(pugi::xml_node gpu, int rank) {
  ReadBlock block;
  for (const pugi::xml_node element : gpu.children("copy")) {
    TUTTI_ASSIGN(const int64_t from, xml_.integer(element, "i_off", 0, 0, foreign::kMostChunks));
    TUTTI_ASSIGN(const int64_t to, xml_.integer(element, "o_off", 0, 0, foreign::kMostChunks));
    Step step{.kind = StepKind::Data, .where = cat("line ", xml_.line(element), " (copy)")};
    step.sources.push_back({.rank = rank, .buffer = Buffer::Input, .index = static_cast<int>(from)});
    step.targets.push_back({.rank = rank, .buffer = Buffer::Output, .index = static_cast<int>(to)});
    block.thread.steps.push_back(std::move(step));
    block.dependsOn.push_back({-1, -1});
  }
  if (block.thread.steps.empty()) return {};
  block.thread.rank = rank;
  block.thread.where = cat("gpu ", rank);
  block.element = gpu;
  preludes_.push_back(blocks_.size());
  blocks_.push_back(std::move(block));
  return {};
}

Status XmlReader::readBlock(pugi::xml_node element, int rank) {
  ReadBlock block;
  block.element = element;
  TUTTI_ASSIGN(const int64_t id, xml_.integer(element, "id", -1, 0, foreign::kMostThreads));
  if (id < 0) return xml_.error(element, "has no id");
  const int64_t last = program_.nRanks - 1;
  TUTTI_ASSIGN(block.send, whole(element, "send", -1, -1, last));
  TUTTI_ASSIGN(block.recv, whole(element, "recv", -1, -1, last));
  if (block.send == rank || block.recv == rank) return xml_.error(element, "gpu ", rank, " is its own peer");
  TUTTI_ASSIGN(block.thread.channel, whole(element, "chan", 0, -1, foreign::kMostThreads));
  block.thread.channel = std::max(block.thread.channel, 0);
  block.thread.rank = rank;
  block.thread.where = cat("gpu ", rank, " tb ", id);
  if (!blockOf_.emplace(std::pair(rank, static_cast<int>(id)), blocks_.size()).second) {
    return xml_.error(element, "gpu ", rank, " has tb ", id, " twice");
  }
  if (blocks_.size() == foreign::kMostThreads)
    return xml_.error(element, "more than ", foreign::kMostThreads, " thread blocks");
  for (const pugi::xml_node child : element.children()) {
    if (child.type() == pugi::node_element) TUTTI_TRY(readStep(child, &block));
  }
  blocks_.push_back(std::move(block));
  return {};
}

Result<Place> XmlReader::readPlace(pugi::xml_node element, const char* side, int rank) {
  // The older dialect has one buf and off, for both sides.
  const std::string buf = cat(side, "buf"), off = cat(side, "off");
  const bool own = element.attribute(buf.c_str());
  const char* bufName = own ? buf.c_str() : "buf";
  const char* offName = own ? off.c_str() : "off";
  const std::string_view name = element.attribute(bufName).value();
  Place place{.rank = rank};
  if (name == "i" || name == "input") {
    place.buffer = Buffer::Input;
  } else if (name == "o" || name == "output") {
    place.buffer = Buffer::Output;
  } else if (name == "s" || name == "scratch") {
    place.buffer = Buffer::Scratch;
  } else {
    return xml_.error(element, bufName, "='", name, "' is none of i, o and s");
  }
  TUTTI_ASSIGN(const int64_t index, xml_.integer(element, offName, -1, 0, foreign::kMostChunks));
  if (index < 0) return xml_.error(element, "has no ", offName);
  place.index = static_cast<int>(index);
  return place;
}

Status XmlReader::readStep(pugi::xml_node element, ReadBlock* block) {
  const std::string_view tag = element.name();
  if (tag != "step" && tag != "op") return xml_.error(element, "is not known inside of a thread block");
  const auto number = static_cast<int64_t>(block->thread.steps.size());
  const char* numberName = element.attribute("s") ? "s" : "step";
  TUTTI_ASSIGN(const int64_t written, xml_.integer(element, numberName, number, INT32_MIN, INT32_MAX));
  if (written != number) return xml_.error(element, numberName, "=", written, ", but ", number, " is the next");

  const std::string_view type = element.attribute("type").value();
  const Verb* verb = nullptr;
  for (const Verb& known : kVerbs) {
    if (type == known.name) verb = &known;
  }
  if (verb == nullptr)
    return xml_.error(element, "type='", type, "' is none of s, r, rcs, rrs, rrc, rrcs, cpy, re and nop");

  Step step;
  step.where = cat("step ", number, " (", type, ", line ", xml_.line(element), ")");
  const int rank = block->thread.rank;
  if (verb->receives || verb->sends || verb->reads) {
    step.kind = StepKind::Data;
    TUTTI_ASSIGN(step.count, whole(element, "cnt", 1, 1, foreign::kMostChunks));
    if (verb->receives && block->recv < 0)
      return xml_.error(element, "receives, but its thread block has no recv peer");
    if (verb->sends && block->send < 0) return xml_.error(element, "sends, but its thread block has no send peer");
    if (verb->receives) step.from = block->recv;
    if (verb->sends) step.to = block->send;
    if (verb->readsTarget) {
      TUTTI_ASSIGN(const Place target, readPlace(element, "dst", rank));
      step.sources.push_back(target);
    }
    if (verb->reads) {
      TUTTI_ASSIGN(const Place source, readPlace(element, "src", rank));
      step.sources.push_back(source);
    }
    if (verb->stores) {
      TUTTI_ASSIGN(const Place target, readPlace(element, "dst", rank));
      step.targets.push_back(target);
    }
  }
  TUTTI_ASSIGN(const int64_t onBlock, xml_.integer(element, "depid", -1, -1, foreign::kMostThreads));
  TUTTI_ASSIGN(const int64_t onStep, xml_.integer(element, "deps", -1, -1, INT32_MAX));
  block->dependsOn.push_back({onStep < 0 ? -1 : static_cast<int>(onBlock), static_cast<int>(onStep)});
  TUTTI_ASSIGN(const int64_t awaited, xml_.integer(element, "hasdep", 1, 0, 1));
  block->silent.push_back(awaited == 0);
  block->thread.steps.push_back(std::move(step));
  return {};
}

Status XmlReader::resolveDependencies() {
  for (ReadBlock& block : blocks_) {
    for (size_t s = 0; s < block.thread.steps.size(); ++s) {
      const auto [id, step] = block.dependsOn[s];
      if (id < 0) continue;
      const auto found = blockOf_.find({block.thread.rank, id});
      const std::string what =
          cat(block.thread.where, " ", block.thread.steps[s].where, " waits for step ", step, " of tb ", id);
      if (found == blockOf_.end()) return xml_.error(block.element, what, ", but there is no such thread block");
      if (static_cast<size_t>(step) >= blocks_[found->second].thread.steps.size()) {
        return xml_.error(block.element, what, ", which has only ", blocks_[found->second].thread.steps.size(),
                          " steps");
      }
      block.thread.steps[s].after.push_back({static_cast<int>(found->second), step});
      if (blocks_[found->second].silent[static_cast<size_t>(step)] && plan_.notes.empty()) {
        plan_.notes.push_back(cat(block.thread.where, " ", block.thread.steps[s].where, ": waits for ever for step ",
                                  step, " of tb ", id, ", which has hasdep=0"));
      }
    }
  }
  for (const size_t prelude : preludes_) {
    const Thread& copies = blocks_[prelude].thread;
    for (ReadBlock& block : blocks_) {
      if (block.thread.rank != copies.rank || &block.thread == &copies || block.thread.steps.empty()) continue;
      block.thread.steps.front().after.push_back(
          {static_cast<int>(prelude), static_cast<int>(copies.steps.size()) - 1});
    }
  }
  return {};
}

// A connection is one thread block's at either end, or the order of its messages would be left to chance.
Status XmlReader::checkConnections() {
  std::set<std::tuple<int, int, int, bool>> taken;
  for (const ReadBlock& block : blocks_) {
    for (const bool sends : {false, true}) {
      const int peer = sends ? block.send : block.recv;
      if (peer < 0) continue;
      if (taken.emplace(block.thread.rank, peer, block.thread.channel, sends).second) continue;
      return xml_.error(block.element, "another thread block of gpu ", block.thread.rank,
                        sends ? " sends to" : " receives from", " gpu ", peer, " on channel ", block.thread.channel,
                        " already");
    }
  }
  return {};
}

Result<PlanHead> XmlReader::readOnlyHead(std::string_view text, const std::string& origin) {
  TUTTI_TRY(xml_.parse(text, origin));
  TUTTI_TRY(readHead());
  return PlanHead{program_.nRanks, program_.collective, program_.name};
}

Result<ImportedPlan> XmlReader::read(std::string_view text, const std::string& origin) {
  plan_.origin = origin;
  plan_.format = "msccl";
  TUTTI_TRY(xml_.parse(text, origin));
  TUTTI_TRY(readHead());
  for (const pugi::xml_node element : algo_.children()) {
    if (element.type() != pugi::node_element) continue;
    if (std::string_view(element.name()) != "gpu") return xml_.error(element, "is not known inside of <algo>");
    TUTTI_TRY(readGpu(element));
  }
  for (size_t r = 0; r < seen_.size(); ++r) {
    if (!seen_[r]) return xml_.error(algo_, "gpu ", r, " of ", seen_.size(), " is missing");
  }
  TUTTI_ASSIGN(const int64_t root, xml_.integer(algo_, "root", -1, -1, program_.nRanks - 1));
  if (Status status = foreign::setChunks(counts_, static_cast<int>(root), &program_); !status.ok()) {
    return xml_.error(algo_, status.message());
  }
  TUTTI_TRY(resolveDependencies());
  TUTTI_TRY(checkConnections());
  TUTTI_ASSIGN(const int64_t inPlace, xml_.integer(algo_, "inplace", 0, 0, 1));
  TUTTI_ASSIGN(const int64_t outOfPlace, xml_.integer(algo_, "outofplace", inPlace == 0, 0, 1));
  for (ReadBlock& block : blocks_) program_.threads.push_back(std::move(block.thread));
  return finishImport(program_, plan_, outOfPlace != 0, inPlace != 0);
}

}  // namespace

Result<ImportedPlan> importMscclXml(std::string_view text, const std::string& origin) {
  return XmlReader().read(text, origin);
}

Result<PlanHead> headOfMscclXml(std::string_view text, const std::string& origin) {
  return XmlReader().readOnlyHead(text, origin);
}

}  // namespace tutti
#else
namespace tutti {
Result<PlanHead> headOfMscclXml(std::string_view text, const std::string& origin) {
  return importMscclXml(text, origin).status();
}
Result<ImportedPlan> importMscclXml(std::string_view, const std::string& origin) {
  return internalError(ErrorCode::ReaderMissing, origin,
                       ": MSCCL's XML cannot be read, since this build has no pugixml");
}
}  // namespace tutti
#endif
