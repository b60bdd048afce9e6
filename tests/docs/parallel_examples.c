/* What stands around the examples of docs/parallel: each block of a page is included where its number is, with every
 * call of the library checked.  Four ranks; each page looks at what its example made. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/parallel/dp.h"
#include "tutti/parallel/ep.h"
#include "tutti/parallel/ft.h"
#include "tutti/parallel/grid.h"
#include "tutti/parallel/kernels.h"
#include "tutti/parallel/planner.h"
#include "tutti/parallel/pp.h"
#include "tutti/parallel/ps.h"
#include "tutti/parallel/sp.h"
#include "tutti/parallel/sums.h"
#include "tutti/parallel/tp.h"
#include "tutti/parallel/zero.h"

static tuttiResult_t must(tuttiResult_t result, const char* what) {
  if (result == tuttiSuccess) return result;
  fprintf(stderr, "%s gave %d: %s\n", what, result, tuttiParallelGetLastError());
  exit(1);
}
static void hold(int holds, const char* what, int line) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s at line %d\n", what, line);
  exit(1);
}
#define HOLD(condition) hold((condition), #condition, __LINE__)
#include <checked.h>

enum { n = 2, nUnits = 2, kRows = 6, kColumns = 4, kSize = kRows * kColumns };
static int rank, nRanks;
static tuttiComm_t comm, world;
static float values[n][kSize], gradientData[n][kSize];
static tuttiParameter_t parameters[n];
static int units[n] = {0, 1};
static tuttiDdp_t ddp;
static tuttiZero_t zero, next;

static float* numbers(size_t count, float x) {
  float* data = malloc((count + 1) * sizeof(float));
  for (size_t i = 0; i < count; ++i) data[i] = x + 0.01f * (float)(i % 7);
  return data;
}
static tuttiTensor_t matrix(int64_t rows, int64_t columns, float x) {
  return tuttiMatrixOf(numbers((size_t)(rows * columns), x), tuttiFloat32, rows, columns, columns);
}
static float first(tuttiTensor_t t) { return *(const float*)t.data; }
static void reset(void) {
  static const char* const names[n] = {"a", "b"};
  for (int p = 0; p < n; ++p) {
    for (int i = 0; i < kSize; ++i) values[p][i] = 1;
    const tuttiParameter_t parameter = {names[p], tuttiMatrixOf(values[p], tuttiFloat32, kRows, kColumns, kColumns), 0};
    parameters[p] = parameter;
  }
}

/* ---- dp.md --------------------------------------------------------------------------------------------------- */
static void dpForward(int m) { (void)m; }
static void dpBackward(int m, size_t p, void* gradient) {
  for (int i = 0; i < kSize; ++i) ((float*)gradient)[i] += (float)(rank + m) + (float)p;
}
static void dp(void) {
#define forward(m) dpForward(m)
#define backward(m, p, gradient) dpBackward(m, p, gradient)
#include <dp_1.inc>
#undef forward
#undef backward
  tuttiTensor_t g;
  tuttiDdpGradient(ddp, 1, &g);
  HOLD(first(g) == 1.5f + 0.5f + 1);
  tuttiDdpDestroy(ddp);
}

/* ---- zero.md ------------------------------------------------------------------------------------------------- */
static void zeroForward(int u) {
  tuttiTensor_t v;
  tuttiZeroValue(zero, (size_t)u, &v);
  HOLD(first(v) == 1);
}
static void zeroBackward(int u) {
  tuttiTensor_t g;
  tuttiZeroGradient(zero, (size_t)u, &g);
  for (int i = 0; i < kSize; ++i) ((float*)g.data)[i] += 1;
  tuttiZeroGradReady(zero, (size_t)u);
}
static void zeroStages(void) {
#define forward(u) zeroForward(u)
#define backward(u) zeroBackward(u)
#include <zero_1.inc>
#undef forward
#undef backward
  HOLD(fabs(norm - sqrt(n * kSize)) < 1e-6);
  tuttiZeroDestroy(zero);
}

/* ---- README.md: the ranks here compute on the host, so CUDA memory is refused, by a sentence -------------------- */
static void onCuda(void) {
  void *stream = NULL, *weights = values[0];
  const int64_t rows = kRows, columns = kColumns;
  tuttiZeroConfig_t config = TUTTI_ZERO_CONFIG_INITIALIZER;
#pragma push_macro("tuttiZeroCreate")
#undef tuttiZeroCreate
#include <README_1.inc>
#pragma pop_macro("tuttiZeroCreate")
  HOLD(zero == NULL && strstr(tuttiParallelGetLastError(), "the memory of a CUDA device") != NULL);
}

