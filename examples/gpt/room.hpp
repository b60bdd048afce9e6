// Where a rank's arrays lie, on the host or a CUDA device, and arrays there.
#pragma once

#include <utility>
#include <vector>

#include "examples/gpt/call.hpp"
#include "tutti/parallel/place.h"

namespace gpt {

template <class T>
constexpr tuttiDataType_t kType = sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64;

/// A rank's memory and stream; lives on the thread of the rank, whose stream it sets while it lives.
class Place {
 public:
  explicit Place(int kind) : kind_(kind), before_(now()) {
    call(tuttiPlaceCreate(&handle_, kind));
    call(tuttiPlaceStream(handle_, &stream_));
    call(tuttiParallelSetStream(stream_));
    now() = this;
  }
  ~Place() {
    tuttiParallelSetStream(before_ != nullptr ? before_->stream_ : nullptr);
    now() = before_;
    tuttiPlaceDestroy(handle_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  /// Of the present thread: the one that was made last, else the host.
  static Place& current() {
    if (now() == nullptr) {
      thread_local Place usual(TUTTI_DEVICE_HOST);
    }
    return *now();
  }
  int kind() const { return kind_; }
  tuttiStream_t stream() const { return stream_; }
  tuttiPlace_t handle() const { return handle_; }

 private:
  static Place*& now() {
    thread_local Place* place = nullptr;
    return place;
  }
  int kind_;
  Place* before_;
  tuttiPlace_t handle_ = nullptr;
  tuttiStream_t stream_ = nullptr;
};

/// A view of the present place's memory.
inline tuttiTensor_t here(tuttiTensor_t t) {
  t.device = Place::current().kind();
  return t;
}
/// Any tensor without gaps as a vector.
inline tuttiTensor_t flat(tuttiTensor_t t) {
  int64_t count = 1;
  for (int d = 0; d < t.nDims; ++d) count *= t.shape[d];
  const int device = t.device;
  t = tuttiVectorOf(t.data, t.dtype, count);
  t.device = device;
  return t;
}
inline void copyTo(const tuttiTensor_t& to, const tuttiTensor_t& from) {
  call(tuttiPlaceCopy(Place::current().handle(), &from, &to));
}
inline void addTo(const tuttiTensor_t& to, const tuttiTensor_t& from) {
  call(tuttiPlaceAdd(Place::current().handle(), &from, &to));
}

/// As std::vector, in the memory of the place that is current when it is made.  New elements are 0.
template <class T>
class Room {
 public:
  Room() = default;
  explicit Room(size_t n) { resize(n); }
  explicit Room(const std::vector<T>& host) : Room(host.size()) {
    if (!host.empty()) copyTo(bytes(), bytesOf(host.data(), TUTTI_DEVICE_HOST));
  }
  Room(const Room& other) { *this = other; }
  Room(Room&& other) noexcept { swap(other); }
  Room& operator=(const Room& other) {
    if (this == &other) return *this;
    resize(other.size_);
    if (size_ != 0) copyTo(bytes(), other.bytes());
    return *this;
  }
  Room& operator=(Room&& other) noexcept {
    Room taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Room() {
    if (data_ != nullptr) tuttiPlaceFree(place_->handle(), data_);
  }
  /// Another size means other contents: zeros.
  void resize(size_t n) {
    if (n == size_) return;
    Room taken;
    taken.place_ = &Place::current();
    void* memory = nullptr;
    call(tuttiPlaceAlloc(taken.place_->handle(), n * sizeof(T), &memory));
    taken.data_ = static_cast<T*>(memory);
    taken.size_ = n;
    swap(taken);
  }
  T* data() const { return data_; }
  size_t size() const { return size_; }
  tuttiTensor_t vector() const { return here(tuttiVectorOf(data_, kType<T>, static_cast<int64_t>(size_))); }
  std::vector<T> host() const {
    std::vector<T> values(size_);
    if (size_ != 0) copyTo(bytesOf(values.data(), TUTTI_DEVICE_HOST), bytes());
    return values;
  }

 private:
  tuttiTensor_t bytes() const { return bytesOf(data_, place_->kind()); }
  tuttiTensor_t bytesOf(const T* data, int kind) const {
    tuttiTensor_t t = tuttiVectorOf(const_cast<T*>(data), tuttiUint8, static_cast<int64_t>(size_ * sizeof(T)));
    t.device = kind;
    return t;
  }
  void swap(Room& other) {
    std::swap(place_, other.place_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }
  Place* place_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

/// What a tensor of float holds, wherever it is.
inline std::vector<float> valuesOf(const tuttiTensor_t& t) {
  const tuttiTensor_t from = flat(t);
  std::vector<float> values(static_cast<size_t>(from.shape[0]));
  if (!values.empty()) copyTo(tuttiVectorOf(values.data(), tuttiFloat32, from.shape[0]), from);
  return values;
}

}  // namespace gpt
