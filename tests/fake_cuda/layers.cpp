// The training layers' kernels by their host builds.
#include <cstring>

#include "src/parallel/kernels/kernel_list.hpp"
#include "tests/fake_cuda/fake.hpp"

namespace tutti::fake {
namespace {

using namespace tutti::parallel::kernels;

Address at(const void* pointer) { return reinterpret_cast<Address>(pointer); }

/// Elements may be narrower than a float on one side: what kernels touch at least.
void checkCall(const VectorCall& c, int device) {
  checkRange(at(c.out), c.count, device, "result of a layer's kernel");
  if (c.in != nullptr) checkRange(at(c.in), c.count, device, "operand of a layer's kernel");
}
void checkCall(const UpdateCall& c, int device) {
  for (const void* operand : {c.values, c.first, c.second}) {
    if (operand != nullptr) checkRange(at(operand), c.count * sizeof(float), device, "operand of an update");
  }
  checkRange(at(c.gradient), c.count * sizeof(float), device, "gradient of an update");
  if (c.clip != nullptr) checkRange(at(c.clip), sizeof(double), device, "factor of an update");
}
void checkCall(const SquaresCall& c, int device) {
  checkRange(at(c.x), c.count * sizeof(float), device, "operand of a sum of squares");
  checkRange(at(c.limbs), kLimbs * sizeof(uint64_t), device, "sum of squares");
}
void checkCall(const ClipCall& c, int device) {
  checkRange(at(c.limbs), kLimbs * sizeof(uint64_t), device, "sum of squares");
  checkRange(at(c.out), 2 * sizeof(double), device, "length");
}
/// The last element of a matrix that is not empty: rows may have gaps between them.
void checkMatrix(const void* data, int64_t rows, int64_t columns, int64_t stride, int device) {
  if (rows == 0 || columns == 0) return;
  const size_t elements = static_cast<size_t>((rows - 1) * stride + columns);
  checkRange(at(data), elements * sizeof(float), device, "matrix of a layer's kernel");
}
void checkCall(const MatrixCall& c, int device) {
  checkMatrix(c.in, c.rows, c.columns, c.inStride, device);
  checkMatrix(c.out, c.outStride == 0 ? 1 : c.rows, c.columns, c.outStride, device);
}
void checkCall(const ProductCall& c, int device) {
  const int64_t last = c.batch - 1;
  if (c.k != 0) checkMatrix(c.a, 1, last * c.aStep + (c.m - 1) * c.aRow + (c.k - 1) * c.aColumn + 1, 0, device);
  if (c.k != 0) checkMatrix(c.b, 1, last * c.bStep + (c.k - 1) * c.bRow + (c.n - 1) * c.bColumn + 1, 0, device);
  checkMatrix(c.c, 1, last * c.cStep + (c.m - 1) * c.ldc + c.n, 0, device);
}
void checkCall(const GeluCall& c, int device) {
  for (const void* operand : {static_cast<const void*>(c.out), c.x, c.dy}) {
    if (operand != nullptr) checkRange(at(operand), c.count * sizeof(float), device, "operand of GELU");
  }
}
void checkCall(const NormCall& c, int device) {
  checkMatrix(c.x, c.rows, c.width, c.xStride, device);
  if (c.dy != nullptr) checkMatrix(c.dy, c.rows, c.width, c.dyStride, device);
  if (c.out != nullptr) checkMatrix(c.out, c.rows, c.width, c.outStride, device);
  if (c.out == nullptr) checkMatrix(c.statistics, c.rows, 2, 2, device);
}
void checkCall(const NormSumsCall& c, int device) {
  checkMatrix(c.x, c.rows, c.width, c.xStride, device);
  checkMatrix(c.dy, c.rows, c.width, c.dyStride, device);
  checkMatrix(c.dgamma, 1, c.width, 0, device);
  checkMatrix(c.dbeta, 1, c.width, 0, device);
}
void checkCall(const IntsCall& c, int device) {
  checkRange(at(c.out), static_cast<size_t>(c.count) * sizeof(int32_t), device, "numbers of the host");
}
void checkCall(const IndexedCall& c, int device) {
  for (const int32_t* index : {c.to, c.from}) {
    if (index != nullptr) checkMatrix(index, 1, c.rows, 0, device);
  }
  if (c.to == nullptr) checkMatrix(c.out, c.rows, c.width, c.width, device);
  if (c.from == nullptr) checkMatrix(c.in, c.rows, c.width, c.width, device);
}
void checkCall(const CombineCall& c, int device) {
  checkMatrix(c.out, c.tokens, c.width, c.width, device);
  checkMatrix(c.pairs, c.tokens * c.choices, c.width, c.width, device);
  if (c.weights != nullptr) checkMatrix(c.weights, c.tokens, c.choices, c.choices, device);
  if (c.kept != nullptr) checkMatrix(c.kept, c.tokens * c.choices, c.width, c.width, device);
  if (c.dweights != nullptr) checkMatrix(c.dweights, c.tokens, c.choices, c.choices, device);
}
void checkCall(const IdRowsCall& c, int device) {
  checkMatrix(c.ids, 1, c.count, 0, device);
  checkMatrix(c.rows, c.count, c.width, c.width, device);
  checkMatrix(c.table, c.end - c.first, c.width, c.tableStride, device);
  if (c.chain != nullptr) checkMatrix(c.chain, 2, c.count, c.count, device);
}
void checkCall(const LossCall& c, int device) {
  checkMatrix(c.logits, c.rows, c.columns, c.stride, device);
  if (c.gradient != nullptr) checkMatrix(c.gradient, c.rows, c.columns, c.gradientStride, device);
  for (const void* each : {static_cast<const void*>(c.targets), static_cast<const void*>(c.most),
                           static_cast<const void*>(c.at), static_cast<const void*>(c.loss)}) {
    checkMatrix(each, 1, c.rows, 0, device);
  }
  checkMatrix(c.sums, 1, c.rows, 0, device);
}
void checkCall(const ScoresCall& c, int device) {
  const int64_t lastQuery = c.queries - 1, lastHead = c.heads - 1;
  checkMatrix(c.scores, c.heads * c.queries, c.keys, c.keys, device);
  checkMatrix(c.lse, 1, lastQuery * c.lseRow + lastHead * c.lseHead + 1, 0, device);
  if (c.gradient == nullptr) return;
  checkMatrix(c.gradient, c.heads * c.queries, c.keys, c.keys, device);
  checkMatrix(c.out, 1, lastQuery * c.outRow + lastHead * c.outHead + c.headDim, 0, device);
  checkMatrix(c.dout, 1, lastQuery * c.doutRow + lastHead * c.doutHead + c.headDim, 0, device);
}
void checkCall(const MergeCall& c, int device) {
  for (const void* rows : {static_cast<const void*>(c.out), c.partOut}) {
    checkMatrix(rows, c.rows, c.headDim, c.headDim, device);
  }
  for (const void* lse : {static_cast<const void*>(c.lse), c.partLse}) checkMatrix(lse, 1, c.rows, 0, device);
}
void checkCall(const HashCall& c, int device) {
  checkRange(at(c.x), c.count * c.bytes, device, "operand of a hash");
  checkRange(at(c.sum), sizeof(uint64_t), device, "hash");
}

const HostKernel kLayerKernels[] = {
#define TUTTI_FAKE_LAYER(Name, Arguments, items, ...)                 \
  {"tutti_layer_" #Name, sizeof(Arguments),                           \
   [](const void* a, uint64_t me, uint64_t n) {                       \
     __VA_ARGS__(HostTeam{me, n}, *static_cast<const Arguments*>(a)); \
   },                                                                 \
   [](const void* a, int device) { checkCall(*static_cast<const Arguments*>(a), device); }},
    TUTTI_LAYER_KERNELS(TUTTI_FAKE_LAYER)};

}  // namespace

const HostKernel* findLayerKernel(const char* name) {
  for (const HostKernel& kernel : kLayerKernels) {
    if (std::strcmp(kernel.name, name) == 0) return &kernel;
  }
  return nullptr;
}

}  // namespace tutti::fake
