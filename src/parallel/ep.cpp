// Dispatch and combine of tokens over all-to-alls of uneven counts.
#include "tutti/parallel/ep.h"

#include <algorithm>
#include <memory>

#include "src/parallel/group.hpp"
#include "src/parallel/tensor.hpp"

using namespace tutti::parallel;

struct tuttiEp {
  tuttiEp(std::shared_ptr<Device> of, tuttiComm_t comm) : device(std::move(of)), group(comm, *device) {}
  std::shared_ptr<Device> device;  // first: ends after what lies in its memory
  Group group;
  int experts = 0, choices = 1;
  int64_t capacity = 0;
  std::vector<int64_t> owners;
  // Of the present routes:
  int64_t tokens = 0, dropped = 0;
  std::vector<int32_t> order;                 // (token, choice) pairs in the order in which they are sent
  std::vector<size_t> sendRows, receiveRows;  // per rank
  std::vector<int32_t> place;                 // of each received row, where it goes: by expert, then by rank
  Array<int32_t> orderThere, placeThere;      // where the device reads them
  std::vector<int64_t> asked;                 // of each expert, with what was dropped
  std::vector<int64_t> incoming;              // rows from each rank for each expert here

  int64_t here() const {
    const size_t r = static_cast<size_t>(group.rank());
    return owners[r + 1] - owners[r];
  }
  int64_t received() const { return static_cast<int64_t>(place.size()); }
};

