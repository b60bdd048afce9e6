// C entry points of place.h.
#include "tutti/parallel/place.h"

#include <unordered_map>

#include "src/parallel/launch.hpp"
#include "src/parallel/tensor.hpp"

using namespace tutti::parallel;

struct tuttiPlace {
  std::shared_ptr<Device> device;  // first: ends after what lies in its memory
  std::unordered_map<void*, Array<char>> memory;
};

namespace tutti::parallel {
namespace {

/// Of a vector: a row.
struct Shape2 {
  int64_t rows, columns, stride;
};
Shape2 shapeOf(const tuttiTensor_t& t) {
  return t.nDims == 1 ? Shape2{1, t.shape[0], t.shape[0]} : Shape2{t.shape[0], t.shape[1], t.strides[0]};
}

void checkSame(const tuttiPlace* place, const tuttiTensor_t* from, const tuttiTensor_t* to) {
  require(place != nullptr && from != nullptr && to != nullptr, "place, from or to is NULL");
  require((from->nDims == 1 || from->nDims == 2) && from->nDims == to->nDims, "from and to are vectors or matrices");
  const Shape2 a = shapeOf(*from), b = shapeOf(*to);
  require(a.rows == b.rows && a.columns == b.columns, "from is ", a.rows, " x ", a.columns, ", to is ", b.rows, " x ",
          b.columns);
  require(from->dtype == to->dtype, "from is of ", nameOf(from->dtype), ", to of ", nameOf(to->dtype));
}

void checkHere(const tuttiPlace& place, const tuttiTensor_t* t, const char* what) {
  if (t->nDims == 1) return checkContiguous(t, what, t->shape[0], t->dtype, kindOf(*place.device));
  checkMatrix(t, what, t->shape[0], t->shape[1], t->dtype, kindOf(*place.device));
}

/// Between the host and the device.
void copyAcross(Device& device, const tuttiTensor_t& from, const tuttiTensor_t& to) {
  const int64_t count = elementsOf(from);
  const bool put = from.device == TUTTI_DEVICE_HOST;
  checkContiguous(&from, "from", count, from.dtype, put ? TUTTI_DEVICE_HOST : kindOf(device));
  checkContiguous(&to, "to", count, from.dtype, put ? kindOf(device) : TUTTI_DEVICE_HOST);
  const size_t bytes = static_cast<size_t>(count) * bytesOf(from.dtype);
  if (put) {
    putBytes(device, to.data, from.data, bytes);
  } else {
    getBytes(device, to.data, from.data, bytes);
  }
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiPlaceCreate(tuttiPlace_t* place, int device) {
  return guardedIf(place != nullptr, "place is NULL", [&] {
    *place = nullptr;
    require(device == TUTTI_DEVICE_HOST || device == TUTTI_DEVICE_CUDA,
            "a place is on TUTTI_DEVICE_HOST or _CUDA, not ", device);
    *place = new tuttiPlace{deviceOf(nullptr, device), {}};
  });
}

tuttiResult_t tuttiPlaceDestroy(tuttiPlace_t place) {
  return guarded([&] { delete place; });
}

tuttiResult_t tuttiPlaceStream(tuttiPlace_t place, tuttiStream_t* stream) {
  return guardedIf(place != nullptr && stream != nullptr, "place or stream is NULL",
                   [&] { *stream = orThrow(place->device->ownStream()); });
}

tuttiResult_t tuttiPlaceAlloc(tuttiPlace_t place, size_t bytes, void** data) {
  return guardedIf(place != nullptr && data != nullptr, "place or data is NULL", [&] {
    *data = nullptr;
    if (bytes == 0) return;
    Array<char> made(*place->device, bytes);
    *data = made.data();
    place->memory.emplace(*data, std::move(made));
  });
}

tuttiResult_t tuttiPlaceFree(tuttiPlace_t place, void* data) {
  return guardedIf(place != nullptr, "place is NULL", [&] {
    require(data == nullptr || place->memory.erase(data) == 1, "data is no memory of this place");
  });
}

tuttiResult_t tuttiPlaceCopy(tuttiPlace_t place, const tuttiTensor_t* from, const tuttiTensor_t* to) {
  return guarded([&] {
    checkSame(place, from, to);
    Device& device = *place->device;
    if (from->device != to->device) return copyAcross(device, *from, *to);
    checkHere(*place, from, "from");
    checkHere(*place, to, "to");
    if (isContiguous(*from) && isContiguous(*to)) {
      return copyBytes(device, to->data, from->data, static_cast<size_t>(elementsOf(*from)) * bytesOf(from->dtype));
    }
    withType(from->dtype, [&](auto zero) {
      using T = decltype(zero);
      const Shape2 a = shapeOf(*from), b = shapeOf(*to);
      copyMatrix<T>(device, static_cast<T*>(to->data), b.stride, static_cast<const T*>(from->data), a.stride, a.rows,
                    a.columns);
    });
  });
}

tuttiResult_t tuttiPlaceAdd(tuttiPlace_t place, const tuttiTensor_t* from, const tuttiTensor_t* to) {
  return guarded([&] {
    checkSame(place, from, to);
    checkHere(*place, from, "from");
    checkHere(*place, to, "to");
    withType(from->dtype, [&](auto zero) {
      using T = decltype(zero);
      const Shape2 a = shapeOf(*from), b = shapeOf(*to);
      addMatrix<T>(*place->device, static_cast<T*>(to->data), b.stride, static_cast<const T*>(from->data), a.stride,
                   a.rows, a.columns);
    });
  });
}
