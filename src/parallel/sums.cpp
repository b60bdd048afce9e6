// C entry points of sums.h.
#include "tutti/parallel/sums.h"

#include "src/parallel/group.hpp"
#include "src/parallel/tensor.hpp"

namespace tutti::parallel {
namespace {

void reduceLeaves(Group& group, const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                  const int64_t* leafCuts, const int64_t* sliceCuts, bool all) {
  require(leafCuts != nullptr && leafCuts[group.size()] >= 1, "a tree has at least one leaf");
  checkCuts(leafCuts, group.size(), leafCuts[group.size()], "leafCuts");
  checkCuts(sliceCuts, group.size(), static_cast<int64_t>(count), "sliceCuts");
  const LeafRange run{leafCuts[group.rank()], leafCuts[group.rank() + 1]};
  require(count == 0 || run.begin == run.end || leaves != nullptr, "leaves is NULL");
  withType(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto sums = subtreeSums(group.device(), static_cast<const T*>(leaves), count, leafCuts[group.size()], run);
    std::vector<const T*> parts;
    for (const auto& sum : sums) parts.push_back(sum.data());
    if (all) {
      group.treeAllReduce(parts, static_cast<T*>(out), leafCuts, sliceCuts);
    } else {
      group.treeReduceScatter(parts, static_cast<T*>(out), leafCuts, sliceCuts);
    }
  });
}

void allReduceLeaves(Group& group, const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                     const int64_t* leafCuts, tuttiTraffic_t* traffic) {
  const std::vector<int64_t> slices = evenCuts(static_cast<int64_t>(count), 1, group.size());
  reduceLeaves(group, leaves, out, count, dtype, leafCuts, slices.data(), true);
  if (traffic != nullptr) addTraffic(*traffic, group.traffic);
}

void checkTraffic(const tuttiTraffic_t* traffic) {
  require(traffic != nullptr && traffic->size == sizeof(tuttiTraffic_t),
          "traffic: begin from TUTTI_TRAFFIC_INITIALIZER");
}

}  // namespace
}  // namespace tutti::parallel

using namespace tutti::parallel;

tuttiResult_t tuttiTreeAllReduce(const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                                 const int64_t* leafCuts, tuttiComm_t comm) {
  return guarded([&] {
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    allReduceLeaves(group, leaves, out, count, dtype, leafCuts, nullptr);
  });
}

tuttiResult_t tuttiTreeAllReduceCounted(const void* leaves, void* out, size_t count, tuttiDataType_t dtype,
                                        const int64_t* leafCuts, tuttiComm_t comm, tuttiTraffic_t* traffic) {
  return guarded([&] {
    checkTraffic(traffic);
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    allReduceLeaves(group, leaves, out, count, dtype, leafCuts, traffic);
  });
}

tuttiResult_t tuttiTreeAllReduceTensors(const tuttiTensor_t* leaves, const tuttiTensor_t* out, const int64_t* leafCuts,
                                        tuttiComm_t comm, tuttiTraffic_t* traffic) {
  return guardedIf(leaves != nullptr && out != nullptr && leafCuts != nullptr, "leaves, out or leafCuts is NULL", [&] {
    if (traffic != nullptr) checkTraffic(traffic);
    const std::shared_ptr<Device> device = deviceOf(comm, out->device);
    Group group(comm, *device);
    const int64_t count = elementsOf(*out), mine = leafCuts[group.rank() + 1] - leafCuts[group.rank()];
    checkContiguous(out, "out", count, out->dtype, kindOf(*device));
    checkContiguous(leaves, "leaves", mine * count, out->dtype, kindOf(*device));
    allReduceLeaves(group, leaves->data, out->data, static_cast<size_t>(count), out->dtype, leafCuts, traffic);
  });
}

tuttiResult_t tuttiTreeReduceScatter(const void* leaves, void* out, tuttiDataType_t dtype, const int64_t* leafCuts,
                                     const int64_t* sliceCuts, tuttiComm_t comm) {
  return guardedIf(sliceCuts != nullptr, "sliceCuts is NULL", [&] {
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    const size_t count = static_cast<size_t>(sliceCuts[group.size()]);
    reduceLeaves(group, leaves, out, count, dtype, leafCuts, sliceCuts, false);
  });
}

tuttiResult_t tuttiSumOfSquares(const tuttiTensor_t* tensors, size_t n, tuttiComm_t comm, double* sum) {
  return guardedIf(sum != nullptr && (tensors != nullptr || n == 0), "tensors or sum is NULL", [&] {
    const std::shared_ptr<Device> device = deviceOf(comm, n > 0 ? tensors[0].device : TUTTI_DEVICE_HOST);
    Array<uint64_t> squares(*device, kernels::kLimbs);
    for (size_t i = 0; i < n; ++i) {
      checkContiguous(&tensors[i], "a tensor", elementsOf(tensors[i]), tensors[i].dtype, kindOf(*device));
      withType(tensors[i].dtype, [&](auto zero) {
        launch<decltype(zero), Kernel::Squares>(
            *device, {tensors[i].data, squares.data(), static_cast<uint64_t>(elementsOf(tensors[i]))});
      });
    }
    Group group(comm, *device);
    group.allReduce(squares.data(), squares.size(), tuttiUint64, tuttiSum);
    uint64_t limbs[kernels::kLimbs];
    getBytes(*device, limbs, squares.data(), sizeof limbs);
    group.throwIfFailed();
    *sum = kernels::numberOf(limbs);
  });
}

tuttiResult_t tuttiTensorHash(const tuttiTensor_t* t, uint64_t key, int64_t first, uint64_t* hash) {
  return guardedIf(t != nullptr && hash != nullptr, "tensor or hash is NULL", [&] {
    const std::shared_ptr<Device> device = deviceOf(nullptr, t->device);
    checkContiguous(t, "the tensor", elementsOf(*t), t->dtype, kindOf(*device));
    Array<uint64_t> sum(*device, 1);
    launch<float, Kernel::Hash>(
        *device, {static_cast<const unsigned char*>(t->data), sum.data(), static_cast<uint64_t>(elementsOf(*t)),
                  bytesOf(t->dtype), key, static_cast<uint64_t>(first)});
    getBytes(*device, hash, sum.data(), sizeof *hash);
  });
}