namespace tutti::parallel {
namespace {

std::vector<size_t> times(const std::vector<size_t>& rows, int64_t width) {
  std::vector<size_t> counts;
  for (const size_t n : rows) counts.push_back(n * static_cast<size_t>(width));
  return counts;
}

/// Pairs by expert, in the order of tokens; those over an expert's capacity are left out.  counts [experts].
void sortPairs(tuttiEp& ep, const int32_t* ids, std::vector<int64_t>& counts) {
  std::vector<std::vector<int32_t>> byExpert(static_cast<size_t>(ep.experts));
  ep.dropped = 0;
  ep.asked.assign(byExpert.size(), 0);
  for (int64_t pair = 0; pair < ep.tokens * ep.choices; ++pair) {
    require(ids[pair] >= 0 && ids[pair] < ep.experts, "token ", pair / ep.choices, " asks for expert ", ids[pair],
            ", there are ", ep.experts);
    ++ep.asked[static_cast<size_t>(ids[pair])];
    std::vector<int32_t>& list = byExpert[static_cast<size_t>(ids[pair])];
    if (ep.capacity > 0 && static_cast<int64_t>(list.size()) == ep.capacity) {
      ++ep.dropped;
    } else {
      list.push_back(static_cast<int32_t>(pair));
    }
  }
  ep.order.clear();
  for (size_t e = 0; e < byExpert.size(); ++e) {
    counts[e] = static_cast<int64_t>(byExpert[e].size());
    ep.order.insert(ep.order.end(), byExpert[e].begin(), byExpert[e].end());
  }
}

/// ep.incoming = what other ranks count for this one's experts.
void exchangeCounts(tuttiEp& ep, const std::vector<int64_t>& counts, const std::vector<size_t>& toEach,
                    const std::vector<size_t>& fromEach) {
  Device& device = *ep.device;
  Array<int64_t> out(device, counts.size(), Array<int64_t>::Any), in(device, ep.incoming.size(), Array<int64_t>::Any);
  putBytes(device, out.data(), counts.data(), counts.size() * sizeof(int64_t));
  ep.group.allToAll(out.data(), toEach, in.data(), fromEach, tuttiInt64);
  getBytes(device, ep.incoming.data(), in.data(), ep.incoming.size() * sizeof(int64_t));
  ep.group.throwIfFailed();
}

Array<int32_t> there(Device& device, const std::vector<int32_t>& numbers) {
  Array<int32_t> made(device, numbers.size(), Array<int32_t>::Any);
  setInts(device, made.data(), numbers.data(), numbers.size());
  return made;
}

void route(tuttiEp& ep, const int32_t* ids, int64_t* perExpert) {
  const size_t n = static_cast<size_t>(ep.group.size()), here = static_cast<size_t>(ep.here());
  std::vector<int64_t> counts(static_cast<size_t>(ep.experts));
  sortPairs(ep, ids, counts);
  // Every rank learns how many rows of each of its experts come from where.
  std::vector<size_t> toEach(n), fromEach(n, here);
  ep.sendRows.assign(n, 0);
  for (size_t r = 0; r < n; ++r) {
    toEach[r] = static_cast<size_t>(ep.owners[r + 1] - ep.owners[r]);
    for (int64_t e = ep.owners[r]; e < ep.owners[r + 1]; ++e) {
      ep.sendRows[r] += static_cast<size_t>(counts[static_cast<size_t>(e)]);
    }
  }
  std::vector<int64_t>& incoming = ep.incoming;
  incoming.assign(n * here, 0);
  exchangeCounts(ep, counts, toEach, fromEach);
  ep.receiveRows.assign(n, 0);
  ep.place.clear();
  std::vector<int64_t> first(n * here);  // of the rows of each rank and expert, in the order by expert
  int64_t at = 0;
  for (size_t e = 0; e < here; ++e) {
    const int64_t before = at;
    for (size_t r = 0; r < n; ++r) {
      first[r * here + e] = at;
      at += incoming[r * here + e];
    }
    if (perExpert != nullptr) perExpert[e] = at - before;
  }
  for (size_t r = 0; r < n; ++r) {
    for (size_t e = 0; e < here; ++e) {
      ep.receiveRows[r] += static_cast<size_t>(incoming[r * here + e]);
      for (int64_t i = 0; i < incoming[r * here + e]; ++i)
        ep.place.push_back(static_cast<int32_t>(first[r * here + e] + i));
    }
  }
  ep.orderThere = there(*ep.device, ep.order);
  ep.placeThere = there(*ep.device, ep.place);
}

/// Row order[i] / share of `mine` (a row for each pair, or for each token) to the experts: rows by expert.
template <class T>
void toExperts(tuttiEp& ep, int64_t width, const T* mine, int64_t share, T* rows) {
  Device& device = *ep.device;
  const int64_t nSent = static_cast<int64_t>(ep.order.size()), nGot = ep.received();
  Array<T> sent(device, static_cast<size_t>(nSent * width), Array<T>::Any);
  Array<T> got(device, static_cast<size_t>(nGot * width), Array<T>::Any);
  launch<T, Kernel::CopyIndexed>(device, {sent.data(), mine, nullptr, ep.orderThere.data(), nSent, width, share});
  ep.group.allToAll(sent.data(), times(ep.sendRows, width), got.data(), times(ep.receiveRows, width), dtypeOf<T>());
  launch<T, Kernel::CopyIndexed>(device, {rows, got.data(), ep.placeThere.data(), nullptr, nGot, width, 1});
}

/// And back: pairs [tokens * choices][width], 0 where one was dropped.
template <class T>
void fromExperts(tuttiEp& ep, int64_t width, const T* rows, T* pairs) {
  Device& device = *ep.device;
  const int64_t nSent = static_cast<int64_t>(ep.order.size()), nGot = ep.received();
  Array<T> sent(device, static_cast<size_t>(nSent * width), Array<T>::Any);
  Array<T> got(device, static_cast<size_t>(nGot * width), Array<T>::Any);
  launch<T, Kernel::CopyIndexed>(device, {got.data(), rows, nullptr, ep.placeThere.data(), nGot, width, 1});
  ep.group.allToAll(got.data(), times(ep.receiveRows, width), sent.data(), times(ep.sendRows, width), dtypeOf<T>());
  const size_t all = static_cast<size_t>(ep.tokens * ep.choices * width);
  zeroBytes(device, pairs, all * sizeof(T));
  launch<T, Kernel::CopyIndexed>(device, {pairs, sent.data(), ep.orderThere.data(), nullptr, nSent, width, 1});
}

/// Columns of a contiguous matrix of `rows`.
int64_t widthOf(const tuttiTensor_t* t, const char* what, int64_t rows, tuttiDataType_t dtype, int kind) {
  require(t != nullptr && t->nDims == 2, what, " is not a matrix");
  checkContiguous(t, what, rows * t->shape[1], dtype, kind);
  require(t->shape[0] == rows, what, " has ", t->shape[0], " rows, not ", rows);
  return t->shape[1];
}

void checkPair(const tuttiEp* ep, const tuttiTensor_t* mine, const char* mineName, const tuttiTensor_t* rows,
               const char* rowsName, int64_t* width) {
  require(ep != nullptr && mine != nullptr, "ep or ", mineName, " is NULL");
  const int kind = kindOf(*ep->device);
  *width = widthOf(mine, mineName, ep->tokens, mine->dtype, kind);
  require(widthOf(rows, rowsName, ep->received(), mine->dtype, kind) == *width, mineName, " and ", rowsName,
          " have different widths");
}

/// See tuttiEpBalanceLoss.
template <class T>
double balanceLoss(tuttiEp& ep, const T* probabilities, double coefficient, bool allRanks, T* gradient) {
  Device& device = *ep.device;
  const size_t n = static_cast<size_t>(ep.experts);
  Array<T> row(device, n, Array<T>::Any);
  std::vector<T> here(n);
  sumRows(device, row.data(), probabilities, ep.experts, ep.tokens, ep.experts);
  getBytes(device, here.data(), row.data(), n * sizeof(T));
  std::vector<double> sums(here.begin(), here.end());  // of probabilities, then pairs that ask, then tokens
  sums.insert(sums.end(), ep.asked.begin(), ep.asked.end());
  sums.push_back(static_cast<double>(ep.tokens));
  if (allRanks) ep.group.allReduceHost(sums.data(), sums.size(), tuttiFloat64, tuttiSum);
  const double tokens = sums[2 * n], scale = coefficient * ep.experts;
  if (tokens == 0) return 0;
  double loss = 0;
  for (size_t e = 0; e < n; ++e) {
    const double share = sums[n + e] / (tokens * ep.choices);
    loss += scale * share * sums[e] / tokens;
    here[e] = static_cast<T>(scale * share / tokens);
  }
  if (gradient != nullptr) {
    putBytes(device, row.data(), here.data(), n * sizeof(T));
    addMatrix<T>(device, gradient, ep.experts, row.data(), 0, ep.tokens, ep.experts);
  }
  return loss;
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiEpCreate(tuttiEp_t* ep, tuttiComm_t comm, const tuttiEpConfig_t* config) {
  return guardedIf(ep != nullptr, "ep is NULL", [&] {
    *ep = nullptr;
    const auto c = takeConfig<tuttiEpConfig_t>(config, TUTTI_EP_CONFIG_INITIALIZER, "config");
    require(c.experts >= 1 && c.choices >= 1 && c.choices <= c.experts, c.choices, " choices among ", c.experts,
            " experts");
    require(c.capacity >= 0, "capacity is ", c.capacity);
    const int kind = kindOf(c.device);
    auto made = std::make_unique<tuttiEp>(deviceOf(comm, kind), comm);
    require(c.device == TUTTI_DEVICE_AUTO || kindOf(*made->device) == kind, "device is ", c.device,
            ", and the communicator computes elsewhere");
    made->experts = c.experts;
    made->choices = c.choices;
    made->capacity = c.capacity;
    made->owners = evenCuts(c.experts, 1, made->group.size());
    if (c.owners != nullptr) {
      checkCuts(c.owners, made->group.size(), c.experts, "owners");
      std::copy_n(c.owners, made->owners.size(), made->owners.begin());
    }
    made->sendRows.assign(static_cast<size_t>(made->group.size()), 0);
    made->receiveRows = made->sendRows;
    *ep = made.release();
  });
}

tuttiResult_t tuttiEpDestroy(tuttiEp_t ep) {
  return guarded([&] { delete ep; });
}

tuttiResult_t tuttiEpRoute(tuttiEp_t ep, const tuttiTensor_t* ids, int64_t* received, int64_t* perExpert) {
  return guardedIf(ep != nullptr && ids != nullptr && received != nullptr, "ep, ids or received is NULL", [&] {
    require(ids->nDims == 2 && ids->shape[1] == ep->choices, "ids is not a matrix of ", ep->choices, " columns");
    const int64_t nPairs = ids->shape[0] * ep->choices;
    checkContiguous(ids, "ids", nPairs, tuttiInt32,
                    ids->device == kindOf(*ep->device) ? ids->device : TUTTI_DEVICE_HOST);
    require(nPairs <= INT32_MAX, nPairs, " tokens times choices are more than 2^31 - 1");
    const int32_t* read = static_cast<const int32_t*>(ids->data);
    std::vector<int32_t> fetched;
    if (ids->device != TUTTI_DEVICE_HOST) {
      fetched.resize(static_cast<size_t>(nPairs));
      getBytes(*ep->device, fetched.data(), read, fetched.size() * sizeof(int32_t));
      read = fetched.data();
    }
    ep->tokens = ids->shape[0];
    const tuttiTraffic_t before = ep->group.traffic;
    route(*ep, read, perExpert);
    ep->group.traffic = before;  // counts of rows are no tokens
    *received = ep->received();
  });
}

tuttiResult_t tuttiEpRowsFrom(tuttiEp_t ep, int64_t* rows) {
  return guardedIf(ep != nullptr && rows != nullptr, "ep or rows is NULL", [&] {
    const size_t n = static_cast<size_t>(ep->group.size()), here = static_cast<size_t>(ep->here());
    for (size_t e = 0; e < here; ++e) {
      for (size_t r = 0; r < n; ++r) rows[e * n + r] = ep->incoming.empty() ? 0 : ep->incoming[r * here + e];
    }
  });
}

tuttiResult_t tuttiEpDropped(tuttiEp_t ep, int64_t* dropped) {
  return guardedIf(ep != nullptr && dropped != nullptr, "ep or dropped is NULL", [&] { *dropped = ep->dropped; });
}

tuttiResult_t tuttiEpDispatch(tuttiEp_t ep, const tuttiTensor_t* x, const tuttiTensor_t* y) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, x, "x", y, "y", &width);
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      toExperts(*ep, width, static_cast<const T*>(x->data), ep->choices, static_cast<T*>(y->data));
    });
  });
}

