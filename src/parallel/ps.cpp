// Workers and servers of a parameter server, and what they say to each other.
#include "src/parallel/ps.hpp"

#include <algorithm>

#include "src/base/threads.hpp"

using namespace tutti::parallel;

struct tuttiPs {
  explicit tuttiPs(std::shared_ptr<tutti::parallel::Device> on) : device(std::move(on)) {}
  virtual ~tuttiPs() = default;
  virtual void serve() = 0;
  virtual void pull() = 0;
  virtual void pullRows(size_t table, const int64_t* rows, int64_t n) = 0;
  virtual void pushRows(size_t table, const int64_t* rows, int64_t n, const void* gradient) = 0;
  virtual void push(const tuttiTensor_t* gradients) = 0;
  virtual void leave() = 0;
  virtual void report(tuttiPsReport_t& r) = 0;
  std::shared_ptr<tutti::parallel::Device> device;  // of workers' tensors; servers' values are the host's
  bool serves = false, left = false, broken = false;
  std::vector<std::unique_ptr<PsLink>> links;  // a server's to each worker, a worker's to each server
  std::vector<size_t> order;                   // in which links were made
};

namespace tutti::parallel {
namespace {

template <class T>
class PsOf final : public tuttiPs {
 public:
  PsOf(std::shared_ptr<Device> on, std::vector<PsTable> tables, const tuttiParameter_t* parameters,
       const tuttiPsConfig_t& config, int server, int workers)
      : tuttiPs(std::move(on)), tables_(std::move(tables)), config_(config), workers_(workers) {
    serves = server >= 0;
    if (server >= 0) {
      index_ = server;
      shard_ = std::make_unique<PsShard<T>>(tables_, server, workers, config);
    }
    for (size_t p = 0; p < tables_.size(); ++p) data_.push_back(static_cast<T*>(parameters[p].value.data));
    clocks_.resize(static_cast<size_t>(config.servers));
  }

  /// Rank 0's values to the servers.
  void fill(int rank) {
    if (serves) {
      links[0]->receive(shard_->values.data(), shard_->values.size(), dtypeOf<T>());
    } else if (rank == 0) {
      for (int s = 0; s < config_.servers; ++s) {
        const std::vector<T> part = gathered(s, data_, true);
        links[static_cast<size_t>(s)]->send(part.data(), part.size(), dtypeOf<T>());
      }
    }
  }

  void serve() override {
    if (!serves) fail(tuttiInvalidUsage, "this rank is a worker");
    std::vector<std::function<Status()>> answers;
    for (int w = 0; w < workers_; ++w) {
      answers.emplace_back([this, w] {
        answer(w);
        return Status();
      });
    }
    orThrow(asStatus(runTogether("each worker of a parameter server", answers)));
    left = true;
    const std::string why = shard_->failure();
    broken = !why.empty();
    if (broken) fail(tuttiRemoteError, why);
  }

  void pull() override {
    worker();
    for (int s = 0; s < config_.servers; ++s) {
      links[static_cast<size_t>(s)]->send({static_cast<int64_t>(PsVerb::Pull), clocks_[static_cast<size_t>(s)], 0, 0});
    }
    for (int s = 0; s < config_.servers; ++s) {
      PsLink& link = *links[static_cast<size_t>(s)];
      clocks_[static_cast<size_t>(s)] = reply(link).clock;
      std::vector<T> part(elementsOn(s, false));
      link.receive(part.data(), part.size(), dtypeOf<T>());
      count(tuttiCallRecv, part.size());
      const T* from = part.data();
      for (size_t t = 0; t < tables_.size(); ++t) {
        if (tables_[t].sparse()) continue;
        const int64_t n = tables_[t].rowsOf(s) * tables_[t].width;
        put(data_[t] + tables_[t].cuts[static_cast<size_t>(s)] * tables_[t].width, from, n);
        from += n;
      }
    }
    pulled_ = true;
  }

