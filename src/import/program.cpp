#include "src/import/program.hpp"

namespace tutti::foreign {
namespace {

/// The only rank that has the buffer which only a root has.
Result<int> findRoot(const std::vector<ChunkCounts>& counts, Collective collective) {
  int root = -1;
  for (size_t r = 0; r < counts.size(); ++r) {
    if ((startsAtRoot(collective) ? counts[r].input : counts[r].output) == 0) continue;
    if (root >= 0) {
      return invalidArgument(ErrorCode::PlanMalformed, "cannot tell the root: ranks ", root, " and ", r, " both have ",
                             startsAtRoot(collective) ? "input" : "output",
                             " chunks, and no attribute root says which");
    }
    root = static_cast<int>(r);
  }
  if (root < 0)
    return invalidArgument(ErrorCode::PlanMalformed, "cannot tell the root: no rank has ",
                           startsAtRoot(collective) ? "in" : "out", "put");
  return root;
}

Status agree(int declared, int units, const char* what, size_t rank, int* blockChunks) {
  if (declared == 0 || units == 0) return {};  // in place, one of the two buffers may stand for both
  if (declared % units != 0) {
    return invalidArgument(ErrorCode::PlanMalformed, "gpu ", rank, " has ", declared, " ", what,
                           " chunks, which is not a multiple of ", units);
  }
  if (*blockChunks == 0) *blockChunks = declared / units;
  if (*blockChunks * units == declared) return {};
  return invalidArgument(ErrorCode::PlanMalformed, "gpu ", rank, " has ", declared, " ", what,
                         " chunks, where other buffers make it ", *blockChunks * units);
}

}  // namespace

Status setChunks(const std::vector<ChunkCounts>& counts, int root, Program* program) {
  const Collective c = program->collective;
  program->root = root < 0 ? 0 : root;
  if (root < 0 && isRooted(c)) {
    TUTTI_ASSIGN(program->root, findRoot(counts, c));
  }
  int blockChunks = 0;
  program->scratchChunks.clear();
  for (size_t r = 0; r < counts.size(); ++r) {
    const int rank = static_cast<int>(r), nRanks = program->nRanks;
    TUTTI_TRY(agree(counts[r].input, inputChunks(c, rank, program->root, nRanks), "input", r, &blockChunks));
    TUTTI_TRY(agree(counts[r].output, outputChunks(c, rank, program->root, nRanks), "output", r, &blockChunks));
    program->scratchChunks.push_back(counts[r].scratch);
  }
  if (blockChunks == 0) return invalidArgument(ErrorCode::PlanMalformed, "no rank has input or output chunks");
  program->blockChunks = blockChunks;
  return {};
}

}  // namespace tutti::foreign
