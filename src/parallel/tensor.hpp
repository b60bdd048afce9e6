// Views of the caller's memory, checked.
#pragma once

#include <cstdint>

#include "src/parallel/fail.hpp"

namespace tutti::parallel {

/// Bytes of an element.
size_t bytesOf(tuttiDataType_t dtype);
const char* nameOf(tuttiDataType_t dtype);
int64_t elementsOf(const tuttiTensor_t& t);
bool isContiguous(const tuttiTensor_t& t);

/// What a handle that computes on the host says of CUDA memory.
inline constexpr const char* kLayersOnCuda =
    "on CUDA all tensors of a handle are there, and its communicator, if it has one, is CUDA's";

/// Throws unless t is where it should be, has data if it has elements, and contiguous rows.
/// kind: of the device whose memory it is in.
void checkMatrix(const tuttiTensor_t* t, const char* what, int64_t rows, int64_t columns, tuttiDataType_t dtype,
                 int kind = TUTTI_DEVICE_HOST);
/// As checkMatrix, for any shape of `count` elements without gaps.
void checkContiguous(const tuttiTensor_t* t, const char* what, int64_t count, tuttiDataType_t dtype,
                     int kind = TUTTI_DEVICE_HOST);
/// Throws unless dtype is one that is computed with.
void checkComputed(tuttiDataType_t dtype, const char* what);
/// Throws unless cuts go from 0 to total without falling.
void checkCuts(const int64_t* cuts, int n, int64_t total, const char* what);

/// Calls body(T()) with the C++ type of dtype.
template <class Body>
void withType(tuttiDataType_t dtype, const Body& body) {
  checkComputed(dtype, "the tensor");
  if (dtype == tuttiFloat32) {
    body(float());
  } else {
    body(double());
  }
}

/// A matrix of T: row i begins at data + i * stride.
template <class T>
struct Matrix {
  T* data;
  int64_t rows, columns, stride;
  T* row(int64_t i) const { return data + i * stride; }
};

template <class T>
Matrix<T> matrixOf(const tuttiTensor_t& t) {
  return {static_cast<T*>(t.data), t.shape[0], t.nDims > 1 ? t.shape[1] : 1, t.strides[0]};
}

}  // namespace tutti::parallel
