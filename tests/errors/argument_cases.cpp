#include <cstdint>
#include <cstring>

#include "tests/errors/cases.hpp"
#include "tests/support/ranks.hpp"

namespace tutti::errors {
namespace {

/// A value that the type does not have; a constant would be refused by the compiler.
template <class Enum>
Enum outside(int number) {
  volatile int hidden = number;
  return static_cast<Enum>(hidden);
}

/// Buffers and the communicator that a call with one wrong argument takes its right ones from.
struct Right {
  tuttiComm_t comm;
  float x[8] = {1, 2, 3, 4}, y[8] = {};
  size_t counts[2] = {1, 1}, displs[2] = {0, 1};
};

void addCollectives(Cases* cases, Right* r) {
  auto& [comm, x, y, counts, displs] = *r;
  const auto f = tuttiFloat32;
  cases->add("sendbuff-null", tuttiAllReduce(nullptr, y, 1, f, tuttiSum, comm, nullptr));
  cases->add("recvbuff-null", tuttiAllReduce(x, nullptr, 1, f, tuttiSum, comm, nullptr));
  cases->add("dtype-unknown", tuttiAllReduce(x, y, 1, outside<tuttiDataType_t>(15), tuttiSum, comm, nullptr));
  cases->add("op-unknown", tuttiAllReduce(x, y, 1, f, outside<tuttiRedOp_t>(99), comm, nullptr));
  cases->add("op-negative", tuttiAllReduce(x, y, 1, f, outside<tuttiRedOp_t>(-1), comm, nullptr));
  cases->add("op-not-for-dtype", tuttiAllReduce(x, y, 1, f, tuttiBand, comm, nullptr));
  cases->add("root-out-of-range", tuttiBroadcast(x, y, 1, f, 2, comm, nullptr));
  cases->add("peer-out-of-range", tuttiSend(x, 1, f, -1, comm, nullptr));
  cases->add("count-too-large", tuttiAllReduce(x, y, SIZE_MAX / 2, f, tuttiSum, comm, nullptr));
  cases->add("buffers-overlap", tuttiAllReduce(x, x + 1, 3, f, tuttiSum, comm, nullptr));
  cases->add("allgather-overlap", tuttiAllGather(x + 1, x, 2, f, comm, nullptr));
  const size_t two[2] = {2, 1};
  cases->add("own-counts-differ", tuttiAllToAllv(x, two, displs, y, counts, displs, f, comm, nullptr));
  const size_t same[2] = {0, 0};
  cases->add("blocks-overlap", tuttiAllToAllv(x, counts, displs, y, counts, same, f, comm, nullptr));
  cases->add("counts-null", tuttiAllToAllv(x, nullptr, displs, y, counts, displs, f, comm, nullptr));
  cases->add("in-place-counts-differ", tuttiAllToAllv(x, counts, displs, x, counts, same, f, comm, nullptr));
  cases->add("sendcount-differs", tuttiAllGatherv(x, 3, y, counts, displs, f, comm, nullptr));
  cases->add("root-sendcount-differs", tuttiGatherv(x, 3, y, counts, displs, f, 0, comm, nullptr));
  cases->add("root-recvcount-differs", tuttiScatterv(x, counts, displs, y, 3, f, 0, comm, nullptr));
}

void addOperators(Cases* cases, Right* r) {
  tuttiRedOp_t op = tuttiSum;
  float scalar = 2;
  cases->add("op-destroy-built-in", tuttiRedOpDestroy(tuttiSum, r->comm));
  cases->add("op-destroy-unknown", tuttiRedOpDestroy(outside<tuttiRedOp_t>(77), r->comm));
  cases->add("op-function-null", tuttiRedOpCreate(&op, nullptr, 1, nullptr, r->comm));
  cases->add("premulsum-bool", tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiBool, tuttiScalarHostImmediate, r->comm));
  cases->add("premulsum-residence",
             tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, outside<tuttiScalarResidence_t>(7), r->comm));
  if (tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat32, tuttiScalarHostImmediate, r->comm) != tuttiSuccess) return;
  cases->add("premulsum-other-dtype", tuttiAllReduce(r->x, r->y, 1, tuttiInt32, op, r->comm, nullptr));
  (void)tuttiRedOpDestroy(op, r->comm);
}