  void pullRows(size_t t, const int64_t* rows, int64_t n) override {
    eachPart(t, rows, n, [&](PsLink& link, int s, const int64_t* part, int64_t m, int64_t) {
      link.send({static_cast<int64_t>(PsVerb::PullRows), clocks_[static_cast<size_t>(s)], static_cast<int64_t>(t), m});
      link.send(part, static_cast<size_t>(m), tuttiInt64);
      reply(link);
      const int64_t width = tables_[t].width;
      std::vector<T> values(static_cast<size_t>(m * width));
      link.receive(values.data(), values.size(), dtypeOf<T>());
      count(tuttiCallRecv, values.size());
      for (int64_t i = 0; i < m; ++i) put(data_[t] + part[i] * width, values.data() + i * width, width);
    });
  }
  void pushRows(size_t t, const int64_t* rows, int64_t n, const void* gradient) override {
    eachPart(t, rows, n, [&](PsLink& link, int s, const int64_t* part, int64_t m, int64_t first) {
      const int64_t width = tables_[t].width;
      link.send({static_cast<int64_t>(PsVerb::PushRows), clocks_[static_cast<size_t>(s)], static_cast<int64_t>(t), m});
      link.send(part, static_cast<size_t>(m), tuttiInt64);
      std::vector<T> values(static_cast<size_t>(m * width));
      get(values.data(), static_cast<const T*>(gradient) + first * width, m * width);
      link.send(values.data(), values.size(), dtypeOf<T>());
      count(tuttiCallSend, static_cast<size_t>(m * width));
    });
  }

  void push(const tuttiTensor_t* gradients) override {
    worker();
    if (!pulled_) fail(tuttiInvalidUsage, "tuttiPsPush comes after tuttiPsPull of the same step");
    pulled_ = false;
    std::vector<T*> data;
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (!tables_[t].sparse()) {
        checkContiguous(&gradients[t], "a gradient", tables_[t].rows * tables_[t].width, dtypeOf<T>(), kindOf(*device));
      }
      data.push_back(static_cast<T*>(gradients[t].data));
    }
    for (int s = 0; s < config_.servers; ++s) {
      PsLink& link = *links[static_cast<size_t>(s)];
      const std::vector<T> part = gathered(s, data, false);
      link.send({static_cast<int64_t>(PsVerb::Push), clocks_[static_cast<size_t>(s)], 0, 0});
      link.send(part.data(), part.size(), dtypeOf<T>());
      count(tuttiCallSend, part.size());
      ++clocks_[static_cast<size_t>(s)];
    }
    ++steps_;
  }

  void leave() override {
    for (const auto& link : links) link->send({static_cast<int64_t>(PsVerb::Leave), 0, 0, 0});
  }

  void report(tuttiPsReport_t& r) override {
    r.steps = steps_;
    r.traffic = traffic_;
    if (shard_ != nullptr) return shard_->report(r);
    for (int s = 0; s < config_.servers; ++s) {
      const uint64_t bytes = elementsOn(s, false) * sizeof(T);
      if (bytes == 0) continue;
      countCall(r.expected, tuttiCallSend, 2, bytes);
      countCall(r.expected, tuttiCallRecv, 2, bytes);
    }
  }

