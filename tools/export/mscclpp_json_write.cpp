#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include "tools/export/export.hpp"
#include "tools/export/export_check.hpp"

namespace tutti {
namespace {

using foreign::bufferLetter;
using foreign::planIndex;

constexpr size_t kMostChannelsOfOp = 8;  // of MSCCL++'s executor

/// Where the sender puts a message.
struct PutTarget {
  Buffer buffer;
  int index;
  bool final;  // not a scratch chunk of its own, to be copied from
};

/// All ranks' messages: targets[{from, to, lane}][i] is the i-th one's.
struct Messages {
  std::map<std::array<int, 3>, std::vector<PutTarget>> targets;
  std::vector<int> scratch;  // chunks of each rank, with those that messages have of their own
};

Messages placeMessages(const std::vector<Schedule>& schedules) {
  Messages result;
  for (const Schedule& s : schedules) {
    int scratch = s.nScratch;
    for (int lane = 0; lane < static_cast<int>(s.lanes.size()); ++lane) {
      std::set<Chunk> touched;
      for (const Op& op : s.lanes[static_cast<size_t>(lane)].ops) {
        if (!op.from.empty()) {
          const bool direct = op.sources.empty() && touched.count(s.memoryOf(op.dst)) == 0;
          result.targets[{op.from[0], s.rank, lane}].push_back(
              direct ? PutTarget{op.dst.buffer, planIndex(s, lane, op.dst), true}
                     : PutTarget{Buffer::Scratch, scratch++, false});
        }
        for (const Chunk source : op.sources) touched.insert(s.memoryOf(source));
        if (op.hasDst) touched.insert(s.memoryOf(op.dst));
      }
    }
    result.scratch.push_back(scratch);
  }
  return result;
}

/// A list with commas.
class List {
 public:
  void add(std::string_view item) {
    if (!text_.empty()) text_ += ", ";
    text_ += item;
  }
  std::string text() const { return cat("[", text_, "]"); }
  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
};

class JsonGpuWriter {
 public:
  JsonGpuWriter(const Schedule& schedule, const Messages& messages) : schedule_(schedule), messages_(messages) {}

  std::string write() {
    List blocks;
    for (int lane = 0; lane < static_cast<int>(schedule_.lanes.size()); ++lane)
      blocks.add(cat("\n      ", block(lane)));
    const int parts = schedule_.nChannels;
    std::string text = cat("    {\"id\": ", schedule_.rank, ", \"input_chunks\": ", schedule_.inputChunks() * parts,
                           ", \"output_chunks\": ", schedule_.outputChunks() * parts,
                           ", \"scratch_chunks\": ", messages_.scratch[static_cast<size_t>(schedule_.rank)],
                           ",\n     \"threadblocks\": ", blocks.text());
    List remote;
    for (const auto& [peer, buffer] : remote_) {
      remote.add(cat("{\"rank\": ", peer, ", \"type\": \"", bufferLetter(buffer),
                     "\", \"access_channel_types\": [\"memory\"]}"));
    }
    List channels;
    if (!connected_.empty()) {
      channels.add(cat("{\"channel_type\": \"memory\", \"connected_to\": ", connected_.text(), "}"));
    }
    return text + cat(",\n     \"channels\": ", channels.text(), ",\n     \"remote_buffers\": ", remote.text(),
                      ", \"semaphores\": []}");
  }

 private:
  std::string block(int lane) {
    findPeers(lane);
    List ops;
    ops_ = &ops;
    // A rank's scratch and output may be written from outside only once it has come.
    signals("signal");
    signals("wait");
    std::map<int, size_t> sent, received;
    const std::vector<Op>& all = schedule_.lanes[static_cast<size_t>(lane)].ops;
    for (size_t i = 0, end = 0; i < all.size(); i = end) {
      end = messageEnd(all, i);
      const std::span<const Op> message = std::span(all).subspan(i, end - i);
      const Op& op = message.front();
      if (!op.to.empty()) {
        send(lane, message, messages_.targets.at({schedule_.rank, op.to[0], lane}).data() + sent[op.to[0]]);
        sent[op.to[0]] += message.size();
      } else if (!op.from.empty()) {
        const int from = op.from[0];
        receive(lane, message, messages_.targets.at({from, schedule_.rank, lane}).data() + received[from]);
        received[from] += message.size();
      } else {
        List sources;
        for (const Chunk source : op.sources) sources.add(here(lane, source));
        data(op.sources.size() == 1 ? "copy" : "re", sources.text(), here(lane, op.dst));
      }
    }
    List channels;
    for (size_t i = 0; i < peers_.size(); ++i) {
      channels.add(std::to_string(nChannels_++));
      connected_.add(std::to_string(peers_[i]));
    }
    const std::string own =
        peers_.empty() ? "" : cat("{\"channel_type\": \"memory\", \"channel_ids\": ", channels.text(), "}");
    List refs;
    for (const int id : refs_) refs.add(std::to_string(id));
    const std::string remote =
        refs_.empty() ? "" : cat("{\"access_channel_type\": \"memory\", \"remote_buffer_ids\": ", refs.text(), "}");
    return cat("{\"id\": ", lane, ", \"ops\": ", ops.text(), ",\n       \"channels\": [", own,
               "], \"remote_buffer_refs\": [", remote, "]}");
  }

  /// Who exchanges messages with this rank in the lane: both ends list each other, in the same order of lanes.
  void findPeers(int lane) {
    std::set<int> peers;
    for (const auto& [key, targets] : messages_.targets) {
      if (key[2] != lane) continue;
      if (key[0] == schedule_.rank) peers.insert(key[1]);
      if (key[1] == schedule_.rank) peers.insert(key[0]);
    }
    peers_.assign(peers.begin(), peers.end());
    refs_.clear();
  }

