// A small plan of two ranks for every op of MSCCL++'s JSON, old and new, and every type of step of MSCCL's XML: read,
// verified and run with right results; and refused by its name where that is misspelt.
#include <catch2/catch.hpp>
#include <sstream>

#include "tests/unit/import/plans.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// AllReduce out of place of two chunks, as one thread block of either rank does it: "name sources > targets; ...".
/// Places are i, o and s with m (the rank's own chunk), p (its peer's) or a number; capitals are the peer's memory, and
/// * is the multicast of both.  "/port" behind a name is the other kind of channel.
struct OpRow {
  const char* op;  // that the plan shows
  const char* steps;
};

struct PlaceText {
  char kind;  // local 'l', remote 'r', multicast 'm'
  char buffer;
  int index;
};
struct OpText {
  std::string name, wire = "memory";
  std::vector<PlaceText> places[2];  // sources, targets
};

[[maybe_unused]] PlaceText placeText(const std::string& word, int rank) {
  const bool multicast = word[0] == '*';
  const char letter = word[multicast ? 1 : 0], where = word[multicast ? 2 : 1];
  const int index = where == 'm' ? rank : where == 'p' ? 1 - rank : where - '0';
  const bool remote = letter >= 'A' && letter <= 'Z';
  return {multicast ? 'm' : remote ? 'r' : 'l', static_cast<char>(remote ? letter - 'A' + 'a' : letter), index};
}

[[maybe_unused]] std::vector<OpText> opTexts(const char* steps, int rank) {
  std::vector<OpText> ops;
  std::istringstream all(steps);
  for (std::string one; std::getline(all, one, ';');) {
    std::istringstream words(one);
    OpText op;
    words >> op.name;
    if (const size_t slash = op.name.find('/'); slash != std::string::npos) {
      op.wire = op.name.substr(slash + 1);
      op.name.resize(slash);
    }
    bool target = false;
    for (std::string word; words >> word;) {
      if (word == ">") {
        target = true;
      } else {
        op.places[target].push_back(placeText(word, rank));
      }
    }
    ops.push_back(std::move(op));
  }
  return ops;
}

const char kBuffers[] = {'i', 'o', 's'};
[[maybe_unused]] int numberOf(char buffer) { return buffer == 'i' ? 0 : buffer == 'o' ? 1 : 2; }

/// JSON with ' for ".
[[maybe_unused]] std::string quoted(std::string text) {
  for (char& c : text) c = c == '\'' ? '"' : c;
  return text;
}

template <class T, class F>
std::string commaList(const T& all, F f) {
  std::string text;
  for (const auto& one : all) text += (text.empty() ? "" : ", ") + f(one);
  return text;
}

[[maybe_unused]] std::string planOf(const std::string (&gpus)[2]) {
  return quoted(cat("{'name': 'ops', 'collective': 'allreduce', 'protocol': 'LL', 'inplace': false, 'gpus': [", gpus[0],
                    ",\n", gpus[1], "]}"));
}