/* ---- tp.md --------------------------------------------------------------------------------------------------- */
static void tensors(void) {
  const int64_t h = 8, tokens = 3, here = 4 * h / nRanks;
  tuttiLinear_t a, b;
  tuttiTensor_t x = matrix(tokens, h, 1), w1 = matrix(here, h, 0.1f),
                b1 = tuttiVectorOf(numbers(32, 0), tuttiFloat32, here);
  tuttiTensor_t hidden = matrix(tokens, here, 0), hidden2 = matrix(tokens, here, 0), w2 = matrix(h, here, 0.1f);
  tuttiTensor_t b2 = tuttiVectorOf(numbers(32, 0), tuttiFloat32, h), y = matrix(tokens, h, 0);
#include <tp_1.inc>
  HOLD(first(y) > first(b2));
  tuttiLinearDestroy(a);
  tuttiLinearDestroy(b);
  tuttiTpDestroy(tp);
}

static void otherTokens(void) {
  static const int64_t own[] = {20, 16, 14, 14}, leaves[] = {8, 8, 7, 7};
  const int64_t h = 8;
  tuttiTp_t tp;
  tuttiComm_t others = comm;
  tuttiTensor_t x = matrix(own[rank], h, 1), dy = matrix(own[rank], h, 1), dx = matrix(own[rank], h, 0);
  tuttiTensor_t gammaLeaves = matrix(leaves[rank], h, 0), betaLeaves = matrix(leaves[rank], h, 0);
  float zeros[3][8] = {{0}};
  tuttiTensor_t gamma = tuttiVectorOf(zeros[0], tuttiFloat32, h), dgamma = tuttiVectorOf(zeros[1], tuttiFloat32, h);
  tuttiTensor_t dbeta = tuttiVectorOf(zeros[2], tuttiFloat32, h);
#include <tp_2.inc>
  HOLD(cuts[4] == 64 && nLeaves == leaves[rank] && zeros[2][0] > 64); /* the sum of 64 rows of at least 1 */
  tuttiTpDestroy(tp);
}

/* ---- pp.md --------------------------------------------------------------------------------------------------- */
enum { tokens = 3, width = 4 };
static int passed;
static tuttiResult_t forward(void* model, int stage, int micro, const void* in, void* out) {
  (void)model;
  for (int i = 0; i < tokens * width && out != NULL; ++i) {
    ((float*)out)[i] = in == NULL ? (float)micro : ((const float*)in)[i] + (float)stage;
  }
  passed += out != NULL || *(const float*)in == (float)(micro + 3); /* the sum of the stages before the last */
  return tuttiSuccess;
}
static tuttiResult_t backward(void* model, int stage, int micro, const void* dout, void* din, int weights) {
  (void)model, (void)stage, (void)micro, (void)weights;
  for (int i = 0; i < tokens * width && din != NULL; ++i) {
    ((float*)din)[i] = dout == NULL ? 1 : ((const float*)dout)[i];
  }
  return tuttiSuccess;
}
static void pipelines(void) {
  const int microBatches = 5;
  void* model = NULL;
  tuttiPipeline_t pipeline;
#include <pp_1.inc>
  HOLD(passed == microBatches && fabs(s.bubbleOverTotal - 3.0 / 8) < 1e-9);
  tuttiPipelineDestroy(pipeline);
  tuttiScheduleDestroy(schedule);
}

/* ---- sp.md --------------------------------------------------------------------------------------------------- */
static void sequences(void) {
  tuttiSp_t sp;
  tuttiComm_t ulyssesGroup = NULL, ringGroup = comm;
  size_t elements;
  tuttiTensor_t q = matrix(96, 64, 0.1f), k = matrix(96, 16, 0.2f), v = matrix(96, 16, 0.3f), out = matrix(96, 64, 0);
  tuttiTensor_t dout = matrix(96, 64, 1), dq = matrix(96, 64, 0), dk = matrix(96, 16, 0), dv = matrix(96, 16, 0);
#include <sp_1.inc>
  double balance = 0;
  tuttiSpBalance(sp, &balance);
  HOLD(balance > 0.95 && first(out) > 0.29f && first(dv) > 0);
  tuttiSpDestroy(sp);
}

/* ---- ep.md --------------------------------------------------------------------------------------------------- */
static int64_t epRows;
static void epExperts(tuttiTensor_t rows, const int64_t* perExpert) {
  epRows = perExpert[0] + perExpert[1];
  HOLD(epRows == rows.shape[0]);
}
static void tokensToExperts(void) {
  enum { kTokens = 5, kChoices = 2 };
  tuttiEp_t ep;
  int32_t chosen[kTokens * kChoices];
  for (int i = 0; i < kTokens * kChoices; ++i) chosen[i] = (rank + i) % 8;
  const tuttiTensor_t ids = tuttiMatrixOf(chosen, tuttiInt32, kTokens, kChoices, kChoices);
  int64_t received, perExpert[8];
  tuttiTensor_t x = matrix(kTokens, width, 1), out = matrix(kTokens, width, 0), dout = matrix(kTokens, width, 1);
  tuttiTensor_t y = matrix(40, width, 0), dy = matrix(40, width, 0), dx = matrix(kTokens, width, 0);
  tuttiTensor_t weights = matrix(kTokens, kChoices, 0.5f), dweights = matrix(kTokens, kChoices, 0);
  float kept[kTokens * kChoices * width];
#define experts(rows, perExpert) epExperts(rows, perExpert)
#define expertsBackward(rows, perExpert) epExperts(rows, perExpert)
#include <ep_1.inc>
#undef experts
#undef expertsBackward
  HOLD(fabsf(first(out) - first(dx)) < 1e-6f && epRows == received); /* experts that change nothing */
  tuttiEpDestroy(ep);
}