tuttiResult_t tuttiEpDispatchBackward(tuttiEp_t ep, const tuttiTensor_t* dy, const tuttiTensor_t* dx) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, dx, "dx", dy, "dy", &width);
    withType(dx->dtype, [&](auto zero) {
      using T = decltype(zero);
      Array<T> pairs(*ep->device, static_cast<size_t>(ep->tokens * ep->choices * width), Array<T>::Any);
      fromExperts(*ep, width, static_cast<const T*>(dy->data), pairs.data());
      launch<T, Kernel::CombineRows>(
          *ep->device, {dx->data, pairs.data(), nullptr, nullptr, nullptr, ep->tokens, ep->choices, width});
    });
  });
}

tuttiResult_t tuttiEpCombine(tuttiEp_t ep, const tuttiTensor_t* y, const tuttiTensor_t* weights,
                             const tuttiTensor_t* out, void* kept) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, out, "out", y, "y", &width);
    const int64_t nPairs = ep->tokens * ep->choices;
    checkContiguous(weights, "weights", nPairs, out->dtype, kindOf(*ep->device));
    require(kept != nullptr || nPairs * width == 0, "kept is NULL");
    withType(out->dtype, [&](auto zero) {
      using T = decltype(zero);
      fromExperts(*ep, width, static_cast<const T*>(y->data), static_cast<T*>(kept));
      launch<T, Kernel::CombineRows>(
          *ep->device, {out->data, kept, nullptr, weights->data, nullptr, ep->tokens, ep->choices, width});
    });
  });
}

