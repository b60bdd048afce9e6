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
  Device& device = *sp.device;
  Array<T> heads(device, static_cast<size_t>(batch * own * sp.groupCuts[n] * columns), Array<T>::Any);
  Array<T> tokens(device, static_cast<size_t>(batch * whole * mine * columns), Array<T>::Any);
  // Blocks by rank on one side, a matrix on the other: move(block, matrix, stride of the matrix, rows, columns).
  const auto eachHead = [&](const auto& move) {
    T* at = heads.data();
    for (size_t r = 0; r < n; ++r) {
      const int64_t width = (sp.groupCuts[r + 1] - sp.groupCuts[r]) * columns;
      move(at, sp.groupCuts[r] * columns, sp.groupCuts[n] * columns, batch * own, width);
      at += batch * own * width;
    }
  };
  const auto eachToken = [&](const auto& move) {
    T* at = tokens.data();
    for (size_t r = 0; r < n; ++r) {
      const int64_t width = (sp.tokenCuts[r + 1] - sp.tokenCuts[r]) * mine * columns;
      move(at, sp.tokenCuts[r] * mine * columns, whole * mine * columns, batch, width);
      at += batch * width;
    }
  };
  const auto pack = [&](T* at, int64_t place, int64_t stride, int64_t rows, int64_t width) {
    if (rows * width != 0) copyMatrix(device, at, width, from + place, stride, rows, width);
  };
  const auto unpack = [&](T* at, int64_t place, int64_t stride, int64_t rows, int64_t width) {
    if (rows * width != 0) copyMatrix<T>(device, to + place, stride, at, width, rows, width);
  };
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
  void start(int owner, const T* mine, Array<T>& next) {
    Group& g = sp_.ring;
    const int n = g.size(), before = (owner + n - 1) % n;
    const size_t out = static_cast<size_t>(tensors_) * sp_.keySize(owner);
    const size_t in = static_cast<size_t>(tensors_) * sp_.keySize(before);
    next = Array<T>(g.device(), in, Array<T>::Any);
    countCall(g.traffic, tuttiCallSend, n, out * sizeof(T));
    countCall(g.traffic, tuttiCallRecv, n, in * sizeof(T));
    T* to = next.data();
    const auto task = [&g, n, mine, out, to, in] {
      check(tuttiGroupStart(), g.comm());
      tuttiResult_t first = tuttiSuccess;
      if (out > 0) first = tuttiSend(mine, out, dtypeOf<T>(), (g.rank() + 1) % n, g.comm(), streamOf(g.device()));
      if (in > 0 && first == tuttiSuccess) {
        first = tuttiRecv(to, in, dtypeOf<T>(), (g.rank() + n - 1) % n, g.comm(), streamOf(g.device()));
      }
      const tuttiResult_t end = tuttiGroupEnd();
      check(first != tuttiSuccess ? first : end, g.comm());
    };
    sp_.sender->post(task);
  }
  void finish() { sp_.sender->waitForPosted(); }

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
void bySequence(const tuttiSp& sp, T* ranks, T* whole, bool back) {
  int64_t first = 0;
  for (int r = 0; r < sp.ring.size(); ++r) {
    const int64_t n = sp.ringTokens(r) * sp.keyColumns(), stride = sp.config.sequence * sp.keyColumns();
    T* place = whole + first * sp.keyColumns();
    if (back) {
      copyMatrix<T>(*sp.device, ranks, n, place, stride, sp.config.batch, n);
    } else {
      copyMatrix<T>(*sp.device, place, stride, ranks, n, sp.config.batch, n);
    }
    ranks += n * sp.config.batch;
    first += sp.ringTokens(r);
  }
}

