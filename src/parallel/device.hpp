// Where a layer keeps its memory and computes: the host, or a CUDA device.  The few operations that layers are made of.
//
// On the host everything has happened when a call returns.  On CUDA it is enqueued on the stream that the caller has
// set (tuttiParallelSetStream), and nothing waits but for what says so.  Errors are thrown (fail.hpp).
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "src/parallel/fail.hpp"
#include "src/parallel/kernels/kernel_list.hpp"
#include "tutti/parallel/kernels.h"

namespace tutti::parallel {

enum class Kernel {
#define TUTTI_LAYER_ENUMERATE(Name, ...) Name,
  TUTTI_LAYER_KERNELS(TUTTI_LAYER_ENUMERATE)
#undef TUTTI_LAYER_ENUMERATE
      Count
};

/// Products of one shape whose operands begin so many elements apart.
struct Batch {
  int64_t count = 1, a = 0, b = 0, c = 0;
};

/// Threads: on the host any number at a time; on CUDA one.
class Device {
 public:
  virtual ~Device() = default;

  virtual int kind() const = 0;  // as in tensors: TUTTI_DEVICE_HOST or TUTTI_DEVICE_CUDA
  bool onHost() const { return kind() == TUTTI_DEVICE_HOST; }
  /// For calls of tutti.h: they follow what was enqueued before.  NULL on the host.
  virtual tuttiStream_t stream() = 0;

  /// A stream that ends with the device, for its owner to set as the thread's; NULL on the host.
  virtual tuttiStream_t ownStream() = 0;

  /// Memory of the device, of any contents, in the order of the stream that work goes to; 0 bytes: NULL.  What is
  /// released may be handed out again at once, to whom its work follows that of the stream that it was released on.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) noexcept = 0;
  /// Room for what is enqueued next, until the next call of it on the same stream.
  virtual void* scratch(size_t bytes) = 0;
  /// An address for a buffer of no elements, which is NULL here and may not be in tutti.h.
  virtual void* nowhere() = 0;
  /// Memory that was released goes back to the system; waits for what is enqueued.
  virtual void trim() = 0;

  /// Between memories of the device.
  virtual void copy(void* to, const void* from, size_t bytes) = 0;
  virtual void zero(void* at, size_t bytes) = 0;
  /// From and to the host's memory; both wait until it is done, and so for all that was enqueued before.
  virtual void put(void* to, const void* host, size_t bytes) = 0;
  virtual void get(void* host, const void* from, size_t bytes) = 0;

  /// Something that was enqueued; its end is its owners' concern.
  using Mark = std::shared_ptr<void>;
  /// Runs task; what it enqueues follows what was enqueued before, and nothing here follows it before follow().
  virtual Mark beside(const std::function<void()>& task) = 0;
  virtual void follow(const Mark& mark) = 0;
  /// What has been enqueued on the thread's stream.
  virtual Mark mark() = 0;
  /// Whether it is over.  Waits for nothing.
  virtual bool done(const Mark& mark) = 0;

  // ---- Kernels, over elements of T: float or double

  /// x *= by
  template <class T>
  void scale(T* x, size_t n, double by) {
    if (by != 1) vector<T>(Kernel::ScaleF32, Kernel::ScaleF64, x, nullptr, n, by);
  }
  template <class T>
  void fill(T* x, size_t n, double value) {
    vector<T>(Kernel::FillF32, Kernel::FillF64, x, nullptr, n, value);
  }
  /// into += from
  template <class T>
  void add(T* into, const T* from, size_t n) {
    vector<T>(Kernel::AddF32, Kernel::AddF64, into, from, n, 0);
  }
  /// To bfloat16, and from it.
  template <class T>
  void narrow(uint16_t* to, const T* from, size_t n) {
    vector<T>(Kernel::NarrowF32, Kernel::NarrowF64, to, from, n, 0);
  }
  void widen(float* to, const uint16_t* from, size_t n) { vector<float>(Kernel::Widen, Kernel::Widen, to, from, n, 0); }
  /// Blocks of kInt8Block elements to a scale and bytes, and back.
  void encode(unsigned char* to, const float* from, size_t blocks) {
    vector<float>(Kernel::EncodeBlocks, Kernel::EncodeBlocks, to, from, blocks, 0);
  }
  void decode(float* to, const unsigned char* from, size_t blocks) {
    vector<float>(Kernel::DecodeBlocks, Kernel::DecodeBlocks, to, from, blocks, 0);
  }
  template <class T>
  void update(const kernels::UpdateCall& call) {
    if (call.count != 0) launch(sizeof(T) == 4 ? Kernel::UpdateF32 : Kernel::UpdateF64, &call, call.count);
  }
  /// limbs [kLimbs] += the squares of x.
  template <class T>
  void addSquares(uint64_t* limbs, const T* x, size_t n) {
    const kernels::SquaresCall call{x, limbs, n};
    if (n != 0) launch(sizeof(T) == 4 ? Kernel::SquaresF32 : Kernel::SquaresF64, &call, n);
  }
  /// out [2]: the length that the limbs are the square of; what makes that at most `most`.
  void clip(double* out, const uint64_t* limbs, double most) {
    const kernels::ClipCall call{limbs, out, most};
    launch(Kernel::Clip, &call, 1);
  }
  /// *sum += the hash of elements of so many bytes, the first of which has number `first`.
  void addHash(uint64_t* sum, const void* x, size_t n, size_t bytes, uint64_t key, int64_t first) {
    const kernels::HashCall call{static_cast<const unsigned char*>(x), sum, n, bytes, key,
                                 static_cast<uint64_t>(first)};
    if (n != 0) launch(Kernel::Hash, &call, n);
  }

