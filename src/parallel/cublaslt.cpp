#include "src/parallel/cublaslt.hpp"

#include <dlfcn.h>

#include "src/parallel/cublaslt_abi.hpp"

namespace tutti::parallel {
namespace {

/// The library's functions, as pointers of their names.
struct CublasLtLibrary {
#define TUTTI_CUBLASLT_MEMBER(name, parameters) cublaslt::Status(*name) parameters = nullptr;
  TUTTI_CUBLASLT_FUNCTIONS(TUTTI_CUBLASLT_MEMBER)
#undef TUTTI_CUBLASLT_MEMBER
};

CublasLtLibrary loadCublasLt() {
  void* library = nullptr;
  for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    fail(tuttiInvalidUsage, "matrix products on CUDA are cuBLASLt's (layout-invariant ones are not): there is neither ",
         "libcublasLt.so.13 nor libcublasLt.so.12: ", dlerror());
  }
  CublasLtLibrary found;
#define TUTTI_CUBLASLT_GET(name, parameters)                                  \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name)); \
  if (found.name == nullptr) fail(tuttiInvalidUsage, "the cuBLASLt that was found has no " #name);
  TUTTI_CUBLASLT_FUNCTIONS(TUTTI_CUBLASLT_GET)
#undef TUTTI_CUBLASLT_GET
  return found;
}

const CublasLtLibrary& library() {
  static const CublasLtLibrary loaded = loadCublasLt();
  return loaded;
}

void checkStatus(cublaslt::Status status, const char* what) {
  if (status != 0) fail(tuttiUnhandledCudaError, what, " gave cuBLAS status ", status);
}

/// How a stored matrix lies, for a library that knows columns only: the rows are its columns.
class Layout {
 public:
  /// One of `batch` matrices that begin `step` elements apart.
  Layout(int type, int64_t rows, int64_t columns, int64_t stride, int64_t batch, int64_t step) {
    checkStatus(library().cublasLtMatrixLayoutCreate(&layout_, type, static_cast<uint64_t>(columns),
                                                     static_cast<uint64_t>(rows), stride),
                "cublasLtMatrixLayoutCreate");
    if (batch == 1) return;
    const int32_t count = static_cast<int32_t>(batch);
    set(cublaslt::kBatchCount, &count, sizeof count);
    set(cublaslt::kBatchStep, &step, sizeof step);
  }
  ~Layout() { library().cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  void* get() const { return layout_; }

 private:
  void set(int attribute, const void* value, size_t bytes) {
    const cublaslt::Status status = library().cublasLtMatrixLayoutSetAttribute(layout_, attribute, value, bytes);
    if (status != 0) library().cublasLtMatrixLayoutDestroy(layout_);
    checkStatus(status, "cublasLtMatrixLayoutSetAttribute");
  }
  void* layout_ = nullptr;
};

class Operation {
 public:
  Operation(bool twice, bool transposeFirst, bool transposeSecond) {
    checkStatus(library().cublasLtMatmulDescCreate(&operation_, twice ? cublaslt::kCompute64 : cublaslt::kCompute32,
                                                   twice ? cublaslt::kFloat64 : cublaslt::kFloat32),
                "cublasLtMatmulDescCreate");
    set(cublaslt::kTransposeA, transposeFirst);
    set(cublaslt::kTransposeB, transposeSecond);
  }
  ~Operation() { library().cublasLtMatmulDescDestroy(operation_); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  void* get() const { return operation_; }

 private:
  void set(int attribute, bool transposed) {
    const int32_t value = transposed ? cublaslt::kTransposed : cublaslt::kPlain;
    checkStatus(library().cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
                "cublasLtMatmulDescSetAttribute");
  }
  void* operation_ = nullptr;
};

}  // namespace

std::shared_ptr<CublasLt> CublasLt::of(int ordinal) {
  static std::mutex mutex;
  static auto& made = *new std::map<int, std::weak_ptr<CublasLt>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<CublasLt> found = made[ordinal].lock();
  if (found == nullptr) {
    made[ordinal] = found = std::make_shared<CublasLt>(orThrow(cuda::CudaDevice::open(ordinal)));
  }
  return found;
}

CublasLt::~CublasLt() {
  if (handle_ == nullptr) return;
  const cuda::CudaScope scope(*device_);
  device_->driver().cuCtxSynchronize();
  library().cublasLtDestroy(handle_);
}

const cuda::DeviceMemory& CublasLt::workspace(cuda::Stream stream) {
  constexpr size_t kBytes = size_t{32} << 20;  // as much as products on Hopper make use of
  cuda::DeviceMemory& memory = workspaces_[stream];
  if (memory.bytes() == 0) memory = orThrow(cuda::DeviceMemory::allocateOn(stream, device_, kBytes));
  return memory;
}

// Row-major c = a b is column-major c' = b' a', of the same memory: the second operand comes first.
void CublasLt::multiply(const tuttiMatmul_t& m, const Batch& batch, tuttiStream_t on) {
  const std::lock_guard lock(mutex_);
  const cuda::CudaScope scope(*device_);
  if (handle_ == nullptr) checkStatus(library().cublasLtCreate(&handle_), "cublasLtCreate");
  const auto stream = reinterpret_cast<cuda::Stream>(on);
  const cuda::DeviceMemory& room = workspace(stream);
  const bool twice = m.dtype == tuttiFloat64;
  const int type = twice ? cublaslt::kFloat64 : cublaslt::kFloat32;
  const Operation operation(twice, m.transposeB != 0, m.transposeA != 0);
  const Layout a(type, m.transposeA ? m.k : m.m, m.transposeA ? m.m : m.k, m.lda, batch.count, batch.a);
  const Layout b(type, m.transposeB ? m.n : m.k, m.transposeB ? m.k : m.n, m.ldb, batch.count, batch.b);
  const Layout c(type, m.m, m.n, m.ldc, batch.count, batch.c);
  const float one = 1, factor = m.accumulate ? 1 : 0;
  const double oneTwice = 1, factorTwice = factor;
  checkStatus(
      library().cublasLtMatmul(handle_, operation.get(), twice ? static_cast<const void*>(&oneTwice) : &one, m.b,
                               b.get(), m.a, a.get(), twice ? static_cast<const void*>(&factorTwice) : &factor, m.c,
                               c.get(), m.c, c.get(), nullptr, room.data(), room.bytes(), stream),
      "cublasLtMatmul");
}

}  // namespace tutti::parallel
