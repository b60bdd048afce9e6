// Elementwise functions and layer norm.
#include <cmath>

#include "src/parallel/launch.hpp"
#include "src/parallel/tensor.hpp"
#include "tutti/parallel/kernels.h"

namespace tutti::parallel {
namespace {

constexpr double kEpsilon = 1e-5;

/// Of GELU's tanh form: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
template <class T>
struct Gelu {
  static constexpr T kScale = T(0.7978845608028654), kCubic = T(0.044715);
  static T value(T x) { return T(0.5) * x * (1 + std::tanh(kScale * (x + kCubic * x * x * x))); }
  static T slope(T x) {
    const T t = std::tanh(kScale * (x + kCubic * x * x * x));
    return T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * kScale * (1 + 3 * kCubic * x * x);
  }
};

template <class T>
struct RowStatistics {
  T mean = 0, inverse = 0;
  RowStatistics(const T* x, int64_t width) {
    for (int64_t i = 0; i < width; ++i) mean += x[i];
    mean /= static_cast<T>(width);
    T variance = 0;
    for (int64_t i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
    inverse = 1 / std::sqrt(variance / static_cast<T>(width) + T(kEpsilon));
  }
};

template <class T>
void normBackwardRow(const T* x, const T* gamma, const T* dy, int64_t width, T* dx, T* dgamma, T* dbeta) {
  const RowStatistics<T> s(x, width);
  T sum = 0, dot = 0;
  for (int64_t i = 0; i < width; ++i) {
    const T normal = (x[i] - s.mean) * s.inverse, d = dy[i] * gamma[i];
    dgamma[i] += dy[i] * normal;
    dbeta[i] += dy[i];
    sum += d;
    dot += d * normal;
  }
  sum /= static_cast<T>(width);
  dot /= static_cast<T>(width);
  for (int64_t i = 0; i < width; ++i) {
    dx[i] = s.inverse * (dy[i] * gamma[i] - sum - (x[i] - s.mean) * s.inverse * dot);
  }
}

/// Sums of leaves before dx, which may be dy.
template <class T>
void normBackwardOnDevice(Device& device, const tuttiTensor_t& x, const tuttiTensor_t& gamma, const tuttiTensor_t& dy,
                          const int64_t* rowCuts, int nLeaves, const tuttiTensor_t& dx, const tuttiTensor_t& dgamma,
                          const tuttiTensor_t& dbeta) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  T* statistics = static_cast<T*>(orThrow(device.scratch(static_cast<size_t>(2 * rows) * sizeof(T))));
  kernels::NormCall call{nullptr, x.data, gamma.data, nullptr,      dy.data,      statistics,
                         rows,    width,  0,          x.strides[0], dy.strides[0]};
  launch<T, Kernel::NormBackward>(device, call);
  for (int64_t l = 0; l < nLeaves; ++l) {
    const int64_t first = rowCuts[l];
    launch<T, Kernel::NormSums>(
        device,
        {static_cast<T*>(dgamma.data) + l * width, static_cast<T*>(dbeta.data) + l * width,
         static_cast<const T*>(x.data) + first * x.strides[0], static_cast<const T*>(dy.data) + first * dy.strides[0],
         statistics + 2 * first, rowCuts[l + 1] - first, width, x.strides[0], dy.strides[0]});
  }
  call.out = dx.data;
  call.outStride = dx.strides[0];
  launch<T, Kernel::NormBackward>(device, call);
}

}  // namespace
}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiGelu(const tuttiTensor_t* x, const tuttiTensor_t* y) {
  return guardedIf(x != nullptr && y != nullptr, "a tensor is NULL", [&] {
    const int64_t n = elementsOf(*x);
    const std::shared_ptr<Device> device = deviceOf(nullptr, x->device);
    checkContiguous(x, "x", n, x->dtype, kindOf(*device));
    checkContiguous(y, "y", n, x->dtype, kindOf(*device));
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      if (!device->onHost()) {
        return launch<T, Kernel::Gelu>(*device, {y->data, x->data, nullptr, static_cast<uint64_t>(n)});
      }
      for (int64_t i = 0; i < n; ++i) static_cast<T*>(y->data)[i] = Gelu<T>::value(static_cast<T*>(x->data)[i]);
    });
  });
}

