// Plans of every kind of op become schedules that run, and plans that are wrong are refused with the place and reason.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "src/schedule/verifier.hpp"
#include "tests/unit/import/plans.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

[[maybe_unused]] std::string importAndRun(const std::string& text) {
  const auto plan = importPlan(text, "plan");
  return plan.ok() ? runs(*plan) : plan.status().message();
}

struct Wrong {
  const char* part;  // of a right plan
  const char* by;
  const char* complaint;
};

[[maybe_unused]] void refuses(const std::string& right, const Wrong& row) {
  INFO("'" << row.part << "' becomes '" << row.by << "'");
  const std::string text = replaced(right, row.part, row.by);
  REQUIRE(text.find("in the plan") == std::string::npos);
  const std::string complaint = complaintOf(text);
  INFO(complaint);
  CHECK(complaint.find(row.complaint) != std::string::npos);
}

[[maybe_unused]] size_t opsOf(const std::vector<Schedule>& schedules) {
  size_t ops = 0;
  for (const Schedule& s : schedules) {
    for (const Lane& lane : s.lanes) ops += lane.ops.size();
  }
  return ops;
}

}  // namespace

#if TUTTI_HAVE_PUGIXML
TEST_CASE("MSCCL plans of every kind of step run with right results") {
  for (const int n : {2, 3, 4, 7}) {
    CHECK(importAndRun(ringXml(n)) == "");
    CHECK(importAndRun(gatherXml(n, false)) == "");
    CHECK(importAndRun(gatherXml(n, true)) == "");
  }
  CHECK(importAndRun(pairXml()) == "");
}

TEST_CASE("an imported ring has no op that the ring itself has not") {
  const auto plan = importPlan(ringXml(5), "plan");
  REQUIRE(plan.ok());
  // Per rank: 8 sends, 4 recvReduce (3 of them through scratch), 4 recv.
  CHECK(opsOf(plan->outOfPlace) == 5 * 16);
  CHECK(plan->inPlace.empty());
  CHECK(plan->pieces == 5);
  CHECK(plan->minBytes == 1024);
  CHECK(plan->maxBytes == UINT64_MAX);
  CHECK(plan->outOfPlace[0].slotsNeeded == 1);
}

TEST_CASE("chunks of a block become channels") {
  const auto plan = importPlan(gatherXml(3, true), "plan");
  REQUIRE(plan.ok());
  CHECK(plan->inPlace[2].nChannels == 2);
  CHECK(plan->pieces == 6);
}

TEST_CASE("what a plan writes to the caller's input goes to scratch instead") {
  // The ring accumulates in the input, and copies the results behind it.
  std::string text = ringXml(3);
  while (text.find("dstbuf=\"o\"") != std::string::npos) text = replaced(text, "dstbuf=\"o\"", "dstbuf=\"i\"");
  CHECK(complaintOf(text).find("was never written") != std::string::npos);
  for (int r = 0; r < 3; ++r) text = replaced(text, "</tb></gpu>", step(5, "cpy", "i", 0, "o", 0, 3) + "</tb> </gpu>");
  CHECK(importAndRun(text) == "");
}

TEST_CASE("MSCCL's older dialect reads as the newer one") {
  std::string old = ringXml(3);
  for (const auto& [name, before] :
       {std::pair("<op step=", "<step s="), std::pair("<threadblock ", "<tb "), std::pair("</threadblock>", "</tb>")}) {
    while (old.find(before) != std::string::npos) old = replaced(old, before, name);
  }
  const auto plan = importPlan(old, "plan");
  REQUIRE(complaintOf(old) == "");
  CHECK(plan->outOfPlace == importPlan(ringXml(3), "plan")->outOfPlace);
  // One buf and off where both sides are the same.
  const char* scatter =
      "<algo name=\"x\" ngpus=\"2\" coll=\"broadcast\" inplace=\"1\" outofplace=\"0\">"
      "<gpu id=\"0\" i_chunks=\"1\" o_chunks=\"1\"><tb id=\"0\" send=\"1\" recv=\"-1\" chan=\"0\">"
      "<op step=\"0\" type=\"s\" buf=\"i\" off=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/></tb></gpu>"
      "<gpu id=\"1\" i_chunks=\"0\" o_chunks=\"1\"><tb id=\"0\" send=\"-1\" recv=\"0\" chan=\"0\">"
      "<op step=\"0\" type=\"r\" buf=\"o\" off=\"0\" cnt=\"1\" depid=\"-1\" deps=\"-1\" "
      "hasdep=\"0\"/></tb></gpu></algo>";
  CHECK(importAndRun(scatter) == "");
}

