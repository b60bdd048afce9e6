#include "src/parallel/tensor.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tutti::parallel {
namespace {

thread_local std::string lastError;

struct TypeInfo {
  const char* name;
  size_t bytes;
};
constexpr TypeInfo kTypes[tuttiNumTypes] = {{"int8", 1},    {"uint8", 1},    {"int32", 4},      {"uint32", 4},
                                            {"int64", 8},   {"uint64", 8},   {"float16", 2},    {"float32", 4},
                                            {"float64", 8}, {"bfloat16", 2}, {"float8e4m3", 1}, {"float8e5m2", 1},
                                            {"int16", 2},   {"uint16", 2},   {"bool", 1}};

const char* nameOfKind(int kind) {
  return kind == TUTTI_DEVICE_HOST ? "the host" : kind == TUTTI_DEVICE_CUDA ? "a CUDA device" : "no kind of device";
}

void checkView(const tuttiTensor_t* t, const char* what, tuttiDataType_t dtype, int kind) {
  require(t != nullptr, what, " is NULL");
  if (t->device != kind) {
    fail(tuttiInvalidUsage, what, " is in the memory of ", nameOfKind(t->device), " (", t->device,
         "); this layer computes on ", nameOfKind(kind), kind == TUTTI_DEVICE_HOST ? "; " : "",
         kind == TUTTI_DEVICE_HOST ? kLayersOnCuda : "");
  }
  require(t->nDims >= 1 && t->nDims <= TUTTI_MAX_DIMS, what, " has ", t->nDims, " dimensions");
  require(t->dtype == dtype, what, " is of ", nameOf(t->dtype), ", not ", nameOf(dtype));
  require(t->data != nullptr || elementsOf(*t) == 0, what, " has no data");
}

}  // namespace

void setLastError(tuttiResult_t result, std::string text) {
  constexpr int kTraining = 601, kTrainingUsage = 901;  // of src/base/errors/*.def, behind the thousands of the result
  const int kind = result == tuttiInvalidArgument ? kTraining : result == tuttiInvalidUsage ? kTrainingUsage : 0;
  if (text.find("[TUTTI-") == std::string::npos)
    text += " [TUTTI-" + std::to_string(1000 * static_cast<int>(result) + kind) + "]";
  lastError = std::move(text);
}

size_t bytesOf(tuttiDataType_t dtype) {
  require(dtype >= 0 && dtype < tuttiNumTypes, "there is no dtype ", static_cast<int>(dtype));
  return kTypes[dtype].bytes;
}
const char* nameOf(tuttiDataType_t dtype) {
  return dtype >= 0 && dtype < tuttiNumTypes ? kTypes[dtype].name : "no dtype";
}

int64_t elementsOf(const tuttiTensor_t& t) {
  int64_t n = 1;
  for (int d = 0; d < t.nDims; ++d) n *= t.shape[d];
  return n;
}

bool isContiguous(const tuttiTensor_t& t) {
  int64_t expected = 1;
  for (int d = t.nDims - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != expected && !(t.nDims == 1 && t.strides[d] == 1)) return false;
    expected *= t.shape[d];
  }
  return true;
}

void checkMatrix(const tuttiTensor_t* t, const char* what, int64_t rows, int64_t columns, tuttiDataType_t dtype,
                 int kind) {
  checkView(t, what, dtype, kind);
  const int64_t across = t->nDims > 1 ? t->shape[1] : 1;
  require(t->nDims <= 2 && t->shape[0] == rows && across == columns, what, " is ", t->shape[0], " x ", across, " (",
          t->nDims, " dimensions), not ", rows, " x ", columns);
  require(t->nDims == 1 || columns <= 1 || t->strides[1] == 1, what, ": elements of a row are not side by side");
  require(rows <= 1 || t->strides[0] >= columns, what, ": rows overlap");
}

void checkContiguous(const tuttiTensor_t* t, const char* what, int64_t count, tuttiDataType_t dtype, int kind) {
  checkView(t, what, dtype, kind);
  require(elementsOf(*t) == count, what, " has ", elementsOf(*t), " elements, not ", count);
  require(isContiguous(*t), what, " is not contiguous");
}

void checkComputed(tuttiDataType_t dtype, const char* what) {
  require(dtype == tuttiFloat32 || dtype == tuttiFloat64, what, " is of ", nameOf(dtype),
          ", which is not computed with: float32 or float64");
}

void checkCuts(const int64_t* cuts, int n, int64_t total, const char* what) {
  require(cuts != nullptr, what, " is NULL");
  require(cuts[0] == 0 && cuts[n] == total, what, " go from ", cuts[0], " to ", cuts[n], ", not from 0 to ", total);
  for (int r = 0; r < n; ++r) require(cuts[r] <= cuts[r + 1], what, " fall at ", r);
}

}  // namespace tutti::parallel

using namespace tutti::parallel;

const char* tuttiParallelGetLastError(void) { return lastError.c_str(); }

tuttiResult_t tuttiSplitEven(int64_t total, int64_t unit, int n, const double* weights, int64_t* cuts) {
  return guarded([&] {
    require(total >= 0 && unit >= 1 && n >= 1 && cuts != nullptr, "a split of ", total, " by ", unit, " in ", n,
            " parts");
    const int64_t units = (total + unit - 1) / unit;
    double sum = 0;
    for (int r = 0; r < n && weights != nullptr; ++r) {
      require(weights[r] >= 0 && weights[r] < 1e300, "weight ", r, " is ", weights[r]);
      sum += weights[r];
    }
    require(weights == nullptr || sum > 0, "all weights are 0");
    double before = 0;
    cuts[0] = 0;
    for (int r = 0; r < n; ++r) {
      int64_t end = units;
      if (weights == nullptr) {
        end = (r + 1) * (units / n) + std::min<int64_t>(r + 1, units % n);
      } else if (r + 1 < n) {
        before += weights[r];
        end = static_cast<int64_t>(static_cast<double>(units) * before / sum + 0.5);
      }
      cuts[r + 1] = std::max(cuts[r], std::min(total, end * unit));
    }
  });
}
