// tuttiCommEstimate: every call has an estimate that all ranks share; mistakes are refused.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

std::string complaint(const tuttiEstimate_t& e) {
  if (e.algorithm == nullptr || *e.algorithm == '\0') return "has no algorithm";
  if (e.protocol == nullptr || *e.protocol == '\0') return "has no protocol";
  if (!std::isfinite(e.timeUs) || e.timeUs < 0) return "has no time";
  if (e.nChannels < 1) return "has no channel";
  return "";
}

std::string text(const tuttiEstimate_t& e) {
  return std::to_string(e.timeUs) + " " + e.algorithm + " " + e.protocol + " " + std::to_string(e.nChannels);
}

tuttiResult_t ask(const Rank& r, int call, size_t count, tuttiEstimate_t* e, int root = 0) {
  *e = TUTTI_ESTIMATE_INITIALIZER;
  return tuttiCommEstimate(r.comm, static_cast<tuttiCall_t>(call), count, tuttiFloat32, tuttiSum, root, e);
}

}  // namespace

TEST_CASE("every call of any size has an estimate, the same on all ranks") {
  const int nRanks = GENERATE(1, 2, 3, 5);
  CAPTURE(nRanks);
  std::vector<std::string> said(static_cast<size_t>(nRanks));
  CHECK(onRanks(nRanks, [&](const Rank& r) {
          for (int call = 0; call < tuttiNumCalls; ++call) {
            for (const size_t count : {size_t{0}, size_t{1}, size_t{1000}, size_t{1} << 22}) {
              tuttiEstimate_t e;
              // The peer of a message is the next rank, so that every rank has one at the same distance.
              const bool message = call == tuttiCallSend || call == tuttiCallRecv;
              RANK_TRY(ask(r, call, count, &e, message ? (r.rank + 1) % r.nRanks : 0));
              if (std::string why = complaint(e); !why.empty()) return std::to_string(call) + " " + why;
              said[static_cast<size_t>(r.rank)] += text(e) + "\n";
            }
          }
          return std::string();
        }) == "");
  for (const std::string& s : said) CHECK(s == said[0]);
}

TEST_CASE("more bytes take longer, and what is asked for is what is named") {
  CHECK(onRanks(3, [](const Rank& r) {
          for (int call = 0; call < tuttiNumCalls; ++call) {
            if (call == tuttiCallBarrier) continue;
            tuttiEstimate_t small, large;
            RANK_TRY(ask(r, call, 1 << 10, &small, (r.rank + 1) % 3));
            RANK_TRY(ask(r, call, 1 << 24, &large, (r.rank + 1) % 3));
            if (large.timeUs <= small.timeUs) return "call " + std::to_string(call) + ": more bytes take no longer";
          }
          tuttiEstimate_t e;
          RANK_TRY(ask(r, tuttiCallBarrier, 77, &e));
          const std::string barrier = e.algorithm;
          RANK_CHECK(barrier == "dissemination" || barrier == "direct");  // whichever is cheaper on this machine
          RANK_TRY(ask(r, tuttiCallSend, 77, &e, r.rank));                // to oneself
          RANK_CHECK(std::string(e.algorithm) == "send");
          return std::string();
        }) == "");
}

TEST_CASE("an estimate obeys the overrides and moves nothing") {
  setenv("TUTTI_ALGO", "allreduce:ring", 1);
  setenv("TUTTI_PROTO", "slots", 1);
  CHECK(onRanks(3, [](const Rank& r) {
          tuttiEstimate_t e;
          if (r.rank == 1) {  // alone: a call that waited for the others would end in a timeout
            RANK_TRY(ask(r, tuttiCallAllReduce, 1, &e));
            RANK_CHECK(std::string(e.algorithm) == "ring");
            RANK_CHECK(std::string(e.protocol) == "slots");
          }
          RANK_TRY(tuttiBarrier(r.comm, nullptr));
          return std::string();
        }) == "");
  unsetenv("TUTTI_ALGO");
  setenv("TUTTI_PROTO", "inline", 1);
  CHECK(onRanks(2, [](const Rank& r) {
          tuttiEstimate_t e;
          RANK_TRY(ask(r, tuttiCallAllReduce, 1 << 24, &e));  // as the call would: without what does not fit
          RANK_CHECK(std::string(e.protocol) != "inline");
          return std::string();
        }) == "");
  setenv("TUTTI_ALGO_STRICT", "1", 1);
  CHECK(onRanks(2, [](const Rank& r) {
          tuttiEstimate_t e;
          RANK_CHECK(ask(r, tuttiCallAllReduce, 1 << 24, &e) == tuttiInvalidUsage);
          RANK_CHECK(std::string(tuttiGetLastError(r.comm)).find("TUTTI_PROTO=inline") != std::string::npos);
          return std::string();
        }) == "");
  unsetenv("TUTTI_PROTO");
  unsetenv("TUTTI_ALGO_STRICT");
}

TEST_CASE("a made operator has an estimate, on its own communicator only") {
  CHECK(onRanks(2, [](const Rank& r) {
          tuttiRedOp_t op;
          float scalar = 2;
          RANK_TRY(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, tuttiScalarHostImmediate, r.comm));
          tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
          RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 8, tuttiFloat32, op, 0, &e));
          RANK_TRY(tuttiRedOpDestroy(op, r.comm));
          RANK_CHECK(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 8, tuttiFloat32, op, 0, &e) == tuttiInvalidArgument);
          return std::string();
        }) == "");
}