[[maybe_unused]] std::string newJson(const char* steps) {
  const auto place = [](const PlaceText& p) {
    if (p.kind == 'l') return cat("{'type': '", p.buffer, "', 'index': ", p.index, ", 'size': 1}");
    return cat("{'", p.kind == 'r' ? "buffer_id" : "switch_channel_id", "': ", numberOf(p.buffer),
               ", 'index': ", p.index, ", 'size': 1}");
  };
  std::string gpus[2];
  for (int r = 0; r < 2; ++r) {
    const std::string ops = commaList(opTexts(steps, r), [&](const OpText& op) {
      return cat("{'name': '", op.name, "', 'channel_type': '", op.wire, "', 'channel_ids': [0], 'src_buff': [",
                 commaList(op.places[0], place), "], 'dst_buff': [", commaList(op.places[1], place), "]}\n");
    });
    const std::string remote = commaList(kBuffers, [&](char buffer) {
      return cat("{'rank': ", 1 - r, ", 'type': '", buffer, "', 'access_channel_types': ['memory', 'port']}");
    });
    const std::string switches = commaList(kBuffers, [&](char buffer) {
      return cat("{'channel_type': 'switch', 'buffer_type': '", buffer,
                 "', 'rank_groups': [{'size': 6, 'ranks': [0, 1]}]}");
    });
    gpus[r] = cat(
        "{'id': ", r, ", 'input_chunks': 2, 'output_chunks': 2, 'scratch_chunks': 6, 'channels': [{'channel_type': ",
        "'memory', 'connected_to': [", 1 - r, "]}, {'channel_type': 'port', 'connected_to': [", 1 - r, "]}, ", switches,
        "], 'remote_buffers': [", remote, "], 'threadblocks': [{'id': 0, 'ops': [", ops,
        "], 'channels': [{'channel_type': 'memory', 'channel_ids': [0]}, {'channel_type': 'port', 'channel_ids': "
        "[0]}, ",
        "{'channel_type': 'switch', 'channel_ids': [0, 1, 2]}], 'remote_buffer_refs': [{'access_channel_type': ",
        "'memory', 'remote_buffer_ids': [0, 1, 2]}, {'access_channel_type': 'port', 'remote_buffer_ids': [0, 1, "
        "2]}]}]}");
  }
  return planOf(gpus);
}

/// Ops of the older format whose first place is listed as all others are.
[[maybe_unused]] bool listsAll(const std::string& name, bool target) {
  if (target) return name == "get";
  return name == "put" || name == "pws" || name == "pwsf" || name == "ppkt" || name == "rppkt";
}

[[maybe_unused]] std::string oldOp(const OpText& op) {
  std::string text = cat("{'name': '", op.name, "', 'ctype': '", op.wire == "port" ? "proxy" : "sm", "', 'cnt': 1");
  for (const bool target : {false, true}) {
    const char* side = target ? "dst" : "src";
    std::string listed, ends;
    char remote = 'i';
    bool first = !listsAll(op.name, target);
    for (const PlaceText& p : op.places[target]) {
      if (p.kind != 'r' && first) {
        text += cat(", '", side, "buff': '", p.buffer, "', '", side, "off': ", p.index);
        first = false;
      } else if (p.kind == 'l') {
        listed += cat(listed.empty() ? "" : ", ", "{'buff': '", p.buffer, "', 'off': ", p.index, "}");
      } else {
        remote = p.buffer;
        ends = cat("{'id': 0, 'off': ", p.index, "}");
      }
    }
    const bool anyEnd = op.name == "glres" || op.name.ends_with("signal") || op.name.ends_with("wait") ||
                        (target && (op.name == "pws" || op.name == "pwsf"));
    if (ends.empty() && anyEnd) ends = "{'id': 0, 'off': 0}";
    const char way = target ? 'o' : 'i';
    text += cat(", '", side, "s': [", listed, "], '", way, "_buff': {'src': 'i', 'dst': '", remote, "'}, '", way,
                "_cids': [", ends, "]");
  }
  return text + "}\n";
}

[[maybe_unused]] std::string oldJson(const char* steps) {
  std::string gpus[2];
  for (int r = 0; r < 2; ++r) {
    const auto channels = [&](bool ofGpu) {
      std::string text = commaList(std::vector<std::string>{"sm", "proxy"}, [&](const std::string& wire) {
        return commaList(kBuffers, [&](char buffer) {
          return ofGpu ? cat("{'srcbuff': 'i', 'dstbuff': '", buffer, "', 'type': '", wire, "', 'connectedTo': [",
                             1 - r, "]}")
                       : cat("{'src': 'i', 'dst': '", buffer, "', 'ctype': '", wire, "', 'cids': [0]}");
        });
      });
      for (const char buffer : kBuffers) {
        text += ofGpu ? cat(", {'buff': '", buffer, "', 'type': 'nvls', 'rankGroups': [{'size': 2, 'ranks': [0, 1]}]}")
                      : cat(", {'src': '", buffer, "', 'dst': '", buffer, "', 'ctype': 'nvls', 'cids': [0]}");
      }
      return text;
    };
    gpus[r] = cat("{'id': ", r, ", 'inputChunks': 2, 'outputChunks': 2, 'scratchChunks': 6, 'chunkGroups': 1, ",
                  "'threadblocks': [{'id': 0, 'ops': [", commaList(opTexts(steps, r), oldOp), "], 'channels': [",
                  channels(false), "]}], 'channels': [", channels(true), "]}");
  }
  return planOf(gpus);
}

