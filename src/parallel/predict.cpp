#include "src/parallel/predict.hpp"

namespace tutti::parallel {

void predictSum(tuttiTraffic_t& traffic, const Group& group, uint64_t bytes, uint64_t slice, bool tree, size_t parts,
                bool all, uint64_t calls) {
  const int n = group.size();
  if (n == 1 || bytes == 0) return;
  if (tree) {
    countCall(traffic, tuttiCallAllToAllv, n, parts * (bytes - slice));
    if (all) countCall(traffic, tuttiCallAllGather, n, bytes);
    return;
  }
  countCall(traffic, all ? tuttiCallAllReduce : tuttiCallReduceScatter, n, bytes);
  if (all) traffic.calls[tuttiCallAllReduce] += calls - 1;
}

void predictGather(tuttiTraffic_t& traffic, const Group& group, uint64_t bytes) {
  if (group.size() > 1 && bytes != 0) countCall(traffic, tuttiCallAllGather, group.size(), bytes);
}

}  // namespace tutti::parallel