void addCommunicators(Cases* cases, Right* r) {
  tuttiComm_t other = nullptr;
  const int self = 0, far = 9;
  cases->add("split-color", tuttiCommSplit(r->comm, -5, 0, &other, nullptr));
  cases->add("shrink-count", tuttiCommShrink(r->comm, nullptr, -1, &other, nullptr, TUTTI_SHRINK_DEFAULT));
  cases->add("shrink-flags", tuttiCommShrink(r->comm, nullptr, 0, &other, nullptr, 7));
  cases->add("shrink-self", tuttiCommShrink(r->comm, &self, 1, &other, nullptr, TUTTI_SHRINK_DEFAULT));
  cases->add("shrink-unknown", tuttiCommShrink(r->comm, &far, 1, &other, nullptr, TUTTI_SHRINK_DEFAULT));
  cases->add("grow-rank", tuttiCommGrow(r->comm, 3, nullptr, 1, &other, nullptr));
  cases->add("grow-size", tuttiCommGrow(r->comm, 2, nullptr, -1, &other, nullptr));
  cases->add("revoke-flags", tuttiCommRevoke(r->comm, 3));
  cases->add("timeout-negative", tuttiCommSetTimeout(r->comm, -1));
  cases->add("deregister-unknown", tuttiCommDeregister(r->comm, r->x));
  tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
  cases->add("estimate-call",
             tuttiCommEstimate(r->comm, outside<tuttiCall_t>(99), 1, tuttiFloat32, tuttiSum, 0, &estimate));
  estimate.size = 4;
  cases->add("estimate-size", tuttiCommEstimate(r->comm, tuttiCallAllReduce, 1, tuttiFloat32, tuttiSum, 0, &estimate));
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeoutMs = -5;
  cases->add("config-timeout", tuttiCommSplit(r->comm, 0, 0, &other, &config));
  config = TUTTI_CONFIG_INITIALIZER;
  config.netName = "pigeon";
  cases->add("config-net-name", tuttiCommSplit(r->comm, 0, 0, &other, &config));
  config = TUTTI_CONFIG_INITIALIZER;
  config.transports = "shm,pigeon";
  cases->add("config-transports", tuttiCommSplit(r->comm, 0, 0, &other, &config));
  config = TUTTI_CONFIG_INITIALIZER;
  config.magic = 0;
  cases->add("config-magic", tuttiCommSplit(r->comm, 0, 0, &other, &config));
  config = TUTTI_CONFIG_INITIALIZER;
  config.size = 8;
  cases->add("config-size", tuttiCommSplit(r->comm, 0, 0, &other, &config));
}

void addIds(Cases* cases) {
  tuttiUniqueId id;
  tuttiComm_t comm = nullptr;
  std::memset(&id, 0, sizeof id);
  cases->add("id-zero", tuttiCommInitRank(&comm, 2, id, 1));
  std::memset(&id, 'x', sizeof id);
  cases->add("id-foreign", tuttiCommInitRank(&comm, 2, id, 1));
  cases->add("ranks-zero", tuttiCommInitRank(&comm, 0, id, 0));
  cases->add("rank-out-of-range", tuttiCommInitRank(&comm, 2, id, 5));
  cases->add("devices-zero", tuttiCommInitAll(&comm, 0, nullptr));
  cases->add("address-malformed", tuttiGetUniqueIdAt("nowhere", 0, &id));
  cases->add("address-port", tuttiGetUniqueIdAt("127.0.0.1:99999", 0, &id));
  cases->add("address-serve", tuttiGetUniqueIdAt("127.0.0.1:4021", 2, &id));
}

}  // namespace

void addProcessCases(Cases* cases) {
  addIds(cases);
  int number = 0;
  cases->add("version-null", tuttiGetVersion(nullptr));
  cases->add("comm-null", tuttiCommCount(nullptr, &number));
  cases->add("group-end", tuttiGroupEnd());
  double timeUs = 0;
  cases->add("group-simulate-end", tuttiGroupSimulateEnd(&timeUs));
  cases->add("free-foreign", tuttiMemFree(&number));
  cases->add("default-unknown", tuttiSetDefault("TUTTI_ALGOS", "ring"));
  cases->add("default-value", tuttiSetDefault("TUTTI_NCHANNELS", "many"));
  cases->add("default-range", tuttiSetDefault("TUTTI_NCHANNELS", "900"));
  cases->add("default-algorithm", tuttiSetDefault("TUTTI_ALGO", "allreduce:rng"));
  cases->add("default-log", tuttiSetDefault("TUTTI_LOG", "loud"));
  cases->add("default-environment-only", tuttiSetDefault("TUTTI_UNIQUE_ID", "00"));
  tuttiStream_t stream = nullptr;
  if (tuttiStreamCreate(&stream) != tuttiSuccess || tuttiStreamDestroy(stream) != tuttiSuccess) return;
  cases->add("stream-destroyed", tuttiStreamSynchronize(stream));
}

void addArgumentCases(Cases* cases) {
  const std::string trouble = test::onRanks(2, [&](const test::Rank& rank) {
    if (rank.rank != 0) return std::string();
    Right right{rank.comm};
    addCollectives(cases, &right);
    addOperators(cases, &right);
    addCommunicators(cases, &right);
    return std::string();
  });
  if (!trouble.empty()) cases->addText("wrong arguments", trouble);
}

}  // namespace tutti::errors