[[maybe_unused]] void showsOp(const OpRow& row, std::string (*write)(const char*)) {
  INFO(row.op << ": " << row.steps);
  const std::string text = write(row.steps);
  const auto plan = importPlan(text, "plan");
  INFO((plan.ok() ? "" : plan.status().message()));
  REQUIRE(plan.ok());
  CHECK(runs(*plan) == "");
  const std::string misspelt = replaced(text, cat("\"name\": \"", row.op, "\""), "\"name\": \"xyz\"");
  INFO(complaintOf(misspelt));
  CHECK(complaintOf(misspelt).find("'xyz' of gpu 0 tb 0 op ") != std::string::npos);
}

}  // namespace

#if TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("every op of MSCCL++'s JSON runs with right results, and under no other name") {
  for (const OpRow& row : {
           OpRow{"put", "put ip > S0; signal; wait; re im s0 > om; put om > Om; signal; wait"},
           OpRow{"put",
                 "put/port ip > S0; signal/port; wait/port; re im s0 > om; put om > Om; flush/port; signal; wait"},
           OpRow{"pws", "pws ip > S0; wait; re im s0 > om; pws om > Om; wait"},
           OpRow{"pwsf", "pwsf/port ip > S0; wait/port; re im s0 > om; pwsf/port om > Om; wait/port"},
           OpRow{"get", "signal; wait; get Im > s0; re im s0 > om; signal; wait; get Op > op; signal; wait"},
           OpRow{"copy", "copy ip > s0; put s0 > S1; signal; wait; copy s1 > s2; re im s2 > om; pws om > Om; wait"},
           OpRow{"flush", "put/port ip > S0; flush/port; signal; wait; re im s0 > om; pws om > Om; wait"},
           OpRow{"nop", "pws ip > S0; wait; nop; re im s0 > om; nop; pws om > Om; wait"},
           OpRow{"rlxsignal", "rlxsignal; rlxwait; rres im Im > om Om; signal; wait"},
           OpRow{"rlxwait", "rlxsignal; rlxwait; rres im Im > om Om; signal; wait"},
           OpRow{"signal", "signal; wait; rres im Im > om Om; signal; wait"},
           OpRow{"wait", "signal; wait; rres im Im > om Om; signal; wait"},
           OpRow{"re", "pws ip > S0; wait; re s0 im > om; pws om > Om; wait"},
           OpRow{"res", "pws ip > S0; wait; res im s0 > om Om; signal; wait"},
           OpRow{"rre", "signal; wait; rre im Im > om; pws om > Om; wait"},
           OpRow{"rres", "signal; wait; rres im Im > om Om; signal; wait"},
           OpRow{"ppkt", "ppkt ip > S0; repkt im s0 > om; ppkt om > S1; upkt s1 > op"},
           OpRow{"repkt", "ppkt ip > S0; repkt im s0 > om; ppkt om > S1; upkt s1 > op"},
           OpRow{"upkt", "ppkt ip > S0; upkt s0 > s1; re im s1 > om; ppkt om > S2; upkt s2 > op"},
           OpRow{"respkt", "ppkt ip > S0; respkt im s0 > om S1; upkt s1 > op"},
           OpRow{"recpkt", "ppkt ip > S0; recpkt im s0 > om s1; rppkt s1 > S2; upkt s2 > op"},
           OpRow{"rppkt", "ppkt ip > S0; recpkt im s0 > om s1; rppkt s1 > S2; upkt s2 > op"},
           OpRow{"recspkt", "ppkt ip > S0; recspkt im s0 > s3 s1 S2; upkt s1 > om; upkt s2 > op"},
           OpRow{"cpkt", "cpkt ip > s3; rppkt s3 > S0; repkt im s0 > om; cpkt om > s2; rppkt s2 > S1; upkt s1 > op"},
           OpRow{"glre", "signal; wait; glre/switch *im > om; pws om > Om; wait"},
           OpRow{"glres", "signal; wait; glres/switch *im > *om; signal; wait"},
           OpRow{"gstore", "pws ip > S0; wait; re im s0 > s1; gstore/switch s1 > *om; signal; wait"},
           OpRow{"gstorepkt", "ppkt ip > S4; recpkt im s4 > om s5; gstorepkt/switch s5 > *sm; upkt sp > op"},
       }) {
    showsOp(row, newJson);
  }
}

