#include "src/import/mscclpp_legacy.hpp"

#include <map>
#include <optional>

#include "src/import/mscclpp_builder.hpp"

namespace tutti::foreign {
namespace {

/// Where an op's operands are written, besides what OpForm says.
struct LegacyForm {
  OpForm form;
  bool localSource, listedSources, channelSources;  // srcbuff and srcoff; srcs; i_cids
  bool localTarget, listedTargets, channelTargets;
};
constexpr auto kPairs = OpForm::Pairs;
constexpr auto kFold = OpForm::Fold;
constexpr LegacyForm kLegacyForms[] = {
    // name, shape, first packet source and target, signals;  sources: local, listed, channels;  targets likewise
    {{"put", kPairs, kNone, kNone, false}, false, true, false, false, false, true},
    {{"pws", kPairs, kNone, kNone, true}, false, true, false, false, false, true},
    {{"pwsf", kPairs, kNone, kNone, true}, false, true, false, false, false, true},
    {{"get", kPairs, kNone, kNone, false}, false, false, true, false, true, false},
    {{"copy", kPairs, kNone, kNone, false}, true, false, false, true, false, false},
    {{"tpkt", kPairs, kNone, 0, false}, true, false, false, true, false, false},
    {{"cpkt", kPairs, 0, kNone, false}, true, false, false, true, false, false},
    {{"ppkt", kPairs, kNone, 0, false}, false, true, false, false, false, true},
    {{"rppkt", kPairs, 0, 0, false}, false, true, false, false, false, true},
    {{"re", kFold, kNone, kNone, false}, true, true, false, true, false, false},
    {{"rs", kFold, kNone, kNone, false}, true, true, false, true, false, true},
    {{"rrc", kFold, kNone, kNone, false}, true, false, true, true, false, false},
    {{"rrcs", kFold, kNone, kNone, false}, true, false, true, true, false, true},
    {{"rpkt", kFold, 1, kNone, false}, true, true, false, true, false, false},
    {{"rspkt", kFold, 1, 1, false}, true, true, false, true, false, true}};

struct Key {  // channels are told apart by the buffers that they join
  Buffer source, target;
  Wire wire;
  auto operator<=>(const Key&) const = default;
};
struct Channels {
  std::map<Key, std::vector<ChannelEnd>> ends;
  std::map<Buffer, std::vector<MulticastGroup>> groups;
};

class LegacyReader {
 public:
  LegacyReader(const JsonAt& top, const std::string& origin) : top_(top), builder_(&program_) {
    plan_.origin = origin;
    plan_.format = "mscclpp";
  }
  Result<ImportedPlan> read();

 private:
  Status readChannels(const JsonAt& gpu, int rank, Channels* out) const;
  Status readThreadBlock(const JsonAt& element, const Channels& gpu, int rank);
  Status readOp(const JsonAt& op, const std::string& name, const Channels& own, Step pattern, Thread* thread);
  Status readDataOp(const JsonAt& op, const LegacyForm& form, const Channels& own, Step pattern, Thread* thread);
  Status readMulticast(const JsonAt& op, const Channels& own, Step pattern, Thread* thread);
  Status readSignals(const JsonAt& op, bool posts, const Channels& own, const Step& pattern, Thread* thread);
  Result<std::vector<std::pair<ChannelEnd, JsonAt>>> readEnds(const JsonAt& op, bool outgoing, const Channels& own,
                                                              Buffer* remote) const;
  Result<Places> readLocal(const JsonAt& op, const char* buffer, const char* offset, int rank) const;

