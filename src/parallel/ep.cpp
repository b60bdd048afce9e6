// Dispatch and combine of tokens over all-to-alls of uneven counts.
#include "tutti/parallel/ep.h"

#include <algorithm>
#include <memory>

#include "src/parallel/group.hpp"
#include "src/parallel/tensor.hpp"

using namespace tutti::parallel;

struct tuttiEp {
  explicit tuttiEp(tuttiComm_t comm) : group(comm) {}
  Group group;
  int experts = 0, choices = 1;
  int64_t capacity = 0;
  std::vector<int64_t> owners;
  // Of the present routes:
  int64_t tokens = 0, dropped = 0;
  std::vector<int64_t> order;                 // (token, choice) pairs in the order in which they are sent
  std::vector<size_t> sendRows, receiveRows;  // per rank
  std::vector<int64_t> place;                 // of each received row, where it goes: by expert, then by rank
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
  std::vector<std::vector<int64_t>> byExpert(static_cast<size_t>(ep.experts));
  ep.dropped = 0;
  for (int64_t pair = 0; pair < ep.tokens * ep.choices; ++pair) {
    require(ids[pair] >= 0 && ids[pair] < ep.experts, "token ", pair / ep.choices, " asks for expert ", ids[pair],
            ", there are ", ep.experts);
    std::vector<int64_t>& list = byExpert[static_cast<size_t>(ids[pair])];
    if (ep.capacity > 0 && static_cast<int64_t>(list.size()) == ep.capacity) {
      ++ep.dropped;
    } else {
      list.push_back(pair);
    }
  }
  ep.order.clear();
  for (size_t e = 0; e < byExpert.size(); ++e) {
    counts[e] = static_cast<int64_t>(byExpert[e].size());
    ep.order.insert(ep.order.end(), byExpert[e].begin(), byExpert[e].end());
  }
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
  ep.group.allToAll(counts.data(), toEach, incoming.data(), fromEach, tuttiInt64);
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
      for (int64_t i = 0; i < incoming[r * here + e]; ++i) ep.place.push_back(first[r * here + e] + i);
    }
  }
}

/// rows of pairs [tokens * choices][width] (those that are sent) to rows by expert, or (back) the other way.
template <class T>
void exchange(tuttiEp& ep, bool back, int64_t width, T* pairs, T* rows) {
  std::vector<T> sent(ep.order.size() * static_cast<size_t>(width)), got(ep.place.size() * static_cast<size_t>(width));
  const std::vector<size_t> out = times(ep.sendRows, width), in = times(ep.receiveRows, width);
  if (back) {
    for (size_t i = 0; i < ep.place.size(); ++i)
      std::copy_n(rows + ep.place[i] * width, width, &got[i * static_cast<size_t>(width)]);
    ep.group.allToAll(got.data(), in, sent.data(), out, dtypeOf<T>());
    for (size_t i = 0; i < ep.order.size(); ++i)
      std::copy_n(&sent[i * static_cast<size_t>(width)], width, pairs + ep.order[i] * width);
    return;
  }
  for (size_t i = 0; i < ep.order.size(); ++i)
    std::copy_n(pairs + ep.order[i] * width, width, &sent[i * static_cast<size_t>(width)]);
  ep.group.allToAll(sent.data(), out, got.data(), in, dtypeOf<T>());
  for (size_t i = 0; i < ep.place.size(); ++i)
    std::copy_n(&got[i * static_cast<size_t>(width)], width, rows + ep.place[i] * width);
}

/// Columns of a contiguous matrix of `rows`.
int64_t widthOf(const tuttiTensor_t* t, const char* what, int64_t rows, tuttiDataType_t dtype) {
  require(t != nullptr && t->nDims == 2, what, " is not a matrix");
  checkContiguous(t, what, rows * t->shape[1], dtype);
  require(t->shape[0] == rows, what, " has ", t->shape[0], " rows, not ", rows);
  return t->shape[1];
}