TEST_CASE("every op of MSCCL++'s older JSON runs with right results, and under no other name") {
  for (const OpRow& row : {
           OpRow{"put", "put ip > S0; signal; wait; re im s0 > om; put om > Om; signal; wait"},
           OpRow{"pws", "pws ip > S0; wait S0; re im s0 > om; pws om > Om; wait O0"},
           OpRow{"pwsf", "pwsf/port ip > S0; wait/port S0; re im s0 > om; pwsf/port om > Om; wait/port O0"},
           OpRow{"get", "signal; wait; get Im > s0; re im s0 > om; signal; wait; get Op > op; signal; wait"},
           OpRow{"copy", "copy ip > s0; put s0 > S1; signal; wait; re im s1 > om; put om > Om; signal; wait"},
           OpRow{"flush", "put/port ip > S0; flush; signal; wait; re im s0 > om; put om > Om; signal; wait"},
           OpRow{"nop", "signal; wait; nop; rrcs im Im > om Om; signal; wait"},
           OpRow{"rsignal", "rsignal; rwait; rrcs im Im > om Om; signal; wait"},
           OpRow{"rwait", "rsignal; rwait; rrcs im Im > om Om; signal; wait"},
           OpRow{"re", "put ip > S0; signal; wait; re im s0 > om; put om > Om; signal; wait"},
           OpRow{"rs", "put ip > S0; signal; wait; rs im s0 > om Om; signal; wait"},
           OpRow{"rrc", "signal; wait; rrc im Im > om; put om > Om; signal; wait"},
           OpRow{"rrcs", "signal; wait; rrcs im Im > om Om; signal; wait"},
           OpRow{"ppkt", "ppkt ip > S0; rpkt im s0 > om; ppkt om > S1; cpkt s1 > op"},
           OpRow{"rpkt", "ppkt ip > S0; rpkt im s0 > om; ppkt om > S1; cpkt s1 > op"},
           OpRow{"rspkt", "ppkt ip > S0; rspkt im s0 > om S1; cpkt s1 > op"},
           OpRow{"cpkt", "ppkt ip > S0; cpkt s0 > s1; re im s1 > om; ppkt om > S2; cpkt s2 > op"},
           OpRow{"tpkt", "tpkt ip > s3; rppkt s3 > S0; rspkt im s0 > om S1; cpkt s1 > op"},
           OpRow{"rppkt", "tpkt ip > s3; rppkt s3 > S0; rspkt im s0 > om S1; cpkt s1 > op"},
           OpRow{"glres", "signal; wait; glres *im > *om; signal; wait"},
       }) {
    showsOp(row, oldJson);
  }
}