TEST_CASE("copies before the steps are part of an MSCCL plan") {
  std::string text = gatherXml(3, false);
  for (int r = 0; r < 3; ++r) {
    const std::string cpy = step(0, "cpy", "i", 0, "o", 2 * r, 2);
    text = replaced(text, cpy, step(0, "nop", "i", -1, "o", -1, 0));
    text = replaced(text, cat("<gpu id=\"", r, "\" i_chunks=\"2\" o_chunks=\"6\" s_chunks=\"0\">"),
                    cat("<gpu id=\"", r, "\" i_chunks=\"2\" o_chunks=\"6\" s_chunks=\"0\"><copy i_off=\"0\" o_off=\"",
                        2 * r, "\"/><copy i_off=\"1\" o_off=\"", 2 * r + 1, "\"/>"));
  }
  CHECK(importAndRun(text) == "");
}

TEST_CASE("MSCCL plans that are wrong are refused with line and reason") {
  const std::string ring = ringXml(3);
  const std::string lastRecv = step(4, "r", "i", 0, "o", 2);  // of gpu 0
  for (const Wrong& row : {
           Wrong{"</algo>", "", "plan:26: not XML"},
           Wrong{"<algo", "<plan", "not XML"},
           Wrong{"coll=\"allreduce\"", "coll=\"custom\"", "plan:1: <algo>: coll='custom' is not a collective"},
           Wrong{"ngpus=\"3\"", "ngpus=\"4\"", "gpu 3 of 4 is missing"},
           Wrong{"ngpus=\"3\"", "ngpus=\"99999\"", "ngpus=99999 is outside 1..1024"},
           Wrong{"ngpus=\"3\"", "ngpus=\"x\"", "is not a whole number"},
           Wrong{"i_chunks=\"3\"", "i_chunks=\"4\"", "chunks"},
           Wrong{"send=\"1\"", "send=\"0\"", "gpu 0 is its own peer"},
           Wrong{"send=\"1\"", "send=\"-1\"", "plan:4: <step>: sends, but its thread block has no send peer"},
           Wrong{"send=\"1\"", "send=\"2\"", "deadlock: "},
           Wrong{"type=\"rrs\"", "type=\"xyz\"", "type='xyz' is none of"},
           Wrong{"step s=\"1\"", "step s=\"5\"", "plan:5: <step>: s=5, but 1 is the next"},
           Wrong{"srcbuf=\"i\"", "srcbuf=\"q\"", "srcbuf='q' is none of i, o and s"},
           Wrong{"srcoff=\"0\"", "srcoff=\"3\"", "gpu 0 tb 0 step 0 (s, line 4): i[3] of gpu 0 is out of range"},
           Wrong{"srcoff=\"0\"", "srcoff=\"1\"", "combines chunks that do not belong together"},
           Wrong{"depid=\"-1\" deps=\"-1\"", "depid=\"7\" deps=\"0\"", "there is no such thread block"},
           Wrong{"depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"9\"", "which has only"},
           Wrong{"depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"1\"", "deadlock: gpu 0 tb 0 step 0"},
           Wrong{"type=\"rrs\"", "type=\"rcs\"", "is not a right allreduce"},
           Wrong{"</tb>", "</tb><tb id=\"0\"/>", "gpu 0 has tb 0 twice"},
           Wrong{"</tb>", "</tb><tb id=\"1\" send=\"1\"/>",
                 "another thread block of gpu 0 sends to gpu 1 on channel 0"},
           Wrong{"</gpu>", "<what/></gpu>", "<what>: is not known inside of <gpu>"},
           Wrong{"outofplace=\"1\"", "outofplace=\"0\"", "is for calls neither in nor out of place"},
           Wrong{lastRecv.c_str(), "", "never"},
       }) {
    refuses(ring, row);
  }
  // Without the dependency on the send, the sum may be there before the input has left.
  const std::string racy = replaced(pairXml(), "depid=\"2\" deps=\"0\"", "depid=\"-1\" deps=\"-1\"");
  CHECK(complaintOf(racy).find("without an order between them") != std::string::npos);
  CHECK(complaintOf(replaced(pairXml(), "inplace=\"1\" outofplace=\"0\"", "inplace=\"0\" outofplace=\"1\""))
            .find("out of place: is not a right allreduce: rank 0: out[0] was never written") != std::string::npos);
}
#endif