  /// to [rows, columns] = from, or += from; rows begin `stride` elements apart, and 0 for `from` is the same row again.
  template <class T>
  void copyMatrix(T* to, int64_t toStride, const T* from, int64_t fromStride, int64_t rows, int64_t columns) {
    matrix<T>(Kernel::CopyMatrixF32, Kernel::CopyMatrixF64, {to, from, rows, columns, toStride, fromStride});
  }
  template <class T>
  void addMatrix(T* to, int64_t toStride, const T* from, int64_t fromStride, int64_t rows, int64_t columns) {
    matrix<T>(Kernel::AddMatrixF32, Kernel::AddMatrixF64, {to, from, rows, columns, toStride, fromStride});
  }
  /// The row `to` = the sum of rows, in their order.
  template <class T>
  void sumRows(T* to, const T* from, int64_t stride, int64_t rows, int64_t columns) {
    const kernels::MatrixCall call{to, from, rows, columns, 0, stride};
    if (columns != 0) launch(pick<T>(Kernel::SumRowsF32, Kernel::SumRowsF64), &call, static_cast<uint64_t>(columns));
  }
  /// The fastest product, in any order of sums.  On the host there is tuttiKernelsFast.
  virtual void multiplyFast(const tuttiMatmul_t& call, const Batch& batch = {}) = 0;
  /// Tutti's own, as tuttiKernelsInvariant.
  void multiply(const tuttiMatmul_t& m, const Batch& batch = {});
  template <class T>
  void gelu(T* out, const T* x, const T* dy, size_t n) {
    const kernels::GeluCall call{out, x, dy, n};
    if (n != 0) launch(pick<T>(Kernel::GeluF32, Kernel::GeluF64), &call, n);
  }
  template <class T>
  void norm(const kernels::NormCall& call) {
    norms(pick<T>(Kernel::NormF32, Kernel::NormF64), call);
  }
  template <class T>
  void normBackward(const kernels::NormCall& call) {
    norms(pick<T>(Kernel::NormBackwardF32, Kernel::NormBackwardF64), call);
  }
  template <class T>
  void normSums(const kernels::NormSumsCall& call) {
    if (call.width != 0) {
      launch(pick<T>(Kernel::NormSumsF32, Kernel::NormSumsF64), &call, static_cast<uint64_t>(call.width));
    }
  }

  // ---- Of attention (kernels/attention.hpp)

  template <class T>
  void softmaxTile(const kernels::ScoresCall& call) {
    start<T>(Kernel::SoftmaxTileF32, Kernel::SoftmaxTileF64, call, call.heads * call.queries * kRowThreads);
  }
  template <class T>
  void finishRows(const kernels::ScoresCall& call) {
    start<T>(Kernel::FinishRowsF32, Kernel::FinishRowsF64, call, call.heads * call.queries * kRowThreads);
  }
  template <class T>
  void scoreGradients(const kernels::ScoresCall& call) {
    start<T>(Kernel::ScoreGradientsF32, Kernel::ScoreGradientsF64, call, call.heads * call.queries * kRowThreads);
  }
  template <class T>
  void merge(const kernels::MergeCall& call) {
    start<T>(Kernel::MergeF32, Kernel::MergeF64, call, call.rows * kRowThreads);
  }

  // ---- Of experts (kernels/experts.hpp)

  template <class T>
  void copyIndexed(const kernels::IndexedCall& call) {
    start<T>(Kernel::CopyIndexedF32, Kernel::CopyIndexedF64, call, call.rows * call.width);
  }
  template <class T>
  void combineRows(const kernels::CombineCall& call) {
    start<T>(Kernel::CombineRowsF32, Kernel::CombineRowsF64, call, call.tokens * call.width);
  }
  template <class T>
  void combineGradient(const kernels::CombineCall& call) {
    start<T>(Kernel::CombineGradientF32, Kernel::CombineGradientF64, call, call.tokens * call.choices * kRowThreads);
  }