template <class T>
Array<T> gatherKeys(tuttiSp& sp, const Gathered& g, const T* mine) {
  const size_t count = static_cast<size_t>(g.cuts.back());
  Array<T> ranks(*sp.device, count, Array<T>::Any), whole(*sp.device, count, Array<T>::Any);
  copyBytes(*sp.device, ranks.data() + g.cuts[static_cast<size_t>(sp.ring.rank())], mine,
            sp.keySize(sp.ring.rank()) * sizeof(T));
  sp.ring.allGather(ranks.data(), g.cuts.data(), dtypeOf<T>());
  bySequence(sp, ranks.data(), whole.data(), false);
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
Array<T> copyOf(Device& device, const T* from, size_t count) {
  Array<T> made(device, count, Array<T>::Any);
  copyBytes(device, made.data(), from, count * sizeof(T));
  return made;
}

template <class T>
void forward(tuttiSp& sp, const T* q, const T* k, const T* v, T* out, T* room) {
  const Saved<T> s(sp, room);
  const int64_t d = sp.config.headDim;
  exchange(sp, false, sp.perGroup() * d, q, s.q);
  exchange(sp, false, d, k, s.k);
  exchange(sp, false, d, v, s.v);
  zeroBytes(*sp.device, s.out, sp.querySize() * sizeof(T));
  launch<T, Kernel::Fill>(*sp.device, {s.lse, nullptr, sp.lseSize(), -std::numeric_limits<double>::infinity()});
  const int me = sp.ring.rank(), n = sp.ring.size();
  const Tokens<T> queries = ofRank(sp, me, s.q, true), outs = ofRank(sp, me, s.out, true);
  if (sp.gathers() && n > 1) {
    const Gathered g = gatheredBlocks(sp);
    Array<T> keys = gatherKeys<T>(sp, g, s.k), values = gatherKeys<T>(sp, g, s.v);
    const auto all = [&](Array<T>& x) { return Tokens<T>{&g.blocks, x.data(), sp.config.sequence, sp.keyColumns()}; };
    attendTo<T>(sp.part, queries, all(keys), all(values), outs, s.lse);
  } else {
    Array<T> here = copyOf(*sp.device, s.k, 2 * sp.keySize(me)), next;
    Ring<T> ring(sp, 2);
    for (int hop = 0; hop < n; ++hop) {
      const int owner = (me + n - hop) % n;
      if (hop + 1 < n) ring.start(owner, here.data(), next);
      attendTo<T>(sp.part, queries, ofRank(sp, owner, here.data(), false),
                  ofRank(sp, owner, here.data() + sp.keySize(owner), false), outs, s.lse);
      ring.finish();
      here = std::move(next);
    }
  }
  exchange(sp, true, sp.perGroup() * d, s.out, out);
}

/// Gradients of keys and values are sums over leaves of queries, added along the tree wherever the leaves are.
template <class T>
void backwardInLeaves(tuttiSp& sp, const Saved<T>& s, Tokens<T> outs, Tokens<T> douts, Tokens<T> dqs, Array<T>& home) {
  const Gathered g = gatheredBlocks(sp);
  Array<T> keys = gatherKeys<T>(sp, g, s.k), values = gatherKeys<T>(sp, g, s.v);
  const size_t me = static_cast<size_t>(sp.ring.rank());
  const LeafRange run{sp.leafRuns[me], sp.leafRuns[me + 1]};
  Device& device = *sp.device;
  LeafCounter<T> dk(device, sp.config.leaves, run, keys.size()), dv(device, sp.config.leaves, run, keys.size());
  Array<T> leafK(device, keys.size(), Array<T>::Any), leafV(device, keys.size(), Array<T>::Any);
  Array<T> ranks(device, keys.size(), Array<T>::Any);
  const auto all = [&](Array<T>& x) { return Tokens<T>{&g.blocks, x.data(), sp.config.sequence, sp.keyColumns()}; };
  const int64_t first = sp.leafCuts[static_cast<size_t>(run.begin)];
  for (int64_t leaf = run.begin; leaf < run.end; ++leaf) {
    const int64_t begin = sp.leafCuts[static_cast<size_t>(leaf)], end = sp.leafCuts[static_cast<size_t>(leaf) + 1];
    const std::vector<TokenBlock> block = {{begin - first, end - begin, begin, 1}};
    const auto part = [&](Tokens<T> t) { return Tokens<T>{&block, t.data, t.tokens, t.columns}; };
    leafK.clear();
    leafV.clear();
    attendBackward<T>(sp.part, part(ofRank(sp, sp.ring.rank(), s.q, true)), all(keys), all(values), part(outs), s.lse,
                      part(douts), part(dqs), all(leafK), all(leafV));
    bySequence(sp, ranks.data(), leafK.data(), true);
    dk.add(ranks.data(), 0, ranks.size());
    dk.advance();
    bySequence(sp, ranks.data(), leafV.data(), true);
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
  Device& device = *sp.device;
  Array<T> dout(device, sp.querySize(), Array<T>::Any), dq(device, sp.querySize());
  exchange(sp, false, sp.perGroup() * d, doutHere, dout.data());
  Array<T> home;
  if (sp.gathers()) home = Array<T>(device, 2 * sp.keySize(me), Array<T>::Any);
  const Tokens<T> queries = ofRank(sp, me, s.q, true), outs = ofRank(sp, me, s.out, true);
  const Tokens<T> douts = ofRank(sp, me, dout.data(), true), dqs = ofRank(sp, me, dq.data(), true);
  if (sp.inLeaves()) {
    backwardInLeaves<T>(sp, s, outs, douts, dqs, home);
  } else if (sp.gathers()) {
    const Gathered g = gatheredBlocks(sp);
    Array<T> keys = gatherKeys<T>(sp, g, s.k), values = gatherKeys<T>(sp, g, s.v);
    Array<T> dk(device, keys.size()), dv(device, keys.size()), ranks(device, keys.size(), Array<T>::Any);
    const auto all = [&](Array<T>& x) { return Tokens<T>{&g.blocks, x.data(), sp.config.sequence, sp.keyColumns()}; };
    attendBackward<T>(sp.part, queries, all(keys), all(values), outs, s.lse, douts, dqs, all(dk), all(dv));
    bySequence(sp, ranks.data(), dk.data(), true);
    sp.ring.reduceScatter(ranks.data(), home.data(), g.cuts.data(), dtypeOf<T>());
    bySequence(sp, ranks.data(), dv.data(), true);
    sp.ring.reduceScatter(ranks.data(), home.data() + sp.keySize(me), g.cuts.data(), dtypeOf<T>());
  } else {
    Array<T> here = copyOf(device, s.k, 2 * sp.keySize(me)), next, gradients(device, here.size()), nextGradients;
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
        gradients = std::move(nextGradients);
      }
      here = std::move(next);
    }
    home = std::move(gradients);
  }
  exchange(sp, true, sp.perGroup() * d, dq.data(), dqHere);
  exchange(sp, true, d, home.data(), dkHere);
  exchange(sp, true, d, home.data() + sp.keySize(me), dvHere);
}