#if TUTTI_HAVE_NLOHMANN_JSON
TEST_CASE("MSCCL++ plans of every kind of op run with right results") {
  for (const int n : {2, 3, 5}) {
    CHECK(importAndRun(loadStoreJson(n)) == "");
    CHECK(importAndRun(packetsJson(n)) == "");
    CHECK(importAndRun(multicastJson(n)) == "");
  }
  for (const int t : {1, 2, 3, 4}) CHECK(importAndRun(groupJson(t)) == "");
  CHECK(importAndRun(legacyJson()) == "");
}

TEST_CASE("MSCCL++ plans that are wrong are refused with path and reason") {
  const std::string plan = loadStoreJson(2);
  for (const Wrong& row : {
           Wrong{"]}\n", "]", "not JSON: parse error at line"},
           Wrong{"\"allreduce\"", "\"sendrecv\"", "plan: : collective 'sendrecv' is not one that can be run"},
           Wrong{"\"id\": 0", "\"id\": 4", "/gpus/0: has id 4"},
           Wrong{"\"input_chunks\": 2", "\"input_chunks\": -1", "/gpus/0/input_chunks: -1 is outside"},
           Wrong{"\"input_chunks\": 2", "\"input_chunks\": 3", "chunks"},
           Wrong{"\"input_chunks\": 2", "\"input_chunks\": 2.5", "/gpus/0/input_chunks: is not a whole number"},
           Wrong{"\"connected_to\": [1]", "\"connected_to\": [2]",
                 "/gpus/0/channels/0/connected_to/0: 2 is outside 0..1"},
           Wrong{"\"connected_to\": [1]", "\"connected_to\": [0]", "gpu 0 has a channel to itself"},
           Wrong{"\"connected_to\": [1]", "\"connected_to\": 1", "/connected_to: is not a list"},
           Wrong{"\"memory\", \"connected_to\"", "\"wire\", \"connected_to\"", "'wire' is no kind of channel"},
           Wrong{"\"rres\"", "\"frob\"", "/gpus/0/threadblocks/0/ops/3: 'frob' of gpu 0 tb 0 op 3 (frob) is not an op"},
           Wrong{"\"buffer_id\": 0", "\"buffer_id\": 3", "/ops/3/src_buff/1: the thread block has only 1 such remote"},
           Wrong{"\"index\": 0", "\"index\": 7", "gpu 0 tb 0 op 3 (rres): i[7] of gpu 0 is out of range"},
           Wrong{"\"size\": 1", "\"size\": 2", "has 1 chunks where another one of the op has 2"},
           Wrong{"\"channel_ids\": [0]", "\"channel_ids\": [4]", "/channel_ids/0: the gpu has only"},
           Wrong{"\"rlxsignal\"", "\"nop\"", "deadlock: "},
           Wrong{"\"inplace\": true", "\"inplace\": false", "out[0] was never written"},
       }) {
    refuses(plan, row);
  }
  refuses(multicastJson(3),
          {"\"num_chunks\": 1", "\"num_chunks\": 2", "a pipeline of 1 chunks in units of 4096 bytes beside one of 2"});
  refuses(multicastJson(3), {"\"unit_size\": 4096", "\"unit_size\": 1", "which a schedule cannot express"});
  refuses(multicastJson(3), {"\"sem_acquire\", \"semaphore_ids\": [0]", "\"sem_acquire\", \"semaphore_ids\": [9]",
                             "gpu 0 has no semaphore 9"});
  refuses(groupJson(2), {"\"num_threadblocks\": 2", "\"num_threadblocks\": 3", "3 before"});
  refuses(groupJson(2), {"\"tb_id\": 0", "\"tb_id\": 2", "tb_id: 2 is outside 0..1"});
  refuses(packetsJson(2), {"\"ppkt\"", "\"put\"", "gpu 1 tb 0 op 1 (respkt) waits for packets"});
  refuses(legacyJson(), {"\"rrcs\"", "\"rrcx\"", "'rrcx' of gpu 0 tb 0 op 2 (rrcx) is not an op"});
  refuses(legacyJson(), {"\"cids\": [0]", "\"cids\": [1]", "the gpu has only 1"});
}

