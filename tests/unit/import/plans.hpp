// Small foreign plans written for the tests, and what is done with every one of them.
#pragma once

#include <string>

#include "src/base/text.hpp"
#include "src/import/imported_plan.hpp"
#include "tests/support/plan_texts.hpp"

namespace tutti::test {

/// "" or the first place where `text` does not contain `part`.
inline std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const size_t at = text.find(part);
  return at == std::string::npos ? "no " + part + " in the plan" : text.replace(at, part.size(), by);
}

/// An import's complaint, or "" if it went well.
std::string complaintOf(const std::string& text, const std::string& origin = "plan");

/// Runs the plan's schedules, in place and out of place as there are, through the executor over simulated links, as
/// they are and rewritten by the passes, for counts that divide and that do not.  "" or what went wrong.
std::string runs(const ImportedPlan& plan);

/// AllReduce on a ring out of place: s, rrs, rrcs, rcs, r.  One chunk per rank.
std::string ringXml(int nRanks);
/// AllGather on a ring with blocks of two chunks that travel together.
std::string gatherXml(int nRanks, bool inPlace);
/// AllReduce in place of 2 ranks through scratch, with reductions in another thread block and dependencies.
std::string pairXml();

/// AllReduce in place: every rank loads its chunk from all others, stores the sum to all others, and signals.
std::string loadStoreJson(int nRanks);
/// AllReduce out of place with packets through scratch: every rank sends every other a chunk, sums, sends the sum.
std::string packetsJson(int nRanks);
/// AllReduce in place of `nRanks` over a multicast channel, in a pipeline with semaphores between two thread blocks.
std::string multicastJson(int nRanks);
/// AllGather of 2 ranks by a group of `groupSize` thread blocks that meet at a barrier.
std::string groupJson(int groupSize);
/// AllReduce in place of 2 ranks, in the format before the present one.
std::string legacyJson();

}  // namespace tutti::test