  size_t channelTo(int peer) const {
    return static_cast<size_t>(std::lower_bound(peers_.begin(), peers_.end(), peer) - peers_.begin());
  }

  void add(const std::string& op) { ops_->add(cat("\n        ", op)); }
  void sync() { add("{\"name\": \"nop\"}"); }

  void signals(const char* name) {
    for (size_t first = 0; first < peers_.size(); first += kMostChannelsOfOp) {
      List ids;
      for (size_t i = first; i < std::min(peers_.size(), first + kMostChannelsOfOp); ++i) ids.add(std::to_string(i));
      add(cat("{\"name\": \"", name, "\", \"channel_ids\": ", ids.text(), ", \"channel_type\": \"memory\"}"));
    }
    if (!peers_.empty()) sync();
  }

  void signal(const char* name, int peer) {
    add(cat("{\"name\": \"", name, "\", \"channel_ids\": [", channelTo(peer), "], \"channel_type\": \"memory\"}"));
    sync();
  }

  std::string here(int lane, Chunk chunk, size_t size = 1) const {
    return place(chunk.buffer, planIndex(schedule_, lane, chunk), size);
  }
  static std::string place(Buffer buffer, int index, size_t size) {
    return cat("{\"type\": \"", bufferLetter(buffer), "\", \"index\": ", index, ", \"size\": ", size, "}");
  }

  /// How many chunks of a message, from the first on, lie side by side here and where they are put.
  size_t runLength(int lane, std::span<const Op> ops, const PutTarget* targets) const {
    size_t n = 1;
    while (n < ops.size() && foreign::liesBehind(schedule_, lane, ops[n - 1], ops[n]) &&
           targets[n].buffer == targets[0].buffer && targets[n].final == targets[0].final &&
           targets[n].index == targets[n - 1].index + 1) {
      ++n;
    }
    return n;
  }

  void data(const char* name, const std::string& sources, const std::string& target) {
    add(cat("{\"name\": \"", name, "\", \"src_buff\": ", sources, ", \"dst_buff\": [", target, "]}"));
    sync();
  }

  /// The buffer's number among those that the lane puts into.
  size_t remoteBuffer(int rank, Buffer buffer) {
    const std::pair key(rank, buffer);
    size_t global = 0;
    while (global < remote_.size() && remote_[global] != key) ++global;
    if (global == remote_.size()) remote_.push_back(key);
    size_t local = 0;
    while (local < refs_.size() && refs_[local] != static_cast<int>(global)) ++local;
    if (local == refs_.size()) refs_.push_back(static_cast<int>(global));
    return local;
  }

  /// One message: all chunks are put, then its receiver is told once.  targets: of each chunk.
  void send(int lane, std::span<const Op> ops, const PutTarget* targets) {
    const int peer = ops.front().to[0];
    for (size_t i = 0; i < ops.size();) {
      const size_t n = runLength(lane, ops.subspan(i), targets + i);
      add(cat("{\"name\": \"put\", \"src_buff\": [", here(lane, ops[i].sources[0], n),
              "], \"dst_buff\": [{\"buffer_id\": ", remoteBuffer(peer, targets[i].buffer),
              ", \"index\": ", targets[i].index, ", \"size\": ", n, "}], \"channel_ids\": [", channelTo(peer),
              "], \"channel_type\": \"memory\"}"));
      i += n;
    }
    sync();
    signal("signal", peer);
  }

  void receive(int lane, std::span<const Op> ops, const PutTarget* targets) {
    signal("wait", ops.front().from[0]);
    for (size_t i = 0; i < ops.size();) {
      const size_t n = runLength(lane, ops.subspan(i), targets + i);
      const Op& op = ops[i];
      const std::string message = place(targets[i].buffer, targets[i].index, n);
      const std::string dst = here(lane, op.dst, n);
      i += n;
      if (targets[i - n].final) continue;
      if (op.sources.empty()) {
        data("copy", cat("[", message, "]"), dst);
      } else {
        data("re", cat("[", here(lane, op.sources[0], n), ", ", message, "]"), dst);
      }
    }
  }

  const Schedule& schedule_;
  const Messages& messages_;
  List* ops_ = nullptr;
  std::vector<int> peers_;  // of the lane
  std::vector<int> refs_;   // of the lane, into remote_
  std::vector<std::pair<int, Buffer>> remote_;
  List connected_;
  int nChannels_ = 0;
};

std::string quoted(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return cat("\"", result, "\"");
}

}  // namespace

Result<std::string> exportMscclppJson(const std::vector<Schedule>& schedules, const std::string& name) {
  TUTTI_TRY(foreign::checkExportable(schedules));
  const Schedule& first = schedules.front();
  const Collective c = first.collective;
  if (c != Collective::AllReduce && c != Collective::AllGather && c != Collective::ReduceScatter &&
      c != Collective::AllToAll) {
    return invalidArgument("MSCCL++ has no ", collectiveKey(c),
                           "; it has allreduce, allgather, reducescatter and alltoall");
  }
  const Messages messages = placeMessages(schedules);
  List gpus;
  for (const Schedule& schedule : schedules) gpus.add(cat("\n", JsonGpuWriter(schedule, messages).write()));
  return cat("{\"name\": ", quoted(name), ", \"collective\": \"", collectiveKey(c),
             "\", \"protocol\": \"Simple\", \"inplace\": ", first.inPlace ? "true" : "false",
             ",\n  \"reuse_resources\": false, \"num_threads_per_block\": 1024, ",
             "\"use_double_scratch_buffer\": false, \"buffer_alignment\": 16, \"min_message_size\": 0, ",
             "\"max_message_size\": 18446744073709551615,\n  \"gpus\": ", gpus.text(), "}\n");
}

}  // namespace tutti