TEST_CASE("plans that touch the buffers of ranks that have not come or may have gone are noted, and work here") {
  const auto notes = [](const std::string& text) {
    const auto plan = importPlan(text, "plan");
    CHECK(runs(*plan) == "");
    std::string all;
    for (const std::string& note : plan->notes) all += note + ". ";
    return all;
  };
  CHECK(notes(loadStoreJson(2)) == "");
  CHECK(notes(packetsJson(3)) == "");
  CHECK(notes(replaced(loadStoreJson(2), "\"rlxwait\"", "\"nop\""))
            .find("gpu 0 tb 0 op 3 (rres): reads i[0] of gpu 1 before that is known to have begun") !=
        std::string::npos);
  CHECK(notes(replaced(loadStoreJson(2), "\"wait\"", "\"nop\"")) ==
        "gpu 1 tb 0 op 3 (rres): writes a buffer of gpu 0, which does not wait for that before it ends. ");
}
#endif

// Not run by itself: TUTTI_TEST_PLANS=FOLDER test_import '[.folder]' says what becomes of every plan under a folder,
// and with TUTTI_TEST_WRITE=FOLDER writes the plans of this file there (seeds for the fuzzers).
TEST_CASE("plans of a folder", "[.folder]") {
  if (const char* target = std::getenv("TUTTI_TEST_WRITE")) {
    const auto write = [&](const char* name, const std::string& text) {
      std::ofstream(cat(target, "/", name)) << text;
    };
    write("ring.xml", ringXml(3));
    write("gather.xml", gatherXml(3, true));
    write("pair.xml", pairXml());
    write("loadstore.json", loadStoreJson(2));
    write("packets.json", packetsJson(2));
    write("multicast.json", multicastJson(2));
    write("group.json", groupJson(2));
    write("legacy.json", legacyJson());
  }
  const char* folder = std::getenv("TUTTI_TEST_PLANS");
  if (folder == nullptr) return;
  int ran = 0, refused = 0, wrong = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".xml" && extension != ".json") continue;
    const auto plan = importPlanFile(entry.path());
    const std::string why = plan.ok() ? runs(*plan) : plan.status().message();
    ++(!plan.ok() ? refused : why.empty() ? ran : wrong);
    if (!why.empty())
      std::cout << (plan.ok() ? "WRONG " : "refused ") << entry.path().filename() << ": " << why << "\n";
  }
  std::cout << ran << " ran, " << refused << " refused, " << wrong << " wrong\n";
  CHECK(wrong == 0);
}

TEST_CASE("what is no plan at all is refused") {
  CHECK(complaintOf("") == "plan: is empty");
  CHECK(complaintOf("hello") == "plan: is neither MSCCL's XML nor MSCCL++'s JSON");
  CHECK(complaintOf("<html/>").starts_with("plan"));
  CHECK(complaintOf("{}").starts_with("plan"));
  CHECK(importPlanFile("/nonexistent/plan.xml").status().code() == tuttiInvalidUsage);
}