  JsonAt top_;
  Program program_;
  ProgramBuilder builder_;
  ImportedPlan plan_;
};

Status LegacyReader::readChannels(const JsonAt& gpu, int rank, Channels* out) const {
  ProgramBuilder::ChannelCount count;
  TUTTI_ASSIGN(const std::vector<JsonAt> channels, gpu.list("channels"));
  for (const JsonAt& channel : channels) {
    TUTTI_ASSIGN(const Wire wire, readWire(channel, "type"));
    if (wire == Wire::Switch) {
      TUTTI_ASSIGN(const Buffer buffer, readBuffer(channel, "buff"));
      TUTTI_TRY(builder_.readGroups(channel, "rankGroups", buffer, &out->groups[buffer]));
      continue;
    }
    TUTTI_ASSIGN(const Buffer source, readBuffer(channel, "srcbuff"));
    TUTTI_ASSIGN(const Buffer target, readBuffer(channel, "dstbuff"));
    TUTTI_TRY(builder_.readEnds(channel, "connectedTo", wire, rank, &count, &out->ends[{source, target, wire}]));
  }
  return {};
}

/// The elements of `all` that the ids name.
template <class T>
Status pickChannels(const std::vector<JsonAt>& ids, const std::vector<T>& all, std::vector<T>* out) {
  for (const JsonAt& value : ids) {
    TUTTI_ASSIGN(const int64_t id, value.has("id") ? value.integer("id", 0, 0, INT32_MAX) : value.number(0, INT32_MAX));
    if (static_cast<size_t>(id) >= all.size()) return value.error("the gpu has only ", all.size(), " such channels");
    out->push_back(all[static_cast<size_t>(id)]);
  }
  return {};
}

Status LegacyReader::readThreadBlock(const JsonAt& element, const Channels& gpu, int rank) {
  TUTTI_ASSIGN(const int id, element.whole("id", JsonAt::kRequired, 0, kMostThreads));
  if (program_.threads.size() == kMostThreads) return element.error("more than ", kMostThreads, " thread blocks");
  Channels own;
  TUTTI_ASSIGN(const std::vector<JsonAt> channels, element.list("channels"));
  for (const JsonAt& channel : channels) {
    TUTTI_ASSIGN(const Wire wire, readWire(channel, "ctype"));
    TUTTI_ASSIGN(const Buffer source, readBuffer(channel, "src"));
    TUTTI_ASSIGN(const Buffer target, readBuffer(channel, "dst"));
    TUTTI_ASSIGN(const std::vector<JsonAt> ids, channel.list("cids"));
    if (wire == Wire::Switch) {
      const auto known = gpu.groups.find(source);
      TUTTI_TRY(pickChannels(ids, known == gpu.groups.end() ? std::vector<MulticastGroup>() : known->second,
                             &own.groups[source]));
    } else {
      const Key key{source, target, wire};
      const auto known = gpu.ends.find(key);
      TUTTI_TRY(pickChannels(ids, known == gpu.ends.end() ? std::vector<ChannelEnd>() : known->second, &own.ends[key]));
    }
  }
  Thread thread{.rank = rank, .channel = id, .where = cat("gpu ", rank, " tb ", id), .steps = {}};
  TUTTI_ASSIGN(const std::vector<JsonAt> ops, element.list("ops"));
  for (size_t i = 0; i < ops.size(); ++i) {
    TUTTI_ASSIGN(const std::string name, ops[i].text("name"));
    TUTTI_TRY(readOp(ops[i], name, own, Step{.where = cat("op ", i, " (", name, ")")}, &thread));
  }
  program_.threads.push_back(std::move(thread));
  return {};
}

Status LegacyReader::readOp(const JsonAt& op, const std::string& name, const Channels& own, Step pattern,
                            Thread* thread) {
  // What a nop depends on lies in its own thread block: MSCCL++'s executor reads no other dependency.
  if (name == "nop" || name == "flush") {
    thread->steps.push_back(std::move(pattern));
    return {};
  }
  if (name == "signal" || name == "rsignal") return readSignals(op, true, own, pattern, thread);
  if (name == "wait" || name == "rwait") return readSignals(op, false, own, pattern, thread);
  if (name == "barrier") return builder_.addBarrier(op, "nthread_blocks", std::move(pattern), thread);
  if (name == "glres") return readMulticast(op, own, std::move(pattern), thread);
  for (const LegacyForm& form : kLegacyForms) {
    if (name == form.form.name) return readDataOp(op, form, own, std::move(pattern), thread);
  }
  return op.error("'", name, "' of ", thread->where, " ", pattern.where, " is not an op that is known");
}

/// The channels under i_cids or o_cids, with their entries; `remote` is the buffer at their other ends.
Result<std::vector<std::pair<ChannelEnd, JsonAt>>> LegacyReader::readEnds(const JsonAt& op, bool outgoing,
                                                                          const Channels& own, Buffer* remote) const {
  Key key{};
  TUTTI_ASSIGN(key.wire, readWire(op, "ctype"));
  const char* holder = outgoing ? "o_buff" : "i_buff";
  if (op.has(holder)) {
    TUTTI_ASSIGN(const JsonAt buffers, op.at(holder));
    TUTTI_ASSIGN(key.source, readBuffer(buffers, "src"));
    TUTTI_ASSIGN(key.target, readBuffer(buffers, "dst"));
  } else {
    TUTTI_ASSIGN(key.source, readBuffer(op, "srcbuff"));
    TUTTI_ASSIGN(key.target, readBuffer(op, "dstbuff"));
  }
  *remote = key.target;
  const auto known = own.ends.find(key);
  std::vector<std::pair<ChannelEnd, JsonAt>> result;
  TUTTI_ASSIGN(const std::vector<JsonAt> entries, op.list(outgoing ? "o_cids" : "i_cids"));
  for (const JsonAt& entry : entries) {
    TUTTI_ASSIGN(const int id, entry.whole("id", JsonAt::kRequired, 0, INT32_MAX));
    const size_t have = known == own.ends.end() ? 0 : known->second.size();
    if (static_cast<size_t>(id) >= have) return entry.error("the thread block has only ", have, " such channels");
    result.emplace_back(known->second[static_cast<size_t>(id)], entry);
  }
  return result;
}

Status LegacyReader::readSignals(const JsonAt& op, bool posts, const Channels& own, const Step& pattern,
                                 Thread* thread) {
  Buffer remote = Buffer::Input;
  TUTTI_ASSIGN(const auto ends, readEnds(op, posts, own, &remote));
  for (const auto& [end, entry] : ends) (void)builder_.addSignal(end, posts, pattern, thread);
  return {};
}

Result<Places> LegacyReader::readLocal(const JsonAt& op, const char* buffer, const char* offset, int rank) const {
  Place place{.rank = rank};
  TUTTI_ASSIGN(place.buffer, readBuffer(op, buffer));
  TUTTI_ASSIGN(place.index, op.whole(offset, JsonAt::kRequired, 0, kMostChunks));
  return Places{place};
}

Status LegacyReader::readDataOp(const JsonAt& op, const LegacyForm& form, const Channels& own, Step pattern,
                                Thread* thread) {
  TUTTI_ASSIGN(pattern.count, op.whole("cnt", 1, 1, kMostChunks));
  std::vector<Places> places[2];
  for (const bool target : {false, true}) {
    if (target ? form.localTarget : form.localSource) {
      TUTTI_ASSIGN(Places place,
                   readLocal(op, target ? "dstbuff" : "srcbuff", target ? "dstoff" : "srcoff", thread->rank));
      places[target].push_back(std::move(place));
    }
    if (target ? form.listedTargets : form.listedSources) {
      TUTTI_ASSIGN(const std::vector<JsonAt> entries, op.list(target ? "dsts" : "srcs"));
      for (const JsonAt& entry : entries) {
        TUTTI_ASSIGN(Places place, readLocal(entry, "buff", "off", thread->rank));
        places[target].push_back(std::move(place));
      }
    }
    if (target ? form.channelTargets : form.channelSources) {
      Buffer remote = Buffer::Input;
      TUTTI_ASSIGN(const auto ends, readEnds(op, target, own, &remote));
      for (const auto& [end, entry] : ends) {
        TUTTI_ASSIGN(const int index, entry.whole("off", JsonAt::kRequired, 0, kMostChunks));
        places[target].push_back({{.rank = end.peer, .buffer = remote, .index = index}});
      }
    }
  }
  TUTTI_TRY(builder_.addData(op, form.form, places[0], places[1], pattern, thread));
  return form.form.signals ? readSignals(op, true, own, pattern, thread) : Status();
}

// Load and reduce from all ranks of the group, store to all.
Status LegacyReader::readMulticast(const JsonAt& op, const Channels& own, Step pattern, Thread* thread) {
  TUTTI_ASSIGN(pattern.count, op.whole("cnt", 1, 1, kMostChunks));
  std::vector<Places> places[2];
  for (const bool target : {false, true}) {
    TUTTI_ASSIGN(const Places local,
                 readLocal(op, target ? "dstbuff" : "srcbuff", target ? "dstoff" : "srcoff", thread->rank));
    const auto known = own.groups.find(local.front().buffer);
    std::vector<MulticastGroup> groups;
    TUTTI_ASSIGN(const std::vector<JsonAt> ids, op.list(target ? "o_cids" : "i_cids"));
    TUTTI_TRY(pickChannels(ids, known == own.groups.end() ? groups : known->second, &groups));
    for (const MulticastGroup& group : groups) {
      Places all;
      for (const int member : group.ranks) {
        all.push_back({.rank = member, .buffer = local.front().buffer, .index = local.front().index});
      }
      places[target].push_back(std::move(all));
    }
  }
  return builder_.addData(op, {"glres", OpForm::Fold, kNone, kNone, false}, places[0], places[1], std::move(pattern),
                          thread);
}

Result<ImportedPlan> LegacyReader::read() {
  TUTTI_TRY(readPlanHead(top_, &program_, &plan_.minBytes, &plan_.maxBytes));
  TUTTI_ASSIGN(const bool inPlace, top_.flag("inplace", false));
  TUTTI_ASSIGN(const std::vector<JsonAt> gpus,
               readGpus(top_, {"inputChunks", "outputChunks", "scratchChunks"}, &program_));
  for (size_t r = 0; r < gpus.size(); ++r) {
    Channels channels;
    TUTTI_TRY(readChannels(gpus[r], static_cast<int>(r), &channels));
    TUTTI_ASSIGN(const std::vector<JsonAt> blocks, gpus[r].list("threadblocks"));
    for (const JsonAt& block : blocks) TUTTI_TRY(readThreadBlock(block, channels, static_cast<int>(r)));
  }
  return finishImport(program_, plan_, !inPlace, inPlace);
}

}  // namespace

Result<ImportedPlan> importMscclppLegacy(const JsonAt& top, const std::string& origin) {
  return LegacyReader(top, origin).read();
}

}  // namespace tutti::foreign