tuttiResult_t tuttiGeluBackward(const tuttiTensor_t* x, const tuttiTensor_t* dy, const tuttiTensor_t* dx) {
  return guardedIf(x != nullptr && dy != nullptr && dx != nullptr, "a tensor is NULL", [&] {
    const int64_t n = elementsOf(*x);
    const std::shared_ptr<Device> device = deviceOf(nullptr, x->device);
    checkContiguous(x, "x", n, x->dtype, kindOf(*device));
    checkContiguous(dy, "dy", n, x->dtype, kindOf(*device));
    checkContiguous(dx, "dx", n, x->dtype, kindOf(*device));
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      if (!device->onHost()) {
        return launch<T, Kernel::Gelu>(*device, {dx->data, x->data, dy->data, static_cast<uint64_t>(n)});
      }
      for (int64_t i = 0; i < n; ++i) {
        static_cast<T*>(dx->data)[i] = static_cast<T*>(dy->data)[i] * Gelu<T>::slope(static_cast<T*>(x->data)[i]);
      }
    });
  });
}

tuttiResult_t tuttiLayerNorm(const tuttiTensor_t* x, const tuttiTensor_t* gamma, const tuttiTensor_t* beta,
                             const tuttiTensor_t* y) {
  return guardedIf(x != nullptr && x->nDims == 2, "x is a matrix", [&] {
    const int64_t rows = x->shape[0], width = x->shape[1];
    const std::shared_ptr<Device> device = deviceOf(nullptr, x->device);
    const int kind = kindOf(*device);
    checkMatrix(x, "x", rows, width, x->dtype, kind);
    checkMatrix(y, "y", rows, width, x->dtype, kind);
    checkContiguous(gamma, "gamma", width, x->dtype, kind);
    checkContiguous(beta, "beta", width, x->dtype, kind);
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      if (!device->onHost()) {
        return launch<T, Kernel::Norm>(*device, {y->data, x->data, gamma->data, beta->data, nullptr, nullptr, rows,
                                                 width, y->strides[0], x->strides[0], 0});
      }
      const T *g = static_cast<T*>(gamma->data), *b = static_cast<T*>(beta->data);
      for (int64_t r = 0; r < rows; ++r) {
        const T* from = matrixOf<T>(*x).row(r);
        T* to = matrixOf<T>(*y).row(r);
        const RowStatistics<T> s(from, width);
        for (int64_t i = 0; i < width; ++i) to[i] = (from[i] - s.mean) * s.inverse * g[i] + b[i];
      }
    });
  });
}

tuttiResult_t tuttiLayerNormBackward(const tuttiTensor_t* x, const tuttiTensor_t* gamma, const tuttiTensor_t* dy,
                                     const int64_t* rowCuts, int nLeaves, const tuttiTensor_t* dx,
                                     const tuttiTensor_t* dgamma, const tuttiTensor_t* dbeta) {
  return guardedIf(x != nullptr && x->nDims == 2, "x is a matrix", [&] {
    require(nLeaves >= 0, "there are ", nLeaves, " leaves");
    const int64_t rows = x->shape[0], width = x->shape[1];
    const std::shared_ptr<Device> device = deviceOf(nullptr, x->device);
    const int kind = kindOf(*device);
    checkMatrix(x, "x", rows, width, x->dtype, kind);
    checkMatrix(dy, "dy", rows, width, x->dtype, kind);
    checkMatrix(dx, "dx", rows, width, x->dtype, kind);
    checkContiguous(gamma, "gamma", width, x->dtype, kind);
    checkContiguous(dgamma, "dgamma", nLeaves * width, x->dtype, kind);
    checkContiguous(dbeta, "dbeta", nLeaves * width, x->dtype, kind);
    checkCuts(rowCuts, nLeaves, rows, "rowCuts");
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      if (!device->onHost())
        return normBackwardOnDevice<T>(*device, *x, *gamma, *dy, rowCuts, nLeaves, *dx, *dgamma, *dbeta);
      for (int l = 0; l < nLeaves; ++l) {
        T *dg = static_cast<T*>(dgamma->data) + l * width, *db = static_cast<T*>(dbeta->data) + l * width;
        for (int64_t i = 0; i < width; ++i) dg[i] = db[i] = 0;
        for (int64_t r = rowCuts[l]; r < rowCuts[l + 1]; ++r) {
          normBackwardRow(matrixOf<T>(*x).row(r), static_cast<const T*>(gamma->data), matrixOf<T>(*dy).row(r), width,
                          matrixOf<T>(*dx).row(r), dg, db);
        }
      }
    });
  });
}
