#include "tests/unit/import/plans.hpp"

#include "src/schedule/verifier.hpp"
#include "tests/support/passes.hpp"
#include "tests/support/sim_collective.hpp"

namespace tutti::test {

std::string complaintOf(const std::string& text, const std::string& origin) {
  const auto plan = importPlan(text, origin);
  return plan.ok() ? "" : plan.status().message();
}

std::string runs(const ImportedPlan& plan) {
  if (plan.inPlace.empty() && plan.outOfPlace.empty()) return "there is nothing to run";
  for (const bool inPlace : {false, true}) {
    if (plan.schedules(inPlace).empty()) continue;
    for (const Passes& passes :
         {Passes{.fused = false}, Passes{}, Passes{.reproducible = true}, Passes{.direct = true}}) {
      if (passes.reproducible && plan.schedules(inPlace).front().nChannels > 1) continue;
      const std::vector<Schedule> schedules = rewrite(plan.schedules(inPlace), passes);
      const std::string where = cat(inPlace ? "in place, " : "out of place, ", describe(passes), ": ");
      if (const std::string why = verify(schedules); !why.empty()) return where + why;
      for (const size_t count : {size_t{0}, size_t{1}, size_t{23}, static_cast<size_t>(plan.pieces) * 16}) {
        SimCollectiveOptions options{.seed = count + 1, .count = count, .jitterNs = 20'000};
        options.links.slots = static_cast<uint32_t>(slotsNeeded(schedules));
        options.links.slotBytes = 64;
        SimCollective job(schedules, options);
        if (const std::string why = job.run(); !why.empty()) return cat(where, count, " elements: ", why);
      }
    }
  }
  return "";
}

std::string ringXml(int n) {
  std::string text = cat("<algo name=\"ring\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"", n, "\" ngpus=\"", n,
                         "\" coll=\"allreduce\" inplace=\"0\" outofplace=\"1\" minBytes=\"1024\" maxBytes=\"0\">\n");
  for (int r = 0; r < n; ++r) {
    text += cat("<gpu id=\"", r, "\" i_chunks=\"", n, "\" o_chunks=\"", n, "\" s_chunks=\"0\">\n<tb id=\"0\" send=\"",
                (r + 1) % n, "\" recv=\"", (r + n - 1) % n, "\" chan=\"0\">\n");
    const auto chunk = [&](int back) { return (r + 2 * n - back) % n; };
    int s = 0;
    text += step(s++, "s", "i", chunk(0), "i", chunk(0));
    for (int i = 1; i < n - 1; ++i) text += step(s++, "rrs", "i", chunk(i), "o", chunk(i));
    text += step(s++, "rrcs", "i", chunk(n - 1), "o", chunk(n - 1));
    for (int i = 0; i < n - 2; ++i) text += step(s++, "rcs", "i", 0, "o", chunk(i));
    text += step(s++, "r", "i", 0, "o", chunk(n - 2)) + "</tb></gpu>\n";
  }
  return text + "</algo>\n";
}

std::string gatherXml(int n, bool inPlace) {
  std::string text = cat("<algo name=\"gather\" nchunksperloop=\"", 2 * n, "\" ngpus=\"", n,
                         "\" coll=\"allgather\" inplace=\"", inPlace ? 1 : 0, "\">\n");
  for (int r = 0; r < n; ++r) {
    text += cat("<gpu id=\"", r, "\" i_chunks=\"2\" o_chunks=\"", 2 * n, "\" s_chunks=\"0\">\n");
    text += cat("<tb id=\"0\" send=\"", (r + 1) % n, "\" recv=\"", (r + n - 1) % n, "\" chan=\"0\">\n");
    const auto block = [&](int back) { return 2 * ((r + n - back) % n); };
    int s = 0;
    if (!inPlace) text += step(s++, "cpy", "i", 0, "o", block(0), 2);
    text += step(s++, "s", "o", block(0), "o", 0, 2);
    for (int i = 1; i < n - 1; ++i) text += step(s++, "rcs", "o", 0, "o", block(i), 2);
    text += step(s++, "r", "o", 0, "o", block(n - 1), 2) + "</tb></gpu>\n";
  }
  return text + "</algo>\n";
}

std::string pairXml() {
  std::string text =
      "<!-- both send all they have -->\n<algo name=\"pair\" ngpus=\"2\" coll=\"allreduce\" inplace=\"1\" "
      "outofplace=\"0\" "
      "nchunksperloop=\"2\" minBytes=\"0\" maxBytes=\"4096\">\n";
  for (int r = 0; r < 2; ++r) {
    text += cat("<gpu id=\"", r, "\" i_chunks=\"2\" o_chunks=\"0\" s_chunks=\"2\">\n");
    text += "<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">\n";
    text += step(0, "nop", "i", -1, "i", -1, 0, 1, 0) + step(1, "re", "s", 0, "i", 0, 2, 2, 0) + "</tb>\n";
    text += cat("<tb id=\"1\" send=\"-1\" recv=\"", 1 - r, "\" chan=\"0\">\n",
                step(0, "r", "s", 0, "s", 0, 2, -1, -1, true), "</tb>\n");
    text += cat("<tb id=\"2\" send=\"", 1 - r, "\" recv=\"-1\" chan=\"0\">\n",
                step(0, "s", "i", 0, "i", 0, 2, -1, -1, true), "</tb>\n</gpu>\n");
  }
  return text + "</algo>\n";
}

namespace {

std::string head(const char* collective, bool inPlace, const char* protocol = "Simple") {
  return cat("{\"name\": \"own\", \"collective\": \"", collective, "\", \"protocol\": \"", protocol,
             "\", \"inplace\": ", inPlace ? "true" : "false",
             ", \"min_message_size\": 16, \"max_message_size\": 1048576, \"gpus\": [");
}

std::string gpu(int r, int in, int out, int scratch) {
  return cat(r == 0 ? "" : ",", "\n{\"id\": ", r, ", \"input_chunks\": ", in, ", \"output_chunks\": ", out,
             ", \"scratch_chunks\": ", scratch, ", ");
}

std::string local(const char* type, int index, int size = 1) {
  return cat("{\"type\": \"", type, "\", \"index\": ", index, ", \"size\": ", size, "}");
}
std::string remote(int id, int index, int size = 1) {
  return cat("{\"buffer_id\": ", id, ", \"index\": ", index, ", \"size\": ", size, "}");
}
std::string signalOp(const char* name, const std::string& ids) {
  return cat("{\"name\": \"", name, "\", \"channel_ids\": [", ids, "], \"channel_type\": \"memory\"},\n");
}
std::string dataOp(const char* name, const std::string& sources, const std::string& targets,
                   const std::string& more = "") {
  return cat("{\"name\": \"", name, "\", \"src_buff\": [", sources, "], \"dst_buff\": [", targets, "]", more, "},\n");
}
const std::string kNop = "{\"name\": \"nop\"}";
const std::string kMemory = ", \"channel_type\": \"memory\"";

/// "0, 1, 2" for n numbers, or what f makes of them.
template <class F>
std::string list(int n, F f) {
  std::string text;
  for (int i = 0; i < n; ++i) text += cat(i == 0 ? "" : ", ", f(i));
  return text;
}
std::string numbers(int n) {
  return list(n, [](int i) { return i; });
}

/// Channels to all others and their buffer of a type, as a gpu and its only thread block have them.
std::string peersOfGpu(int r, int n, const char* type) {
  const auto peer = [&](int i) { return i < r ? i : i + 1; };
  return cat("\"channels\": [{\"channel_type\": \"memory\", \"connected_to\": [", list(n - 1, peer),
             "]}], \"remote_buffers\": [",
             list(n - 1,
                  [&](int i) {
                    return cat("{\"rank\": ", peer(i), ", \"type\": \"", type,
                               "\", \"access_channel_types\": [\"memory\"]}");
                  }),
             "], ");
}
std::string peersOfBlock(int n) {
  return cat("\"channels\": [{\"channel_type\": \"memory\", \"channel_ids\": [", numbers(n - 1),
             "]}], \"remote_buffer_refs\": [{\"access_channel_type\": \"memory\", \"remote_buffer_ids\": [",
             numbers(n - 1), "]}]");
}

}  // namespace

std::string loadStoreJson(int n) {
  std::string text = head("allreduce", true);
  for (int r = 0; r < n; ++r) {
    const std::string others = list(n - 1, [&](int i) { return remote(i, r); });
    text += gpu(r, n, n, 0) + peersOfGpu(r, n, "i");
    text += "\"threadblocks\": [{\"id\": 0, \"ops\": [\n" + signalOp("rlxsignal", numbers(n - 1)) +
            signalOp("rlxwait", numbers(n - 1)) + kNop + ",\n" +
            dataOp("rres", cat(local("i", r), ", ", others), cat(local("i", r), ", ", others), kMemory) + kNop + ",\n" +
            signalOp("signal", numbers(n - 1)) + signalOp("wait", numbers(n - 1)) + kNop + "], " + peersOfBlock(n) +
            "}]}";
  }
  return text + "]}\n";
}

std::string packetsJson(int n) {
  std::string text = head("allreduce", false, "LL");
  for (int r = 0; r < n; ++r) {
    const auto peer = [&](int i) { return i < r ? i : i + 1; };
    // Scratch [0, n): what others send of this rank's chunk, by sender; [n, 2n): sums, by chunk.
    text += gpu(r, n, n, 2 * n) + peersOfGpu(r, n, "s");
    text += "\"threadblocks\": [{\"id\": 0, \"ops\": [\n";
    text += dataOp("ppkt", list(n - 1, [&](int i) { return local("i", peer(i)); }),
                   list(n - 1, [&](int i) { return remote(i, r); }), kMemory);
    text += dataOp("respkt", cat(local("i", r), ", ", list(n - 1, [&](int i) { return local("s", peer(i)); })),
                   cat(local("o", r), ", ", list(n - 1, [&](int i) { return remote(i, n + r); })), kMemory);
    for (int i = 0; i < n - 1; ++i) text += dataOp("upkt", local("s", n + peer(i)), local("o", peer(i)));
    text += kNop + "], " + peersOfBlock(n) + "}]}";
  }
  return text + "]}\n";
}

std::string multicastJson(int n) {
  std::string text = head("allreduce", true);
  const auto pipeline = [](const std::string& ops) {
    return cat("{\"name\": \"pipeline\", \"iter_context\": {\"unit_size\": 4096, \"num_chunks\": 1}, \"ops\": [\n", ops,
               kNop, "]}");
  };
  const auto semaphore = [](const char* name, int id) {
    return cat("{\"name\": \"", name, "\", \"semaphore_ids\": [", id, "]},\n");
  };
  for (int r = 0; r < n; ++r) {
    const std::string chunk = cat("{\"switch_channel_id\": 0, \"index\": ", r, ", \"size\": 1}");
    const auto peer = [&](int i) { return i < r ? i : i + 1; };
    text +=
        gpu(r, n, 0, 0) + cat("\"channels\": [{\"channel_type\": \"memory\", \"connected_to\": [", list(n - 1, peer),
                              ", ", list(n - 1, peer), "]}, {\"channel_type\": \"switch\", \"buffer_type\": \"i\", ",
                              "\"rank_groups\": [{\"size\": ", n, ", \"ranks\": [", numbers(n), "]}]}], ");
    text += "\"semaphores\": [{\"init_value\": 0}, {\"init_value\": 1}], \"threadblocks\": [\n";
    const std::string own = cat("{\"channel_type\": \"memory\", \"channel_ids\": [", numbers(n - 1), "]}");
    const std::string later =
        cat("{\"channel_type\": \"memory\", \"channel_ids\": [", list(n - 1, [&](int i) { return i + n - 1; }), "]}");
    text += cat("{\"id\": 0, \"ops\": [",
                pipeline(semaphore("sem_acquire", 1) + signalOp("signal", numbers(n - 1)) +
                         signalOp("wait", numbers(n - 1)) + semaphore("sem_release", 0)),
                "], \"channels\": [", own, "]},\n");
    text += cat("{\"id\": 1, \"ops\": [",
                pipeline(semaphore("sem_acquire", 0) + dataOp("glres", chunk, chunk, ", \"channel_type\": \"switch\"") +
                         signalOp("signal", numbers(n - 1)) + signalOp("wait", numbers(n - 1))),
                "], \"channels\": [{\"channel_type\": \"switch\", \"channel_ids\": [0]}, ", later, "]}]}");
  }
  return text + "]}\n";
}

std::string groupJson(int t) {
  std::string text = head("allgather", false);
  for (int r = 0; r < 2; ++r) {
    text += gpu(r, 1, 2, 1) + cat("\"channels\": [{\"channel_type\": \"port\", \"connected_to\": [", 1 - r,
                                  "]}], \"remote_buffers\": [{\"rank\": ", 1 - r,
                                  ", \"type\": \"s\", \"access_channel_types\": [\"port\"]}], \"threadblocks\": [\n");
    for (int b = 0; b < t; ++b) {
      const std::string group = cat(", \"tbg_info\": {\"tb_id\": ", b, ", \"tbg_size\": ", t, "}");
      const std::string barrier = cat("{\"name\": \"barrier\", \"barrier_id\": 0, \"num_threadblocks\": ", t, "},\n");
      // The first sends for all, once they have come; then all copy a share, which the first has told to be there.
      std::string ops = dataOp("copy", local("i", 0), local("o", r), group) + barrier;
      if (b == 0) {
        const std::string port = ", \"channel_ids\": [0], \"channel_type\": \"port\"";
        ops += dataOp("pwsf", local("o", r), remote(0, 0), port) + cat("{\"name\": \"wait\"", port, "},\n");
      }
      ops += barrier + dataOp("copy", local("s", 0), local("o", 1 - r), group);
      text += cat(b == 0 ? "" : ",\n", "{\"id\": ", b, ", \"ops\": [", ops, kNop,
                  "], \"channels\": [{\"channel_type\": \"port\", \"channel_ids\": [0]}], \"remote_buffer_refs\": ",
                  "[{\"access_channel_type\": \"port\", \"remote_buffer_ids\": [0]}]}");
    }
    text += "]}";
  }
  return text + "]}\n";
}

std::string legacyJson() {
  std::string text =
      "{\"name\": \"old\", \"collective\": \"allreduce\", \"protocol\": \"Simple\", \"inplace\": true, \"gpus\": [";
  const std::string buffers =
      "\"i_buff\": {\"src\": \"i\", \"dst\": \"i\"}, \"o_buff\": {\"src\": \"i\", \"dst\": \"i\"}";
  const auto op = [&](const char* name, const std::string& more) {
    return cat("{\"name\": \"", name, "\", ", buffers, ", \"ctype\": \"sm\", \"cnt\": 1", more, "},\n");
  };
  for (int r = 0; r < 2; ++r) {
    const std::string in = cat(", \"i_cids\": [{\"id\": 0, \"off\": ", r, "}]");
    const std::string out = cat(", \"o_cids\": [{\"id\": 0, \"off\": ", r, "}]");
    text += cat(
        r == 0 ? "" : ",", "\n{\"id\": ", r, ", \"inputChunks\": 2, \"outputChunks\": 0, \"scratchChunks\": 0, ",
        "\"chunkGroups\": 1, \"threadblocks\": [{\"id\": 0, \"ops\": [\n", op("signal", out), op("wait", in),
        op("rrcs", cat(in, out, ", \"srcbuff\": \"i\", \"srcoff\": ", r, ", \"dstbuff\": \"i\", \"dstoff\": ", r)),
        op("signal", out), op("wait", in), "{\"name\": \"nop\", \"deps\": [{\"tb\": 0, \"step\": 4}]}], ",
        "\"channels\": [{\"src\": \"i\", \"dst\": \"i\", \"ctype\": \"sm\", \"cids\": [0]}]}], ",
        "\"channels\": [{\"srcbuff\": \"i\", \"dstbuff\": \"i\", \"type\": \"sm\", \"connectedTo\": [", 1 - r, "]}]}");
  }
  return text + "]}\n";
}

}  // namespace tutti::test