 private:
  void worker() const {
    if (serves) fail(tuttiInvalidUsage, "this rank is a server: tuttiPsServe");
  }
  // Between messages and workers' tensors.
  void put(T* to, const T* host, int64_t n) const { putBytes(*device, to, host, static_cast<size_t>(n) * sizeof(T)); }
  void get(T* host, const T* from, int64_t n) const {
    getBytes(*device, host, from, static_cast<size_t>(n) * sizeof(T));
  }
  void count(tuttiCall_t call, size_t elements) {
    if (elements != 0) countCall(traffic_, call, 2, elements * sizeof(T));
  }
  size_t elementsOn(int s, bool sparseToo) const {
    int64_t n = 0;
    for (const PsTable& t : tables_) n += t.sparse() && !sparseToo ? 0 : t.rowsOf(s) * t.width;
    return static_cast<size_t>(n);
  }
  /// What of `data` belongs to a server.
  std::vector<T> gathered(int s, const std::vector<T*>& data, bool sparseToo) const {
    std::vector<T> part(elementsOn(s, sparseToo));
    T* to = part.data();
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (tables_[t].sparse() && !sparseToo) continue;
      const T* from = data[t] + tables_[t].cuts[static_cast<size_t>(s)] * tables_[t].width;
      get(to, from, tables_[t].rowsOf(s) * tables_[t].width);
      to += tables_[t].rowsOf(s) * tables_[t].width;
    }
    return part;
  }
  /// A server's header; throws what it failed with.
  PsHeader reply(PsLink& link) {
    const PsHeader h = link.header();
    if (h.clock >= 0) return h;
    std::string why(static_cast<size_t>(std::clamp<int64_t>(h.count, 0, 4096)), ' ');
    link.receive(why.data(), why.size(), tuttiUint8);
    broken = true;
    link.send({static_cast<int64_t>(PsVerb::Leave), 0, 0, 0});
    fail(tuttiRemoteError, why);
  }
  /// Rows by the server that has them.
  template <class Body>
  void eachPart(size_t t, const int64_t* rows, int64_t n, const Body& body) {
    worker();
    require(t < tables_.size() && tables_[t].sparse(), "parameter ", t, " is none, or not sparse");
    require(n >= 0 && (rows != nullptr || n == 0), "rows is NULL");
    for (int64_t i = 0; i < n; ++i) {
      require(rows[i] >= 0 && rows[i] < tables_[t].rows && (i == 0 || rows[i] > rows[i - 1]), "rows[", i, "] is ",
              rows[i], " of ", tables_[t].rows);
    }
    int64_t first = 0;
    for (int s = 0; s < config_.servers; ++s) {
      const int64_t end = std::lower_bound(rows + first, rows + n, tables_[t].cuts[static_cast<size_t>(s) + 1]) - rows;
      if (end > first) body(*links[static_cast<size_t>(s)], s, rows + first, end - first, first);
      first = end;
    }
  }

  /// A server's thread for one worker.
  void answer(int w) {
    try {
      while (one(w)) {
      }
    } catch (const Failure& failure) {
      shard_->leave(w, failure.text);
    } catch (const std::exception& error) {
      shard_->leave(w, error.what());
    }
  }
  /// One request; false: the worker has left.
  bool one(int w) {
    PsLink& link = *links[static_cast<size_t>(w)];
    const PsHeader h = link.header();
    switch (static_cast<PsVerb>(h.verb)) {
      case PsVerb::Leave: shard_->leave(w, ""); return false;
      case PsVerb::Pull: sendValues(link, h, nullptr); return true;
      case PsVerb::Push: {
        std::vector<T> gradient(elementsOn(index_, false));
        link.receive(gradient.data(), gradient.size(), dtypeOf<T>());
        shard_->push(w, h.clock, gradient.data());
        return true;
      }
      default: break;
    }
    require(h.table >= 0 && h.table < static_cast<int64_t>(tables_.size()), "a request for parameter ", h.table);
    const PsTable& table = tables_[static_cast<size_t>(h.table)];
    require(h.count >= 0 && h.count <= table.rowsOf(index_), "a request for ", h.count, " rows");
    std::vector<int64_t> rows(static_cast<size_t>(h.count));
    link.receive(rows.data(), rows.size(), tuttiInt64);
    for (const int64_t row : rows) {
      const size_t s = static_cast<size_t>(index_);
      require(row >= table.cuts[s] && row < table.cuts[s + 1], "a request for row ", row);
    }
    if (static_cast<PsVerb>(h.verb) == PsVerb::PullRows) {
      sendValues(link, h, &rows);
      return true;
    }
    require(static_cast<PsVerb>(h.verb) == PsVerb::PushRows, "there is no request ", h.verb);
    std::vector<T> gradient(rows.size() * static_cast<size_t>(table.width));
    link.receive(gradient.data(), gradient.size(), dtypeOf<T>());
    shard_->addRows(w, static_cast<size_t>(h.table), rows, gradient.data());
    return true;
  }
  /// All dense tables, or rows of one.
  void sendValues(PsLink& link, const PsHeader& h, const std::vector<int64_t>* rows) {
    std::vector<T> values;
    int64_t version = 0;
    try {
      auto lock = shard_->lock();
      version = shard_->waitToRead(h.clock, lock);
      for (size_t t = 0; t < tables_.size() && rows == nullptr; ++t) {
        if (tables_[t].sparse()) continue;
        const T* from = shard_->values.data() + shard_->offset(t);
        values.insert(values.end(), from, from + tables_[t].rowsOf(index_) * tables_[t].width);
      }
      for (size_t i = 0; rows != nullptr && i < rows->size(); ++i) {
        const PsTable& table = tables_[static_cast<size_t>(h.table)];
        const int64_t row = (*rows)[i] - table.cuts[static_cast<size_t>(index_)];
        const T* from = shard_->values.data() + shard_->offset(static_cast<size_t>(h.table)) + row * table.width;
        values.insert(values.end(), from, from + table.width);
      }
    } catch (const Failure& failure) {
      link.send({h.verb, -1, 0, static_cast<int64_t>(std::min<size_t>(failure.text.size(), 4096))});
      link.send(failure.text.data(), std::min<size_t>(failure.text.size(), 4096), tuttiUint8);
      link.header();  // the worker has read it: an abort may come before what is on its way
      throw;
    }
    link.send({h.verb, version, h.table, h.count});
    link.send(values.data(), values.size(), dtypeOf<T>());
  }