void checkPair(const tuttiEp* ep, const tuttiTensor_t* mine, const char* mineName, const tuttiTensor_t* rows,
               const char* rowsName, int64_t* width) {
  require(ep != nullptr && mine != nullptr, "ep or ", mineName, " is NULL");
  *width = widthOf(mine, mineName, ep->tokens, mine->dtype);
  require(widthOf(rows, rowsName, ep->received(), mine->dtype) == *width, mineName, " and ", rowsName,
          " have different widths");
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiEpCreate(tuttiEp_t* ep, tuttiComm_t comm, const tuttiEpConfig_t* config) {
  return guarded([&] {
    require(ep != nullptr, "ep is NULL");
    *ep = nullptr;
    const auto c = takeConfig<tuttiEpConfig_t>(config, TUTTI_EP_CONFIG_INITIALIZER, "config");
    require(c.experts >= 1 && c.choices >= 1 && c.choices <= c.experts, c.choices, " choices among ", c.experts,
            " experts");
    require(c.capacity >= 0, "capacity is ", c.capacity);
    auto made = std::make_unique<tuttiEp>(comm);
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
  return guarded([&] {
    require(ep != nullptr && ids != nullptr && received != nullptr, "ep, ids or received is NULL");
    require(ids->nDims == 2 && ids->shape[1] == ep->choices, "ids is not a matrix of ", ep->choices, " columns");
    checkContiguous(ids, "ids", ids->shape[0] * ep->choices, tuttiInt32);
    ep->tokens = ids->shape[0];
    const tuttiTraffic_t before = ep->group.traffic;
    route(*ep, static_cast<const int32_t*>(ids->data), perExpert);
    ep->group.traffic = before;  // counts of rows are no tokens
    *received = ep->received();
  });
}

tuttiResult_t tuttiEpRowsFrom(tuttiEp_t ep, int64_t* rows) {
  return guarded([&] {
    require(ep != nullptr && rows != nullptr, "ep or rows is NULL");
    const size_t n = static_cast<size_t>(ep->group.size()), here = static_cast<size_t>(ep->here());
    for (size_t e = 0; e < here; ++e) {
      for (size_t r = 0; r < n; ++r) rows[e * n + r] = ep->incoming.empty() ? 0 : ep->incoming[r * here + e];
    }
  });
}

tuttiResult_t tuttiEpDropped(tuttiEp_t ep, int64_t* dropped) {
  return guarded([&] {
    require(ep != nullptr && dropped != nullptr, "ep or dropped is NULL");
    *dropped = ep->dropped;
  });
}

tuttiResult_t tuttiEpDispatch(tuttiEp_t ep, const tuttiTensor_t* x, const tuttiTensor_t* y) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, x, "x", y, "y", &width);
    withType(x->dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> pairs(static_cast<size_t>(ep->tokens * ep->choices * width));
      for (int64_t pair = 0; pair < ep->tokens * ep->choices; ++pair) {
        std::copy_n(static_cast<const T*>(x->data) + pair / ep->choices * width, width, pairs.data() + pair * width);
      }
      exchange(*ep, false, width, pairs.data(), static_cast<T*>(y->data));
    });
  });
}

tuttiResult_t tuttiEpDispatchBackward(tuttiEp_t ep, const tuttiTensor_t* dy, const tuttiTensor_t* dx) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, dx, "dx", dy, "dy", &width);
    withType(dx->dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> pairs(static_cast<size_t>(ep->tokens * ep->choices * width));
      exchange(*ep, true, width, pairs.data(), static_cast<T*>(dy->data));
      T* to = static_cast<T*>(dx->data);
      std::fill_n(to, ep->tokens * width, T(0));
      for (int64_t pair = 0; pair < ep->tokens * ep->choices; ++pair) {
        addInto(to + pair / ep->choices * width, pairs.data() + pair * width, static_cast<size_t>(width));
      }
    });
  });
}

tuttiResult_t tuttiEpCombine(tuttiEp_t ep, const tuttiTensor_t* y, const tuttiTensor_t* weights,
                             const tuttiTensor_t* out, void* kept) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, out, "out", y, "y", &width);
    const int64_t nPairs = ep->tokens * ep->choices;
    checkContiguous(weights, "weights", nPairs, out->dtype);
    require(kept != nullptr || nPairs * width == 0, "kept is NULL");
    withType(out->dtype, [&](auto zero) {
      using T = decltype(zero);
      T *pairs = static_cast<T*>(kept), *to = static_cast<T*>(out->data);
      const T* w = static_cast<const T*>(weights->data);
      std::fill_n(pairs, nPairs * width, T(0));
      exchange(*ep, true, width, pairs, static_cast<T*>(y->data));
      std::fill_n(to, ep->tokens * width, T(0));
      for (int64_t pair = 0; pair < nPairs; ++pair) {
        for (int64_t i = 0; i < width; ++i) to[pair / ep->choices * width + i] += w[pair] * pairs[pair * width + i];
      }
    });
  });
}

tuttiResult_t tuttiEpCombineBackward(tuttiEp_t ep, const tuttiTensor_t* dout, const tuttiTensor_t* weights,
                                     const void* kept, const tuttiTensor_t* dy, const tuttiTensor_t* dweights) {
  return guarded([&] {
    int64_t width = 0;
    checkPair(ep, dout, "dout", dy, "dy", &width);
    const int64_t nPairs = ep->tokens * ep->choices;
    checkContiguous(weights, "weights", nPairs, dout->dtype);
    checkContiguous(dweights, "dweights", nPairs, dout->dtype);
    require(kept != nullptr || nPairs * width == 0, "kept is NULL");
    withType(dout->dtype, [&](auto zero) {
      using T = decltype(zero);
      const T *d = static_cast<const T*>(dout->data), *w = static_cast<const T*>(weights->data);
      std::vector<T> pairs(static_cast<size_t>(nPairs * width));
      for (int64_t pair = 0; pair < nPairs; ++pair) {
        T dot = 0;
        for (int64_t i = 0; i < width; ++i) {
          const T slope = d[pair / ep->choices * width + i];
          pairs[static_cast<size_t>(pair * width + i)] = w[pair] * slope;
          dot += slope * static_cast<const T*>(kept)[pair * width + i];
        }
        static_cast<T*>(dweights->data)[pair] = dot;
      }
      exchange(*ep, false, width, pairs.data(), static_cast<T*>(dy->data));
    });
  });
}

tuttiResult_t tuttiEpTraffic(tuttiEp_t ep, int64_t width, tuttiDataType_t dtype, int back, tuttiTraffic_t* counted,
                             tuttiTraffic_t* expected) {
  return guarded([&] {
    require(ep != nullptr && width >= 0, "ep is NULL");
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