tuttiResult_t tuttiEpCombineBackward(tuttiEp_t ep, const tuttiTensor_t* dout, const tuttiTensor_t* weights,
                                     const void* kept, const tuttiTensor_t* dy, const tuttiTensor_t* dweights) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, dout, "dout", dy, "dy", &width);
    const int64_t nPairs = ep->tokens * ep->choices;
    checkContiguous(weights, "weights", nPairs, dout->dtype, kindOf(*ep->device));
    checkContiguous(dweights, "dweights", nPairs, dout->dtype, kindOf(*ep->device));
    require(kept != nullptr || nPairs * width == 0, "kept is NULL");
    withType(dout->dtype, [&](auto zero) {
      using T = decltype(zero);
      Array<T> pairs(*ep->device, static_cast<size_t>(nPairs * width), Array<T>::Any);
      launch<T, Kernel::CombineGradient>(
          *ep->device, {dout->data, pairs.data(), dweights->data, weights->data, kept, ep->tokens, ep->choices, width});
      toExperts<T>(*ep, width, pairs.data(), 1, static_cast<T*>(dy->data));
    });
  });
}

tuttiResult_t tuttiEpBalanceLoss(tuttiEp_t ep, const tuttiTensor_t* probabilities, double coefficient, int allRanks,
                                 double* loss, const tuttiTensor_t* dprobabilities) {
  return guarded([&] {
    require(ep != nullptr && probabilities != nullptr && loss != nullptr, "ep, probabilities or loss is NULL");
    require(static_cast<int>(ep->asked.size()) == ep->experts, "there are no routes yet: tuttiEpRoute comes first");
    const int64_t count = ep->tokens * ep->experts;
    const int kind = kindOf(*ep->device);
    checkContiguous(probabilities, "probabilities", count, probabilities->dtype, kind);
    if (dprobabilities != nullptr) {
      checkContiguous(dprobabilities, "dprobabilities", count, probabilities->dtype, kind);
    }
    withType(probabilities->dtype, [&](auto zero) {
      using T = decltype(zero);
      *loss = balanceLoss(*ep, static_cast<const T*>(probabilities->data), coefficient, allRanks != 0,
                          dprobabilities == nullptr ? nullptr : static_cast<T*>(dprobabilities->data));
    });
  });
}

tuttiResult_t tuttiEpTraffic(tuttiEp_t ep, int64_t width, tuttiDataType_t dtype, int back, tuttiTraffic_t* counted,
                             tuttiTraffic_t* expected) {
  return guardedIf(ep != nullptr && width >= 0, "ep is NULL", [&] {
    if (counted != nullptr) giveTraffic(ep->group.traffic, counted);
    if (expected == nullptr) return;
    tuttiTraffic_t formula = TUTTI_TRAFFIC_INITIALIZER;
    uint64_t rows = 0;
    for (int r = 0; r < ep->group.size(); ++r) {
      if (r != ep->group.rank()) rows += (back ? ep->receiveRows : ep->sendRows)[static_cast<size_t>(r)];
    }
    const uint64_t bytes = rows * static_cast<uint64_t>(width) * bytesOf(dtype);
    if (ep->group.size() > 1) countCall(formula, tuttiCallAllToAllv, ep->group.size(), bytes);
    giveTraffic(formula, expected);
  });
}