  std::vector<PsTable> tables_;
  tuttiPsConfig_t config_;
  int workers_, index_ = 0;
  std::unique_ptr<PsShard<T>> shard_;
  std::vector<T*> data_;
  std::vector<int64_t> clocks_;  // of each server's values
  int64_t steps_ = 0;
  bool pulled_ = false;
  tuttiTraffic_t traffic_ = TUTTI_TRAFFIC_INITIALIZER;
};

std::vector<PsTable> tablesOf(const tuttiParameter_t* parameters, size_t n, int servers) {
  std::vector<PsTable> tables;
  for (size_t p = 0; p < n; ++p) {
    const tuttiTensor_t& v = parameters[p].value;
    const int64_t rows = v.shape[0], all = elementsOf(v);
    tables.push_back({rows, rows == 0 ? 1 : all / rows, parameters[p].flags, evenCuts(rows, 1, servers)});
  }
  return tables;
}

/// Communicators of every server with every worker: in each round a rank is in one pair at most.
void join(tuttiPs& ps, tuttiComm_t comm, int rank, int workers, const tuttiPsConfig_t& config) {
  const int servers = config.servers, rounds = std::max(workers, servers);
  ps.links.resize(static_cast<size_t>(ps.serves ? workers : servers));
  tuttiConfig_t options = TUTTI_CONFIG_INITIALIZER;
  options.timeoutMs = config.timeoutMs;
  options.device = TUTTI_DEVICE_HOST;  // servers compute there
  for (int round = 0; round < rounds; ++round) {
    const int peer = ps.serves ? (rank - workers + round) % rounds : (rank - round + rounds) % rounds;
    const bool paired = peer < (ps.serves ? workers : servers);
    const int color = ps.serves ? rank - workers : peer;
    const tuttiComm_t pair = splitFrom(comm, paired ? color : TUTTI_SPLIT_NOCOLOR, rank, &options);
    if (!paired) continue;
    ps.links[static_cast<size_t>(peer)] = std::make_unique<PsLink>(pair);
    ps.order.push_back(static_cast<size_t>(peer));
  }
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiPsCreate(tuttiPs_t* ps, tuttiComm_t comm, const tuttiParameter_t* parameters, size_t n,
                            const tuttiPsConfig_t* config) {
  return guarded([&] {
    require(ps != nullptr && comm != nullptr && (parameters != nullptr || n == 0), "ps, comm or parameters is NULL");
    *ps = nullptr;
    const auto c = takeConfig<tuttiPsConfig_t>(config, TUTTI_PS_CONFIG_INITIALIZER, "config");
    const std::shared_ptr<Device> device = deviceOf(comm, TUTTI_DEVICE_HOST);
    Group group(comm, *device);
    const int workers = group.size() - c.servers;
    require(c.servers >= 1 && workers >= 1, c.servers, " servers of ", group.size(), " ranks");
    require(c.staleness >= TUTTI_PS_ASYNCHRONOUS && c.timeoutMs >= 0, "staleness is ", c.staleness, ", timeoutMs ",
            c.timeoutMs);
    require(c.backup >= 0 && c.backup < workers && (c.backup == 0 || c.staleness == 0), c.backup, " backup workers of ",
            workers, " with staleness ", c.staleness);
    require(c.optimizer.kind >= tuttiSgd && c.optimizer.kind <= tuttiAdamW, "there is no optimizer ", c.optimizer.kind);
    const bool server = group.rank() >= workers;
    const tuttiDataType_t dtype = n > 0 ? parameters[0].value.dtype : tuttiFloat32;
    checkComputed(dtype, "a parameter");
    for (size_t i = 0; i < n; ++i) {
      require(isContiguous(parameters[i].value) && parameters[i].value.dtype == dtype, "parameter ", i,
              " is not contiguous, or of another dtype");
      if (!server)
        checkContiguous(&parameters[i].value, "a parameter", elementsOf(parameters[i].value), dtype, kindOf(*device));
    }
    compareParameters(group, parameters, n);
    withType(dtype, [&](auto zero) {
      auto made = std::make_unique<PsOf<decltype(zero)>>(device, tablesOf(parameters, n, c.servers), parameters, c,
                                                         server ? group.rank() - workers : -1, workers);
      join(*made, comm, group.rank(), workers, c);
      made->fill(group.rank());
      *ps = made.release();
    });
  });
}

tuttiResult_t tuttiPsDestroy(tuttiPs_t ps) {
  return guarded([&] {
    if (ps == nullptr) return;
    const std::unique_ptr<tuttiPs> mine(ps);
    // A pair that failed, or whose server never served, is ended from one side.
    bool abort = mine->broken || (mine->serves && !mine->left);
    try {
      if (!mine->serves && !abort) mine->leave();
    } catch (const Failure&) {
      abort = true;
    }
    tuttiResult_t first = tuttiSuccess;
    for (const size_t i : mine->order) {
      const tuttiComm_t comm = mine->links[i]->comm();
      tuttiResult_t state = tuttiSuccess;
      tuttiCommGetAsyncError(comm, &state);
      if (abort || state != tuttiSuccess) {
        tuttiCommAbort(comm);
      } else {
        const tuttiResult_t result = tuttiCommDestroy(comm);
        first = first != tuttiSuccess ? first : result;
      }
    }
    check(first, nullptr);
  });
}

#define TUTTI_ON_PS(...)                                                                                      \
  return guarded([&] {                                                                                        \
    require(ps != nullptr, "the handle is NULL");                                                             \
    try {                                                                                                     \
      __VA_ARGS__;                                                                                            \
    } catch (const Failure& failure) {                                                                        \
      ps->broken = ps->broken || (failure.code != tuttiInvalidArgument && failure.code != tuttiInvalidUsage); \
      throw;                                                                                                  \
    }                                                                                                         \
  })

tuttiResult_t tuttiPsIsServer(tuttiPs_t ps, int* server) {
  TUTTI_ON_PS(require(server != nullptr, "server is NULL"), *server = ps->serves);
}
tuttiResult_t tuttiPsServe(tuttiPs_t ps) { TUTTI_ON_PS(ps->serve()); }
tuttiResult_t tuttiPsPull(tuttiPs_t ps) { TUTTI_ON_PS(ps->pull()); }
tuttiResult_t tuttiPsPullRows(tuttiPs_t ps, size_t parameter, const int64_t* rows, int64_t n) {
  TUTTI_ON_PS(ps->pullRows(parameter, rows, n));
}
tuttiResult_t tuttiPsPushRows(tuttiPs_t ps, size_t parameter, const int64_t* rows, int64_t n, const void* gradient) {
  TUTTI_ON_PS(require(gradient != nullptr || n == 0, "gradient is NULL"), ps->pushRows(parameter, rows, n, gradient));
}
tuttiResult_t tuttiPsPush(tuttiPs_t ps, const tuttiTensor_t* gradients) {
  TUTTI_ON_PS(require(gradients != nullptr, "gradients is NULL"), ps->push(gradients));
}
tuttiResult_t tuttiPsReport(tuttiPs_t ps, tuttiPsReport_t* report) {
  return guardedIf(ps != nullptr && report != nullptr && report->size >= sizeof(size_t), "ps or report is NULL", [&] {
    tuttiPsReport_t r = TUTTI_PS_REPORT_INITIALIZER;
    ps->report(r);
    giveStruct(r, report);
  });
}
