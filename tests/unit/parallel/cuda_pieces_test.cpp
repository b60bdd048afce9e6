// Layers that move CUDA memory through the host: pieces of tensors, the parameter server, sums of plain pointers.
#include <catch2/catch.hpp>

#include "tests/support/temp_folder.hpp"
#include "tests/unit/parallel/cuda_support.hpp"
#include "tutti/parallel/ft.h"
#include "tutti/parallel/ps.h"
#include "tutti/parallel/sums.h"

using namespace tutti;
using namespace tutti::test;

namespace {

constexpr int64_t kPieceRows = 7, kPieceColumns = 5;

void keep(Place& place, const tuttiTensor_t& t, Results* results) {
  const std::vector<float> part = place.read(t);
  results->insert(results->end(), part.begin(), part.end());
}

/// This rank's rows of the whole matrix, cut evenly or (turned) in the other order of ranks.
tuttiPiece_t pieceOf(const Rank& r, bool turned, void* data) {
  const int rank = turned ? r.nRanks - 1 - r.rank : r.rank;
  tuttiPiece_t p = tuttiPieceOf("w", tuttiFloat32, kPieceRows, kPieceColumns, data);
  p.row0 = kPieceRows * rank / r.nRanks;
  p.row1 = kPieceRows * (rank + 1) / r.nRanks;
  p.end = (p.row1 - p.row0) * kPieceColumns;
  return p;
}
/// Its data: rows of numbers, or zeros.
tuttiTensor_t dataOf(Place& place, const tuttiPiece_t& piece, bool filled) {
  return filled ? heldPart(place, kPieceRows, kPieceColumns, 3, true, piece.row0, piece.row1)
                : held(place, piece.row1 - piece.row0, kPieceColumns, 0);
}
tuttiPiece_t withData(tuttiPiece_t piece, const tuttiTensor_t& data) {
  piece.data = data.data;
  return piece;
}

std::string runPieces(const std::string& folder, const Rank& r, Place& place, Results* results) {
  const tuttiPiece_t shape = pieceOf(r, false, nullptr), other = pieceOf(r, true, nullptr);
  const tuttiTensor_t mine = dataOf(place, shape, true);
  const tuttiPiece_t have = withData(shape, mine);
  uint64_t moved = 0;
  const tuttiTensor_t turned = dataOf(place, other, false);
  const tuttiPiece_t want = withData(other, turned);
  LAYER_TRY(tuttiReshard(r.comm, &have, 1, &want, 1, &moved));
  keep(place, turned, results);
  results->push_back(static_cast<float>(moved));

  const tuttiTensor_t loaded = dataOf(place, other, false);
  const tuttiPiece_t from = withData(other, loaded);
  int64_t step = -1;
  LAYER_TRY(tuttiCheckpointSave(r.comm, folder.c_str(), place.onHost() ? 1 : 2, &have, 1));
  LAYER_TRY(tuttiCheckpointLoad(r.comm, folder.c_str(), &step, &from, 1));
  RANK_CHECK(step == (place.onHost() ? 1 : 2));
  keep(place, loaded, results);

  const tuttiTensor_t same = held(place, 2, 3, 9), odd = held(place, 2, 3, r.rank == 1 ? 8 : 9);
  const tuttiPiece_t replica = tuttiPieceOf("r", tuttiFloat32, 2, 3, same.data);
  const tuttiPiece_t broken = tuttiPieceOf("r", tuttiFloat32, 2, 3, odd.data);
  LAYER_TRY(tuttiReplicaCheck(r.comm, &replica, 1));
  RANK_CHECK(tuttiReplicaCheck(r.comm, &broken, 1) == tuttiInvalidUsage);
  RANK_CHECK(std::string(tuttiParallelGetLastError()).find("rank 1 is not like the others") != std::string::npos);

  tuttiMirror_t mirror = nullptr;
  LAYER_TRY(tuttiMirrorCreate(&mirror, r.comm, &have, 1));
  LAYER_TRY(tuttiMirrorUpdate(mirror, 5));
  LAYER_TRY(tuttiMirrorUpdate(mirror, 6));
  const tuttiTensor_t restored = dataOf(place, other, false);
  const tuttiPiece_t back = withData(other, restored);
  LAYER_TRY(tuttiMirrorRestore(mirror, r.comm, &back, 1, &step));
  RANK_CHECK(step == 6);
  keep(place, restored, results);
  LAYER_TRY(tuttiMirrorDestroy(mirror));

  tuttiPace_t pace = nullptr;
  LAYER_TRY(tuttiPaceCreate(&pace, r.comm, nullptr));
  LAYER_TRY(tuttiPaceStep(pace, r.rank == 0 ? 30 : 10, 1));
  std::vector<int64_t> shares(static_cast<size_t>(r.nRanks) + 1);
  LAYER_TRY(tuttiPaceShares(pace, 70, shares.data(), nullptr, nullptr));
  RANK_CHECK(shares[1] == 10);
  LAYER_TRY(tuttiPaceDestroy(pace));
  return "";
}

std::string runSums(const Rank& r, Place& place, Results* results) {
  const int64_t leafCuts[] = {0, 2, 5, 6}, sliceCuts[] = {0, 4, 4, 9};
  const int64_t mine = leafCuts[r.rank + 1] - leafCuts[r.rank], slice = sliceCuts[r.rank + 1] - sliceCuts[r.rank];
  const tuttiTensor_t leaves = heldPart(place, 6, 9, 5, true, leafCuts[r.rank], leafCuts[r.rank + 1]);
  const tuttiTensor_t all = held(place, 1, 9, 0), part = held(place, 1, slice, 0);
  RANK_CHECK(leaves.shape[0] == mine);
  LAYER_TRY(tuttiTreeAllReduce(leaves.data, all.data, 9, tuttiFloat32, leafCuts, r.comm));
  LAYER_TRY(tuttiTreeReduceScatter(leaves.data, part.data, tuttiFloat32, leafCuts, sliceCuts, r.comm));
  keep(place, all, results);
  keep(place, part, results);
  return "";
}

/// Two workers and a server, which computes on the host: a dense parameter, and a table of which rows are touched.
std::string runServer(const Rank& r, Place& place, Results* results) {
  const tuttiTensor_t dense = held(place, 3, 4, 1), table = held(place, 6, 2, 2);
  const tuttiParameter_t parameters[] = {{"dense", dense, 0}, {"table", table, TUTTI_PARAMETER_SPARSE}};
  tuttiPsConfig_t c = TUTTI_PS_CONFIG_INITIALIZER;
  c.optimizer.kind = tuttiMomentum;
  c.optimizer.learningRate = 0.1;
  tuttiPs_t ps = nullptr;
  LAYER_TRY(tuttiPsCreate(&ps, r.comm, parameters, 2, &c));
  int server = 0;
  LAYER_TRY(tuttiPsIsServer(ps, &server));
  RANK_CHECK(server == (r.rank == 2));
  if (server != 0) {
    LAYER_TRY(tuttiPsServe(ps));
    return tuttiPsDestroy(ps) == tuttiSuccess ? "" : tuttiParallelGetLastError();
  }
  const int64_t rows[] = {r.rank, 3 + r.rank};
  for (uint64_t step = 0; step < 3; ++step) {
    LAYER_TRY(tuttiPsPull(ps));
    LAYER_TRY(tuttiPsPullRows(ps, 1, rows, 2));
    const uint64_t seed = 10 * step + static_cast<uint64_t>(r.rank) + 1;
    const tuttiTensor_t gradients[] = {held(place, 3, 4, seed), table};
    LAYER_TRY(tuttiPsPushRows(ps, 1, rows, 2, held(place, 2, 2, seed + 5).data));
    LAYER_TRY(tuttiPsPush(ps, gradients));
  }
  LAYER_TRY(tuttiPsPull(ps));
  LAYER_TRY(tuttiPsPullRows(ps, 1, rows, 2));
  keep(place, dense, results);
  keep(place, table, results);
  const std::vector<float> before = numbers<float>(12, 1);
  RANK_CHECK(apart(place.read(dense), before) > 1e-3);
  return tuttiPsDestroy(ps) == tuttiSuccess ? "" : tuttiParallelGetLastError();
}

void sameThroughHost(const Pass& pass) {
  resetDriver("devices=2;delay=20");
  std::vector<Results> host, device;
  CHECK(runPass(3, 0, pass, &host) == "");
  CHECK(runPass(3, hasDevices(2) ? 2 : 1, pass, &device) == "");
  for (size_t r = 0; r < host.size(); ++r) CHECK(device[r] == host[r]);
  CHECK(driverComplaints() == "");
}

}  // namespace

TEST_CASE("pieces in CUDA memory are resharded, saved, compared and mirrored as the host's") {
  const TempFolder folder;
  sameThroughHost(
      [&](const Rank& r, Place& place, Results* results) { return runPieces(folder.path(), r, place, results); });
  // What a device wrote loads on the host, at another rank count.
  int64_t step = 2;
  std::vector<float> whole(static_cast<size_t>(kPieceRows * kPieceColumns));
  const tuttiPiece_t piece = tuttiPieceOf("w", tuttiFloat32, kPieceRows, kPieceColumns, whole.data());
  CHECK(tuttiCheckpointLoad(nullptr, folder.path().c_str(), &step, &piece, 1) == tuttiSuccess);
  CHECK(whole == numbers<float>(whole.size(), 3));
}

TEST_CASE("sums along the tree of plain pointers are the host's bits in CUDA memory") { sameThroughHost(runSums); }

TEST_CASE("workers of a parameter server compute on CUDA devices, and end with the host's bits") {
  sameThroughHost(runServer);
}