TEST_CASE("a wrong question is refused with a sentence") {
  CHECK(onRanks(2, [](const Rank& r) {
          struct Row {
            int call;
            size_t count;
            int dtype, op, root;
            const char* words;
          };
          const Row rows[] = {
              {tuttiNumCalls, 1, tuttiFloat32, tuttiSum, 0, "call 16"},
              {31, 1, tuttiFloat32, tuttiSum, 0, "call 31"},
              {tuttiCallAllReduce, 1, 15, tuttiSum, 0, "dtype 15"},
              {tuttiCallAllReduce, 1, tuttiFloat32, tuttiBand, 0, "band"},
              {tuttiCallReduce, 1, tuttiFloat32, tuttiSum, 2, "root 2"},
              {tuttiCallSend, 1, tuttiFloat32, tuttiSum, -1, "peer -1"},
              {tuttiCallAllGather, SIZE_MAX / 2, tuttiFloat32, tuttiSum, 0, "does not fit"},
          };
          for (const Row& row : rows) {
            tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
            const tuttiResult_t got = tuttiCommEstimate(r.comm, static_cast<tuttiCall_t>(row.call), row.count,
                                                        static_cast<tuttiDataType_t>(row.dtype),
                                                        static_cast<tuttiRedOp_t>(row.op), row.root, &e);
            const std::string said = tuttiGetLastError(r.comm);
            if (got != tuttiInvalidArgument) return std::string(row.words) + " gave " + std::to_string(got);
            if (said.find(row.words) == std::string::npos) return said + " does not say " + row.words;
          }
          tuttiEstimate_t e;
          RANK_CHECK(ask(r, tuttiCallAllGather, 1, &e, 77) == tuttiSuccess);  // has no root: ignored
          const auto of = [&](tuttiComm_t comm, tuttiEstimate_t* out) {
            return tuttiCommEstimate(comm, tuttiCallAllReduce, 1, tuttiFloat32, tuttiSum, 0, out);
          };
          RANK_CHECK(of(r.comm, nullptr) == tuttiInvalidArgument);
          RANK_CHECK(of(nullptr, &e) == tuttiInvalidArgument);
          e.size = 8;
          RANK_CHECK(of(r.comm, &e) == tuttiInvalidArgument);
          RANK_CHECK(std::string(tuttiGetLastError(r.comm)).find("TUTTI_ESTIMATE_INITIALIZER") != std::string::npos);
          return std::string();
        }) == "");
}

TEST_CASE("a larger struct of a later header keeps what this library does not know") {
  struct Later {
    tuttiEstimate_t known;
    double unknown;
  };
  CHECK(onRanks(1, [](const Rank& r) {
          Later later{TUTTI_ESTIMATE_INITIALIZER, 42};
          later.known.size = sizeof later;
          RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallBroadcast, 1, tuttiInt8, tuttiSum, 0, &later.known));
          RANK_CHECK(later.unknown == 42);
          RANK_CHECK(later.known.size == sizeof later);
          RANK_CHECK(later.known.algorithm != nullptr);
          return std::string();
        }) == "");
}

// Of each form the root has another side's counts than the others, or alone has any.
TEST_CASE("v forms in a group that is only simulated take the time of their largest block") {
  CHECK(onRanks(3, [](const Rank& r) -> std::string {
          const size_t counts[] = {1000, 50, 3000}, displs[] = {0, 1000, 1050};
          std::vector<float> one(3000), all(4050);
          const size_t own = counts[r.rank];
          for (const int call : {tuttiCallGatherv, tuttiCallScatterv, tuttiCallAllGatherv, tuttiCallReduceScatterv}) {
            RANK_TRY(tuttiGroupStart());
            if (call == tuttiCallGatherv) {
              RANK_TRY(tuttiGatherv(one.data(), own, all.data(), counts, displs, tuttiFloat, 2, r.comm, nullptr));
            } else if (call == tuttiCallScatterv) {
              RANK_TRY(tuttiScatterv(all.data(), counts, displs, one.data(), own, tuttiFloat, 2, r.comm, nullptr));
            } else if (call == tuttiCallAllGatherv) {
              RANK_TRY(tuttiAllGatherv(one.data(), own, all.data(), counts, displs, tuttiFloat, r.comm, nullptr));
            } else {
              RANK_TRY(
                  tuttiReduceScatterv(all.data(), one.data(), counts, displs, tuttiFloat, tuttiSum, r.comm, nullptr));
            }
            double us = -1;
            RANK_TRY(tuttiGroupSimulateEnd(&us));
            const bool knowsLargest = r.rank == 2 || call == tuttiCallAllGatherv || call == tuttiCallReduceScatterv;
            tuttiEstimate_t e;
            RANK_TRY(ask(r, call, knowsLargest ? 3000 : own, &e, 2));
            if (us != e.timeUs) return std::to_string(call) + ": " + std::to_string(us) + " us, not " + text(e);
          }
          return "";
        }) == "");
}