  // ---- Of a vocabulary (kernels/vocabulary.hpp)

  /// Numbers of the host, which need not live on: unlike put() it waits for nothing.
  void putInts(int32_t* to, const int32_t* host, size_t n);
  template <class T>
  void takeIdRows(const kernels::IdRowsCall& call) {
    start<T>(Kernel::TakeIdRowsF32, Kernel::TakeIdRowsF64, call, call.count * call.width);
  }
  /// In the order of rows.  call.chain is room for it.
  template <class T>
  void addIdRows(const kernels::IdRowsCall& call) {
    if (!onHost()) start<T>(Kernel::ChainIds, Kernel::ChainIds, call, call.count);
    start<T>(Kernel::AddIdRowsF32, Kernel::AddIdRowsF64, call, call.count * call.width);
  }
  template <class T>
  void largestOfRows(const kernels::LossCall& call) {
    start<T>(Kernel::LargestOfRowsF32, Kernel::LargestOfRowsF64, call, call.rows * kRowThreads);
  }
  template <class T>
  void sumExponentials(const kernels::LossCall& call) {
    start<T>(Kernel::SumExponentialsF32, Kernel::SumExponentialsF64, call, call.rows * kRowThreads);
  }
  template <class T>
  void lossOfRows(const kernels::LossCall& call) {
    start<T>(Kernel::LossOfRowsF32, Kernel::LossOfRowsF64, call, call.rows);
  }
  template <class T>
  void lossGradient(const kernels::LossCall& call) {
    start<T>(Kernel::LossGradientF32, Kernel::LossGradientF64, call, call.rows * call.columns);
  }

 protected:
  /// items: how many things the kernel's threads stride over, at least 1.
  virtual void launch(Kernel kernel, const void* arguments, uint64_t items) = 0;

 private:
  template <class T>
  static Kernel pick(Kernel single, Kernel twice) {
    return sizeof(T) == 4 ? single : twice;
  }
  template <class T>
  void matrix(Kernel single, Kernel twice, const kernels::MatrixCall& call) {
    const uint64_t n = static_cast<uint64_t>(call.rows) * static_cast<uint64_t>(call.columns);
    if (n != 0) launch(pick<T>(single, twice), &call, n);
  }
  static constexpr int64_t kRowThreads = 32;  // for a row, where threads share one
  void norms(Kernel kernel, const kernels::NormCall& call) {
    if (call.rows != 0) launch(kernel, &call, static_cast<uint64_t>(call.rows * kRowThreads));
  }
  template <class T, class Call>
  void start(Kernel single, Kernel twice, const Call& call, int64_t items) {
    if (items != 0) launch(pick<T>(single, twice), &call, static_cast<uint64_t>(items));
  }
  template <class T>
  void vector(Kernel single, Kernel twice, void* out, const void* in, size_t n, double by) {
    const kernels::VectorCall call{out, in, n, by};
    if (n != 0) launch(sizeof(T) == 4 ? single : twice, &call, n);
  }
};

/// Each product by a kernel table; throws what one failed with.
void multiplyByTable(const tuttiKernels_t& kernels, const tuttiMatmul_t& call, const Batch& batch);

/// The kind of tensors that a config's field `device` asks for where there is no communicator; throws for other values
/// than tuttiDevice_t's.
int kindOf(int64_t configDevice);

/// The one device that is always there.
Device& hostDevice();
/// The device of a communicator's rank; without one, that of tensors of this kind: the host, or the CUDA device that is
/// current on this thread.  Throws where there is no such device, or not the means to compute on it.
std::shared_ptr<Device> deviceOf(tuttiComm_t comm, int tensorKind);

/// Bytes that Arrays made and ended on this thread hold, and the most so far.
struct Held {
  int64_t now = 0, most = 0;
  void change(int64_t bytes) {
    now += bytes;
    most = most < now ? now : most;
  }
};
Held& heldByThread();

/// n elements of a device's memory with one owner, who ends before the device.
template <class T>
class Array {
 public:
  enum Contents { Zeros, Any };
  Array() = default;
  Array(Device& device, size_t n, Contents contents = Zeros) : device_(&device), size_(n) {
    data_ = static_cast<T*>(device.allocate(n * sizeof(T)));
    heldByThread().change(static_cast<int64_t>(n * sizeof(T)));
    if (contents == Zeros) clear();
  }
  Array(Array&& other) noexcept { swap(other); }
  Array& operator=(Array&& other) noexcept {
    Array taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Array() {
    if (data_ == nullptr) return;
    heldByThread().change(-static_cast<int64_t>(size_ * sizeof(T)));
    device_->release(data_, size_ * sizeof(T));
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() {
    if (size_ != 0) device_->zero(data_, size_ * sizeof(T));
  }

 private:
  void swap(Array& other) {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Device* device_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tutti::parallel
