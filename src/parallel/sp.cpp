// Ulysses' all-to-alls around a ring (or a gather) of keys and values.
#include "src/parallel/sp.hpp"

#include <algorithm>
#include <limits>

using namespace tutti::parallel;

namespace tutti::parallel {
namespace {

/// This rank's tokens of all heads to all tokens of this rank's heads, or (back) the other way.  `columns` per group.
template <class T>
void exchange(tuttiSp& sp, bool back, int64_t columns, const T* from, T* to) {
  const size_t n = static_cast<size_t>(sp.ulysses.size()), me = static_cast<size_t>(sp.ulysses.rank());
  const int64_t batch = sp.config.batch, own = sp.own(), whole = sp.whole(),
                mine = sp.groupCuts[me + 1] - sp.groupCuts[me];
  std::vector<size_t> byHeads(n), byTokens(n);  // what goes with each rank's heads, and with its tokens
  for (size_t r = 0; r < n; ++r) {
    byHeads[r] = static_cast<size_t>(batch * own * (sp.groupCuts[r + 1] - sp.groupCuts[r]) * columns);
    byTokens[r] = static_cast<size_t>(batch * (sp.tokenCuts[r + 1] - sp.tokenCuts[r]) * mine * columns);
  }
  std::vector<T> heads(static_cast<size_t>(batch * own * sp.groupCuts[n] * columns));
  std::vector<T> tokens(static_cast<size_t>(batch * whole * mine * columns));
  // Blocks by rank on one side, a matrix on the other.
  const auto eachHead = [&](const auto& move) {
    T* at = heads.data();
    for (size_t r = 0; r < n; ++r) {
      const int64_t width = (sp.groupCuts[r + 1] - sp.groupCuts[r]) * columns;
      for (int64_t row = 0; row < batch * own; ++row, at += width) {
        move(at, row * sp.groupCuts[n] * columns + sp.groupCuts[r] * columns, width);
      }
    }
  };
  const auto eachToken = [&](const auto& move) {
    T* at = tokens.data();
    for (size_t r = 0; r < n; ++r) {
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t t = sp.tokenCuts[r]; t < sp.tokenCuts[r + 1]; ++t, at += mine * columns) {
          move(at, (b * whole + t) * mine * columns, mine * columns);
        }
      }
    }
  };
  const auto pack = [from](T* at, int64_t place, int64_t width) { std::copy_n(from + place, width, at); };
  const auto unpack = [to](const T* at, int64_t place, int64_t width) { std::copy_n(at, width, to + place); };
  if (back) {
    eachToken(pack);
    sp.ulysses.allToAll(tokens.data(), byTokens, heads.data(), byHeads, dtypeOf<T>());
    eachHead(unpack);
  } else {
    eachHead(pack);
    sp.ulysses.allToAll(heads.data(), byHeads, tokens.data(), byTokens, dtypeOf<T>());
    eachToken(unpack);
  }
}