TEST_CASE("what a plan says of its own runtime does not change what it computes") {
  const std::string plain = loadStoreJson(2);
  for (const char* more : {"\"reuse_resources\": true", "\"use_double_scratch_buffer\": true",
                           "\"buffer_alignment\": 128", "\"num_threads_per_block\": 256", "\"protocol\": \"LL\""}) {
    INFO(more);
    const auto plan = importPlan(replaced(plain, "\"name\": \"own\"", cat(more, ", \"name\": \"own\"")), "plan");
    REQUIRE(plan.ok());
    CHECK(plan->inPlace == importPlan(plain, "plan")->inPlace);
  }
}
#endif

#if TUTTI_HAVE_PUGIXML
TEST_CASE("every type of step of MSCCL's XML runs with right results, and under no other name") {
  // Both send their peer's chunk, add what comes to their own, and send that back.
  const auto pairOf = [](const std::vector<std::string>(&steps)[2]) {
    std::string text = "<algo name=\"steps\" ngpus=\"2\" coll=\"allreduce\" inplace=\"0\" outofplace=\"1\">\n";
    for (int r = 0; r < 2; ++r) {
      text += cat("<gpu id=\"", r, "\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"2\">\n<tb id=\"0\" send=\"", 1 - r,
                  "\" recv=\"", 1 - r, "\" chan=\"0\">\n");
      for (const std::string& one : steps[r]) text += one;
      text += "</tb></gpu>\n";
    }
    return text + "</algo>\n";
  };
  struct StepRow {
    const char* type;
    std::vector<std::string> (*of)(int r);
  };
  for (const StepRow& row : {
           StepRow{"rrc",
                   [](int r) -> std::vector<std::string> {
                     return {step(0, "s", "i", 1 - r, "i", 0), step(1, "rrc", "i", r, "o", r),
                             step(2, "s", "o", r, "o", 0), step(3, "r", "o", 0, "o", 1 - r)};
                   }},
           StepRow{"rrcs",
                   [](int r) -> std::vector<std::string> {
                     return {step(0, "s", "i", 1 - r, "i", 0), step(1, "rrcs", "i", r, "o", r),
                             step(2, "r", "o", 0, "o", 1 - r)};
                   }},
           StepRow{"re",
                   [](int r) -> std::vector<std::string> {
                     return {step(0, "s", "i", 1 - r, "i", 0), step(1, "cpy", "i", r, "o", r),
                             step(2, "r", "s", 0, "s", 1),     step(3, "re", "s", 1, "o", r),
                             step(4, "s", "o", r, "o", 0),     step(5, "r", "o", 0, "o", 1 - r)};
                   }},
       }) {
    INFO(row.type);
    const std::string text = pairOf({row.of(0), row.of(1)});
    const auto plan = importPlan(text, "plan");
    INFO((plan.ok() ? "" : plan.status().message()));
    REQUIRE(plan.ok());
    CHECK(runs(*plan) == "");
    const std::string misspelt = replaced(text, cat("type=\"", row.type, "\""), "type=\"xyz\"");
    CHECK(complaintOf(misspelt).find("type='xyz' is none of s, r, rcs") != std::string::npos);
  }
}

TEST_CASE("collectives of MSCCL that are not ours are refused by their names") {
  for (const char* collective : {"send", "recv", "alltoallv", "custom", "barrier"}) {
    const std::string text = replaced(ringXml(2), "coll=\"allreduce\"", cat("coll=\"", collective, "\""));
    CHECK(complaintOf(text).find(cat("coll='", collective, "' is not a collective")) != std::string::npos);
  }
}

TEST_CASE("a step that is waited for without saying so is noted, and works here") {
  const std::string silent = replaced(pairXml(), "hasdep=\"1\"", "hasdep=\"0\"");
  const auto plan = importPlan(silent, "plan");
  REQUIRE(plan.ok());
  CHECK(runs(*plan) == "");
  REQUIRE(plan->notes.size() == 1);
  CHECK(plan->notes[0].find("waits for ever for step 0 of tb 1, which has hasdep=0") != std::string::npos);
  CHECK(importPlan(pairXml(), "plan")->notes.empty());
}
#endif