/* ---- ps.md --------------------------------------------------------------------------------------------------- */
static void computeGradients(const tuttiTensor_t* gradients, float* rowGradients) {
  for (int i = 0; i < kSize; ++i) ((float*)gradients[0].data)[i] = 1;
  for (int i = 0; i < 2 * kColumns; ++i) rowGradients[i] = 1;
}
static void servers(void) {
  const int steps = 3;
  const size_t table = 1;
  const int64_t rows[] = {1, 4}, nRows = 2;
  float rowGradients[2 * kColumns];
  tuttiTensor_t gradients[n];
  int server;
  tuttiPs_t ps;
  for (int p = 0; p < n; ++p) gradients[p] = tuttiMatrixOf(gradientData[p], tuttiFloat32, kRows, kColumns, kColumns);
  parameters[table].flags = TUTTI_PARAMETER_SPARSE;
#include <ps_1.inc>
  HOLD(server || (values[0][0] < 1 && values[table][kColumns] < 1 && values[table][0] == 1));
}

/* ---- grid.md, invariant.md, planner.md ------------------------------------------------------------------------ */
static void grids(void) {
#include <grid_1.inc>
  int count = 0;
  tuttiCommCount(tp, &count);
  HOLD(count == 2);
  tuttiGridDestroy(grid);
}
static void sums(void) {
#include <invariant_1.inc>
  HOLD(sum[0] == 28 && sum[2] == 28);
}
static void plans(void) {
#include <planner_1.inc>
  HOLD(count > 10 && plans[0].fits && plans[0].layout.dp == 8);
}

/* ---- ft.md: three ranks, then two ----------------------------------------------------------------------------- */
static size_t piecesOf(tuttiZero_t handle, tuttiPiece_t* pieces) {
  static const char* const names[3][n] = {{"a", "b"}, {"a.m", "b.m"}, {"a.v", "b.v"}};
  for (int i = 0; i < 3 * n; ++i) {
    int64_t begin, end;
    tuttiTensor_t view;
    tuttiZeroOwned(handle, (size_t)(i % n), &begin, &end, &view);
    if (i >= n) tuttiZeroOwnedState(handle, (size_t)(i % n), i / n - 1, &view);
    pieces[i] = tuttiPieceOf(names[i / n][i % n], tuttiFloat32, kRows, kColumns, view.data);
    pieces[i].begin = begin;
    pieces[i].end = end;
  }
  return 3 * n;
}
static void trainOnce(void) {
  tuttiZeroBegin(zero);
  for (size_t p = n; p-- > 0;) {
    tuttiTensor_t g;
    tuttiZeroGradient(zero, p, &g);
    for (int i = 0; i < kSize; ++i) ((float*)g.data)[i] += 1;
    tuttiZeroGradReady(zero, p);
  }
}
static void comeAndGo(void) {
  const int leavers[] = {2}, dead = 2;
  tuttiComm_t fewer = NULL, left;
  tuttiMirror_t mirror;
  tuttiPiece_t have[3 * n], want[3 * n];
  size_t nHave, nWant = 0;
  uint64_t moved;
  int64_t step, steps = 1;
  tuttiZeroConfig_t config = TUTTI_ZERO_CONFIG_INITIALIZER;
  tuttiZeroCreate(&zero, comm, parameters, NULL, n, &config);
  trainOnce();
  tuttiZeroStep(zero, NULL);
  nHave = piecesOf(zero, have);
  tuttiMirrorCreate(&mirror, comm, have, nHave);
#include <ft_1.inc>
  HOLD(rank == 0 ? *(const float*)want[0].data == *(const float*)have[0].data : moved > 0);
  trainOnce();
#include <ft_2.inc> /* nobody died: compiled, and passed by */
  tuttiMirrorDestroy(mirror);
  tuttiZeroDestroy(zero);
  if (rank < 2) tuttiZeroDestroy(next), tuttiCommDestroy(fewer);
}

int main(void) {
  must(tuttiCommInitEnv(&world, NULL), "tuttiCommInitEnv");
  tuttiCommUserRank(world, &rank);
  tuttiCommCount(world, &nRanks);
  comm = world;
  void (*const pages[])(void) = {dp,      zeroStages, onCuda, tensors, pipelines,  sequences, tokensToExperts,
                                 servers, grids,      sums,   plans,   otherTokens};
  for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); ++i) reset(), pages[i]();
  reset();
  must(tuttiCommSplit(world, rank < 3 ? 0 : TUTTI_SPLIT_NOCOLOR, rank, &comm, NULL), "tuttiCommSplit");
  if (rank < 3) comeAndGo(), tuttiCommDestroy(comm);
  tuttiCommDestroy(world);
  printf("all examples\n");
  return 0;
}