/// Keys and values (or those and their gradients) on their way round the ring.
template <class T>
class Ring {
 public:
  /// `tensors` of keySize elements each travel together.
  Ring(tuttiSp& sp, int tensors) : sp_(sp), tensors_(tensors) {}
  ~Ring() {
    try {
      finish();
    } catch (...) {  // the step that failed has said so
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  /// What left rank `owner` is sent on, what left the one before it comes; ends with finish().
  void start(int owner, const T* mine, std::vector<T>& next) {
    Group& g = sp_.ring;
    const int n = g.size(), before = (owner + n - 1) % n;
    const size_t out = static_cast<size_t>(tensors_) * sp_.keySize(owner);
    const size_t in = static_cast<size_t>(tensors_) * sp_.keySize(before);
    next.resize(in);
    countCall(g.traffic, tuttiCallSend, n, out * sizeof(T));
    countCall(g.traffic, tuttiCallRecv, n, in * sizeof(T));
    T* to = next.data();
    const auto task = [&g, n, mine, out, to, in] {
      check(tuttiGroupStart(), g.comm());
      tuttiResult_t first = tuttiSuccess;
      if (out > 0) first = tuttiSend(mine, out, dtypeOf<T>(), (g.rank() + 1) % n, g.comm(), nullptr);
      if (in > 0 && first == tuttiSuccess) {
        first = tuttiRecv(to, in, dtypeOf<T>(), (g.rank() + n - 1) % n, g.comm(), nullptr);
      }
      const tuttiResult_t end = tuttiGroupEnd();
      check(first != tuttiSuccess ? first : end, g.comm());
    };
    if (sp_.worker != nullptr) {
      sp_.worker->post(task);
    } else {
      task();
    }
  }
  void finish() {
    if (sp_.worker != nullptr) sp_.worker->wait();
  }

 private:
  tuttiSp& sp_;
  int tensors_;
};

/// All ranks' blocks one after another, as gathered.
struct Gathered {
  std::vector<TokenBlock> blocks;
  std::vector<int64_t> cuts;
};
Gathered gatheredBlocks(const tuttiSp& sp) {
  Gathered g;
  g.blocks = {{0, sp.config.sequence, 0, 1}};
  g.cuts = {0};
  for (int r = 0; r < sp.ring.size(); ++r) {
    g.cuts.push_back(g.cuts.back() + sp.ringTokens(r) * sp.keyColumns() * sp.config.batch);
  }
  return g;
}

/// From blocks by rank, each [batch][its tokens], to [batch][sequence], or back.
template <class T>
void bySequence(const tuttiSp& sp, std::vector<T>& ranks, T* whole, bool back) {
  T* at = ranks.data();
  int64_t first = 0;
  for (int r = 0; r < sp.ring.size(); ++r) {
    const int64_t n = sp.ringTokens(r) * sp.keyColumns();
    for (int64_t b = 0; b < sp.config.batch; ++b, at += n) {
      T* place = whole + (b * sp.config.sequence + first) * sp.keyColumns();
      if (back) {
        std::copy_n(place, n, at);
      } else {
        std::copy_n(at, n, place);
      }
    }
    first += sp.ringTokens(r);
  }
}

template <class T>
std::vector<T> gatherKeys(tuttiSp& sp, const Gathered& g, const T* mine) {
  std::vector<T> ranks(static_cast<size_t>(g.cuts.back())), whole(ranks.size());
  std::copy_n(mine, sp.keySize(sp.ring.rank()), ranks.data() + g.cuts[static_cast<size_t>(sp.ring.rank())]);
  sp.ring.allGather(ranks.data(), g.cuts.data(), dtypeOf<T>());
  bySequence(sp, ranks, whole.data(), false);
  return whole;
}

template <class T>
struct Saved {
  T *q, *k, *v, *out, *lse;
  Saved(const tuttiSp& sp, T* at) {
    const size_t keys = sp.keySize(sp.ring.rank());
    q = at;
    k = q + sp.querySize();
    v = k + keys;
    out = v + keys;
    lse = out + sp.querySize();
  }
};

template <class T>
Tokens<T> ofRank(const tuttiSp& sp, int rank, T* data, bool query) {
  return {&sp.blocks[static_cast<size_t>(rank)], data, sp.ringTokens(rank),
          query ? sp.queryColumns() : sp.keyColumns()};
}

template <class T>
void forward(tuttiSp& sp, const T* q, const T* k, const T* v, T* out, T* room) {
  const Saved<T> s(sp, room);
  const int64_t d = sp.config.headDim;
  exchange(sp, false, sp.perGroup() * d, q, s.q);
  exchange(sp, false, d, k, s.k);
  exchange(sp, false, d, v, s.v);
  std::fill_n(s.out, sp.querySize(), T(0));
  std::fill_n(s.lse, sp.lseSize(), -std::numeric_limits<T>::infinity());
  const int me = sp.ring.rank(), n = sp.ring.size();
  const Tokens<T> queries = ofRank(sp, me, s.q, true), outs = ofRank(sp, me, s.out, true);
  if (sp.gathers() && n > 1) {
    const Gathered g = gatheredBlocks(sp);
    std::vector<T> keys = gatherKeys<T>(sp, g, s.k), values = gatherKeys<T>(sp, g, s.v);
    const auto all = [&](std::vector<T>& x) {
      return Tokens<T>{&g.blocks, x.data(), sp.config.sequence, sp.keyColumns()};
    };
    attendTo<T>(sp.part, queries, all(keys), all(values), outs, s.lse);
  } else {
    std::vector<T> here(s.k, s.k + 2 * sp.keySize(me)), next;
    Ring<T> ring(sp, 2);
    for (int hop = 0; hop < n; ++hop) {
      const int owner = (me + n - hop) % n;
      if (hop + 1 < n) ring.start(owner, here.data(), next);
      attendTo<T>(sp.part, queries, ofRank(sp, owner, here.data(), false),
                  ofRank(sp, owner, here.data() + sp.keySize(owner), false), outs, s.lse);
      ring.finish();
      here.swap(next);
    }
  }
  exchange(sp, true, sp.perGroup() * d, s.out, out);
}

/// Gradients of keys and values are sums over leaves of queries, added along the tree wherever the leaves are.
template <class T>
void backwardInLeaves(tuttiSp& sp, const Saved<T>& s, Tokens<T> outs, Tokens<T> douts, Tokens<T> dqs,
                      std::vector<T>& home) {
  const Gathered g = gatheredBlocks(sp);
  std::vector<T> keys = gatherKeys<T>(sp, g, s.k), values = gatherKeys<T>(sp, g, s.v);
  const size_t me = static_cast<size_t>(sp.ring.rank());
  const LeafRange run{sp.leafRuns[me], sp.leafRuns[me + 1]};
  LeafCounter<T> dk(hostDevice(), sp.config.leaves, run, keys.size()),
      dv(hostDevice(), sp.config.leaves, run, keys.size());
  std::vector<T> leafK(keys.size()), leafV(keys.size()), ranks(keys.size());
  const auto all = [&](std::vector<T>& x) {
    return Tokens<T>{&g.blocks, x.data(), sp.config.sequence, sp.keyColumns()};
  };
  const int64_t first = sp.leafCuts[static_cast<size_t>(run.begin)];
  for (int64_t leaf = run.begin; leaf < run.end; ++leaf) {
    const int64_t begin = sp.leafCuts[static_cast<size_t>(leaf)], end = sp.leafCuts[static_cast<size_t>(leaf) + 1];
    const std::vector<TokenBlock> block = {{begin - first, end - begin, begin, 1}};
    const auto part = [&](Tokens<T> t) { return Tokens<T>{&block, t.data, t.tokens, t.columns}; };
    std::fill(leafK.begin(), leafK.end(), T(0));
    std::fill(leafV.begin(), leafV.end(), T(0));
    attendBackward<T>(sp.part, part(ofRank(sp, sp.ring.rank(), s.q, true)), all(keys), all(values), part(outs), s.lse,
                      part(douts), part(dqs), all(leafK), all(leafV));
    bySequence(sp, ranks, leafK.data(), true);
    dk.add(ranks.data(), 0, ranks.size());
    dk.advance();
    bySequence(sp, ranks, leafV.data(), true);
    dv.add(ranks.data(), 0, ranks.size());
    dv.advance();
  }
  sp.ring.treeReduceScatter(dk.sums(), home.data(), sp.leafRuns.data(), g.cuts.data());
  sp.ring.treeReduceScatter(dv.sums(), home.data() + sp.keySize(sp.ring.rank()), sp.leafRuns.data(), g.cuts.data());
}

template <class T>
void backward(tuttiSp& sp, const T* room, const T* doutHere, T* dqHere, T* dkHere, T* dvHere) {
  const Saved<T> s(sp, const_cast<T*>(room));
  const int64_t d = sp.config.headDim;
  const int me = sp.ring.rank(), n = sp.ring.size();
  std::vector<T> dout(sp.querySize()), dq(sp.querySize()), home(2 * sp.keySize(me));
  exchange(sp, false, sp.perGroup() * d, doutHere, dout.data());
  const Tokens<T> queries = ofRank(sp, me, s.q, true), outs = ofRank(sp, me, s.out, true);
  const Tokens<T> douts = ofRank(sp, me, dout.data(), true), dqs = ofRank(sp, me, dq.data(), true);
  if (sp.inLeaves()) {
    backwardInLeaves<T>(sp, s, outs, douts, dqs, home);
  } else if (sp.config.gather && n > 1) {
    const Gathered g = gatheredBlocks(sp);
    std::vector<T> keys = gatherKeys<T>(sp, g, s.k), values = gatherKeys<T>(sp, g, s.v);
    std::vector<T> dk(keys.size()), dv(keys.size()), ranks(keys.size());
    const auto all = [&](std::vector<T>& x) {
      return Tokens<T>{&g.blocks, x.data(), sp.config.sequence, sp.keyColumns()};
    };
    attendBackward<T>(sp.part, queries, all(keys), all(values), outs, s.lse, douts, dqs, all(dk), all(dv));
    bySequence(sp, ranks, dk.data(), true);
    sp.ring.reduceScatter(ranks.data(), home.data(), g.cuts.data(), dtypeOf<T>());
    bySequence(sp, ranks, dv.data(), true);
    sp.ring.reduceScatter(ranks.data(), home.data() + sp.keySize(me), g.cuts.data(), dtypeOf<T>());
  } else {
    std::vector<T> here(s.k, s.k + 2 * sp.keySize(me)), next, gradients(here.size()), nextGradients;
    Ring<T> ring(sp, 2), back(sp, 2);
    for (int hop = 0; hop < n; ++hop) {
      const int owner = (me + n - hop) % n;
      const size_t size = sp.keySize(owner);
      if (hop + 1 < n) ring.start(owner, here.data(), next);
      attendBackward<T>(sp.part, queries, ofRank(sp, owner, here.data(), false),
                        ofRank(sp, owner, here.data() + size, false), outs, s.lse, douts, dqs,
                        ofRank(sp, owner, gradients.data(), false), ofRank(sp, owner, gradients.data() + size, false));
      ring.finish();
      if (n > 1) {  // the last hop brings them home
        back.start(owner, gradients.data(), nextGradients);
        back.finish();
        gradients.swap(nextGradients);
      }
      here.swap(next);
    }
    home = gradients;
  }
  exchange(sp, true, sp.perGroup() * d, dq.data(), dqHere);
  exchange(sp, true, d, home.data(), dkHere);
  exchange(sp, true, d, home.data() + sp.keySize(me), dvHere);
}

void checkConfig(const tuttiSpConfig_t& c, int nRanks) {
  require(c.sequence >= nRanks && c.batch >= 0, "a sequence of ", c.sequence, " tokens over ", nRanks, " ranks");
  require(c.kvHeads >= 1 && c.heads >= 1 && c.heads % c.kvHeads == 0 && c.headDim >= 1, c.heads, " heads, ", c.kvHeads,
          " of keys, of ", c.headDim);
  require(c.tokens >= tuttiTokensContiguous && c.tokens <= tuttiTokensStriped, "tokens is ", c.tokens);
  require(c.leaves >= 0 && c.leaves <= 1024, "leaves is ", c.leaves, "; 0 to 1024");
  require(!c.gather || c.tokens == tuttiTokensContiguous, "gathered keys take contiguous tokens");
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiSpCreate(tuttiSp_t* sp, tuttiComm_t ulysses, tuttiComm_t ring, const tuttiSpConfig_t* config) {
  return guarded([&] {
    require(sp != nullptr, "sp is NULL");
    *sp = nullptr;
    auto made = std::make_unique<tuttiSp>(ulysses, ring);
    made->config = takeConfig(config, made->config, "config");
    const tuttiSpConfig_t& c = made->config;
    checkConfig(c, made->ulysses.size() * made->ring.size());
    for (int r = 0; r < made->ring.size(); ++r) {
      made->blocks.push_back(tokenBlocks(c.tokens, c.sequence, r, made->ring.size()));
    }
    if (c.leaves > 0) cutIntoLeaves(*made);
    made->tokenCuts = evenCuts(made->whole(), 1, made->ulysses.size());
    made->groupCuts = evenCuts(c.kvHeads, 1, made->ulysses.size());
    const size_t me = static_cast<size_t>(made->ulysses.rank());
    tuttiAttention_t& s = made->part.shape;
    s.batch = c.batch;
    s.kvHeads = made->groupCuts[me + 1] - made->groupCuts[me];
    s.heads = s.kvHeads * made->perGroup();
    s.headDim = c.headDim;
    s.causal = c.causal;
    s.scale = c.scale;
    if (c.kernels != nullptr) {
      made->part.kernels = takeConfig(c.kernels, made->part.kernels, "kernels");
    } else if (tuttiKernelsFast(&made->part.kernels) != tuttiSuccess) {
      fail(tuttiInternalError, tuttiParallelGetLastError());
    }
    made->config.kernels = nullptr;
    if (c.overlap && made->ring.size() > 1) made->worker = std::make_unique<Worker>();
    *sp = made.release();
  });
}

tuttiResult_t tuttiSpDestroy(tuttiSp_t sp) {
  return guarded([&] { delete sp; });
}

tuttiResult_t tuttiSpTokens(tuttiSp_t sp, int64_t* count, int64_t* positions) {
  return guarded([&] {
    require(sp != nullptr && count != nullptr, "sp or count is NULL");
    *count = sp->own();
    if (positions == nullptr) return;
    std::vector<int64_t> all;
    for (const TokenBlock& b : sp->blocks[static_cast<size_t>(sp->ring.rank())]) {
      for (int64_t i = 0; i < b.count; ++i) all.push_back(b.first + i * b.step);
    }
    std::copy_n(all.begin() + sp->tokenCuts[static_cast<size_t>(sp->ulysses.rank())], *count, positions);
  });
}

tuttiResult_t tuttiSpSaved(tuttiSp_t sp, size_t* count) {
  return guarded([&] {
    require(sp != nullptr && count != nullptr, "sp or count is NULL");
    *count = sp->savedSize();
  });
}

tuttiResult_t tuttiSpForward(tuttiSp_t sp, const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                             const tuttiTensor_t* out, void* saved) {
  return guarded([&] {
    require(sp != nullptr && q != nullptr && (saved != nullptr || sp->savedSize() == 0), "sp, q or saved is NULL");
    const int64_t rows = sp->config.batch * sp->own(), d = sp->config.headDim;
    checkContiguous(q, "q", rows * sp->config.heads * d, q->dtype);
    checkContiguous(out, "out", rows * sp->config.heads * d, q->dtype);
    checkContiguous(k, "k", rows * sp->config.kvHeads * d, q->dtype);
    checkContiguous(v, "v", rows * sp->config.kvHeads * d, q->dtype);
    withType(q->dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto data = [](const tuttiTensor_t* t) { return static_cast<T*>(t->data); };
      forward<T>(*sp, data(q), data(k), data(v), data(out), static_cast<T*>(saved));
    });
  });
}

tuttiResult_t tuttiSpBackward(tuttiSp_t sp, const void* saved, const tuttiTensor_t* dout, const tuttiTensor_t* dq,
                              const tuttiTensor_t* dk, const tuttiTensor_t* dv) {
  return guarded([&] {
    require(sp != nullptr && dout != nullptr && (saved != nullptr || sp->savedSize() == 0),
            "sp, dout or saved is NULL");
    const int64_t rows = sp->config.batch * sp->own(), d = sp->config.headDim;
    checkContiguous(dout, "dout", rows * sp->config.heads * d, dout->dtype);
    checkContiguous(dq, "dq", rows * sp->config.heads * d, dout->dtype);
    checkContiguous(dk, "dk", rows * sp->config.kvHeads * d, dout->dtype);
    checkContiguous(dv, "dv", rows * sp->config.kvHeads * d, dout->dtype);
    withType(dout->dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto data = [](const tuttiTensor_t* t) { return static_cast<T*>(t->data); };
      backward<T>(*sp, static_cast<const T*>(saved), data(dout), data(dq), data(dk), data(dv));
    });
  });
}

tuttiResult_t tuttiSpTraffic(tuttiSp_t sp, tuttiDataType_t dtype, tuttiTraffic_t* counted, tuttiTraffic_t* expected) {
  return guarded([&] {
    require(sp != nullptr, "sp is NULL");
    tuttiTraffic_t both = sp->ulysses.traffic, formula = TUTTI_TRAFFIC_INITIALIZER;
    addTraffic(both, sp->ring.traffic);
    if (counted != nullptr) giveTraffic(both, counted);
    if (expected == nullptr) return;
    predictSp(*sp, bytesOf(dtype), formula);
    giveTraffic(formula, expected);
  });
}

tuttiResult_t tuttiSpBalance(tuttiSp_t sp, double* balance) {
  return guarded([&] {
    require(sp != nullptr && balance != nullptr, "sp or balance is NULL");
    int64_t most = 0, sum = 0;
    // The ring goes in step: what counts is the most that any rank has at each hop.
    const int n = sp->ring.size();
    for (int hop = 0; hop < n; ++hop) {
      int64_t slowest = 0;
      for (int r = 0; r < n; ++r) {
        const int64_t work = visibleEntries(sp->blocks[static_cast<size_t>(r)],
                                            sp->blocks[static_cast<size_t>((r + n - hop) % n)], sp->config.causal != 0);
        slowest = std::max(slowest, work);
        sum += work;
      }
      most += slowest;
    }
    *balance = most == 0 ? 1 : static_cast<double>(sum) / n / static_cast<double>(most);
  });
}
