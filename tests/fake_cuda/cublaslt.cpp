// A libcublasLt.so.13 for tests: products of column-major matrices in the order of the stream that they are given, on
// the memory of the driver beside it.
#include <memory>
#include <utility>

#include "src/device/cuda/abi.hpp"
#include "src/parallel/cublaslt_abi.hpp"

extern "C" int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags, void* found);

#define TUTTI_FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace tutti::fake_cublaslt {
namespace {

using namespace cublaslt;

constexpr Status kSuccessful = 0, kInvalid = 7;  // CUBLAS_STATUS_INVALID_VALUE

struct Layout {
  int type;
  int64_t rows, columns, stride;
  int32_t batch = 1;
  int64_t step = 0;
};
struct Operation {
  int compute, scale;
  int32_t transposeA = kPlain, transposeB = kPlain;
};
struct Product {
  Operation operation;
  Layout a, b, c;
  const void *left, *right;
  void* out;
  double alpha, beta;
};

template <class T>
void multiply(const Product& p) {
  const auto element = [](const void* data, const Layout& l, int32_t transpose, int64_t row, int64_t column) {
    return static_cast<const T*>(data)[transpose == kPlain ? row + column * l.stride : column + row * l.stride];
  };
  const int64_t inner = p.operation.transposeA == kPlain ? p.a.columns : p.a.rows;
  for (int64_t column = 0; column < p.c.columns; ++column) {
    for (int64_t row = 0; row < p.c.rows; ++row) {
      T sum = 0;
      for (int64_t k = inner; k-- > 0;) {  // not the order of other products
        sum += element(p.left, p.a, p.operation.transposeA, row, k) *
               element(p.right, p.b, p.operation.transposeB, k, column);
      }
      T* to = static_cast<T*>(p.out) + row + column * p.c.stride;
      *to = static_cast<T>(p.alpha) * sum + (p.beta == 0 ? T(0) : static_cast<T>(p.beta) * *to);
    }
  }
}

bool fits(const Product& p) {
  const auto rows = [](const Layout& l, int32_t transpose) { return transpose == kPlain ? l.rows : l.columns; };
  const auto columns = [](const Layout& l, int32_t transpose) { return transpose == kPlain ? l.columns : l.rows; };
  const Operation& o = p.operation;
  const bool twice = p.a.type == kFloat64;
  for (const Layout& l : {p.a, p.b, p.c}) {
    if (l.type != p.a.type || l.stride < l.rows || l.rows == 0 || l.columns == 0 || l.batch < 1 ||
        l.batch != p.c.batch) {
      return false;
    }
  }
  return o.compute == (twice ? kCompute64 : kCompute32) && o.scale == p.a.type && rows(p.a, o.transposeA) == p.c.rows &&
         columns(p.b, o.transposeB) == p.c.columns && columns(p.a, o.transposeA) == rows(p.b, o.transposeB);
}

void run(void* data) {
  const std::unique_ptr<Product> product(static_cast<Product*>(data));
  const int64_t bytes = product->a.type == kFloat64 ? sizeof(double) : sizeof(float);
  for (int32_t i = 0; i < product->c.batch; ++i) {
    Product one = *product;
    one.left = static_cast<const char*>(one.left) + i * one.a.step * bytes;
    one.right = static_cast<const char*>(one.right) + i * one.b.step * bytes;
    one.out = static_cast<char*>(one.out) + i * one.c.step * bytes;
    one.a.type == kFloat64 ? multiply<double>(one) : multiply<float>(one);
  }
}

/// Runs it when the stream comes to it.
Status enqueue(CUstream_st* stream, std::unique_ptr<Product> product) {
  void* found = nullptr;
  if (cuGetProcAddress_v2("cuLaunchHostFunc", &found, 10000, 0, nullptr) != cuda::kSuccess) return kInvalid;
  const auto launch = reinterpret_cast<cuda::Error (*)(CUstream_st*, cuda::HostFunction, void*)>(found);
  if (launch(stream, run, product.get()) != cuda::kSuccess) return kInvalid;
  product.release();  // the stream's
  return kSuccessful;
}

}  // namespace
}  // namespace tutti::fake_cublaslt

using namespace tutti::cublaslt;
using namespace tutti::fake_cublaslt;

TUTTI_FAKE_EXPORT Status cublasLtCreate(void** handle) {
  *handle = new int(0);
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtDestroy(void* handle) {
  delete static_cast<int*>(handle);
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatmulDescCreate(void** operation, int computeType, int scaleType) {
  *operation = new Operation{computeType, scaleType};
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatmulDescDestroy(void* operation) {
  delete static_cast<Operation*>(operation);
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value,
                                                        size_t bytes) {
  if (bytes != sizeof(int32_t) || (attribute != kTransposeA && attribute != kTransposeB)) return kInvalid;
  Operation& o = *static_cast<Operation*>(operation);
  (attribute == kTransposeA ? o.transposeA : o.transposeB) = *static_cast<const int32_t*>(value);
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns,
                                                    int64_t stride) {
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride};
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value,
                                                          size_t bytes) {
  Layout& l = *static_cast<Layout*>(layout);
  if (attribute == kBatchCount && bytes == sizeof l.batch) {
    l.batch = *static_cast<const int32_t*>(value);
  } else if (attribute == kBatchStep && bytes == sizeof l.step) {
    l.step = *static_cast<const int64_t*>(value);
  } else {
    return kInvalid;
  }
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return kSuccessful;
}
TUTTI_FAKE_EXPORT Status cublasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* aLayout,
                                        const void* b, void* bLayout, const void* beta, const void* c, void* cLayout,
                                        void* d, void*, const void* algorithm, void* workspace, size_t,
                                        CUstream_st* stream) {
  const auto layout = [](void* of) { return *static_cast<Layout*>(of); };
  const auto factor = [&](const void* at) {
    return layout(aLayout).type == kFloat64 ? *static_cast<const double*>(at) : *static_cast<const float*>(at);
  };
  auto product =
      std::make_unique<Product>(Product{*static_cast<Operation*>(operation), layout(aLayout), layout(bLayout),
                                        layout(cLayout), a, b, d, factor(alpha), factor(beta)});
  if (handle == nullptr || workspace == nullptr || algorithm != nullptr || c != d || !fits(*product)) return kInvalid;
  return enqueue(stream, std::move(product));
}