/// What a call holds at most, for tuttiSpMemory.
class Watch {
 public:
  explicit Watch(tuttiSp& sp) : sp_(sp), before_(heldByThread().now) { heldByThread().most = before_; }
  ~Watch() { sp_.mostHeld = std::max(sp_.mostHeld, heldByThread().most - before_); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  tuttiSp& sp_;
  int64_t before_;
};

void checkConfig(const tuttiSpConfig_t& c, int nRanks) {
  require(c.sequence >= (c.leaves > 0 ? 1 : nRanks) && c.batch >= 0, "a sequence of ", c.sequence, " tokens over ",
          nRanks, " ranks");
  require(c.kvHeads >= 1 && c.heads >= 1 && c.heads % c.kvHeads == 0 && c.headDim >= 1, c.heads, " heads, ", c.kvHeads,
          " of keys, of ", c.headDim);
  require(c.tokens >= tuttiTokensContiguous && c.tokens <= tuttiTokensStriped, "tokens is ", c.tokens);
  require(c.leaves >= 0 && c.leaves <= 1024, "leaves is ", c.leaves, "; 0 to 1024");
  require(c.queryTile >= 0 && c.keyTile >= 0, "tiles of ", c.queryTile, " queries and ", c.keyTile, " keys");
  require(!c.gather || c.tokens == tuttiTokensContiguous, "gathered keys take contiguous tokens");
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiSpCreate(tuttiSp_t* sp, tuttiComm_t ulysses, tuttiComm_t ring, const tuttiSpConfig_t* config) {
  return guardedIf(sp != nullptr, "sp is NULL", [&] {
    *sp = nullptr;
    const auto given = takeConfig<tuttiSpConfig_t>(config, TUTTI_SP_CONFIG_INITIALIZER, "config");
    const int kind = kindOf(given.device);
    auto made = std::make_unique<tuttiSp>(deviceOf(ulysses != nullptr ? ulysses : ring, kind), ulysses, ring);
    made->config = given;
    const tuttiSpConfig_t& c = made->config;
    require(c.device == TUTTI_DEVICE_AUTO || kindOf(*made->device) == kind, "device is ", c.device,
            ", and the communicators compute elsewhere");
    checkConfig(c, made->ulysses.size() * made->ring.size());
    for (int r = 0; r < made->ring.size(); ++r) {
      made->blocks.push_back(tokenBlocks(c.tokens, c.sequence, r, made->ring.size()));
    }
    made->tokenCuts = evenCuts(made->whole(), 1, made->ulysses.size());
    if (c.leaves > 0) cutIntoLeaves(*made);
    made->groupCuts = evenCuts(c.kvHeads, 1, made->ulysses.size());
    const size_t me = static_cast<size_t>(made->ulysses.rank());
    tuttiAttention_t& s = made->part.shape;
    s.batch = c.batch;
    s.kvHeads = made->groupCuts[me + 1] - made->groupCuts[me];
    s.heads = s.kvHeads * made->perGroup();
    s.headDim = c.headDim;
    s.causal = c.causal;
    s.scale = c.scale;
    s.queryTile = c.queryTile;
    s.keyTile = c.keyTile;
    made->part.products = Products(*made->device, c.kernels);
    made->part.device = made->device.get();
    made->config.kernels = nullptr;
    made->sender = std::make_unique<Sender>(*made->device, c.overlap && made->ring.size() > 1);
    *sp = made.release();
  });
}

tuttiResult_t tuttiSpDestroy(tuttiSp_t sp) {
  return guarded([&] { delete sp; });
}

tuttiResult_t tuttiSpTokens(tuttiSp_t sp, int64_t* count, int64_t* positions) {
  return guardedIf(sp != nullptr && count != nullptr, "sp or count is NULL", [&] {
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
  return guardedIf(sp != nullptr && count != nullptr, "sp or count is NULL", [&] { *count = sp->savedSize(); });
}

tuttiResult_t tuttiSpForward(tuttiSp_t sp, const tuttiTensor_t* q, const tuttiTensor_t* k, const tuttiTensor_t* v,
                             const tuttiTensor_t* out, void* saved) {
  return guarded([&] {
    require(sp != nullptr && q != nullptr && (saved != nullptr || sp->savedSize() == 0), "sp, q or saved is NULL");
    const int64_t rows = sp->config.batch * sp->own(), d = sp->config.headDim;
    const int kind = kindOf(*sp->device);
    checkContiguous(q, "q", rows * sp->config.heads * d, q->dtype, kind);
    checkContiguous(out, "out", rows * sp->config.heads * d, q->dtype, kind);
    checkContiguous(k, "k", rows * sp->config.kvHeads * d, q->dtype, kind);
    checkContiguous(v, "v", rows * sp->config.kvHeads * d, q->dtype, kind);
    withType(q->dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto data = [](const tuttiTensor_t* t) { return static_cast<T*>(t->data); };
      const Watch watch(*sp);
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
    const int kind = kindOf(*sp->device);
    checkContiguous(dout, "dout", rows * sp->config.heads * d, dout->dtype, kind);
    checkContiguous(dq, "dq", rows * sp->config.heads * d, dout->dtype, kind);
    checkContiguous(dk, "dk", rows * sp->config.kvHeads * d, dout->dtype, kind);
    checkContiguous(dv, "dv", rows * sp->config.kvHeads * d, dout->dtype, kind);
    withType(dout->dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto data = [](const tuttiTensor_t* t) { return static_cast<T*>(t->data); };
      const Watch watch(*sp);
      backward<T>(*sp, static_cast<const T*>(saved), data(dout), data(dq), data(dk), data(dv));
    });
  });
}

tuttiResult_t tuttiSpTraffic(tuttiSp_t sp, tuttiDataType_t dtype, tuttiTraffic_t* counted, tuttiTraffic_t* expected) {
  return guardedIf(sp != nullptr, "sp is NULL", [&] {
    tuttiTraffic_t both = sp->ulysses.traffic, formula = TUTTI_TRAFFIC_INITIALIZER;
    addTraffic(both, sp->ring.traffic);
    if (counted != nullptr) giveTraffic(both, counted);
    if (expected == nullptr) return;
    predictSp(*sp, bytesOf(dtype), formula);
    giveTraffic(formula, expected);
  });
}

tuttiResult_t tuttiSpMemory(tuttiSp_t sp, tuttiDataType_t dtype, size_t* counted, size_t* expected) {
  return guardedIf(sp != nullptr, "sp is NULL", [&] {
    checkComputed(dtype, "attention");
    if (counted != nullptr) *counted = static_cast<size_t>(sp->mostHeld);
    if (expected != nullptr) *expected = predictSpMemory(*sp, bytesOf(dtype));
  });
}

tuttiResult_t tuttiSpBalance(tuttiSp_t sp, double* balance) {
  return guardedIf(sp != nullptr && balance != nullptr, "sp or balance is NULL", [&] {
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
