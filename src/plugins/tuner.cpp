#include "src/plugins/tuner.hpp"

#include <algorithm>
#include <cstdarg>

#include "src/plugins/open.hpp"

namespace tutti::tuner {
namespace {

constexpr int kNumPipeOps = 1;
constexpr int kNotRegistered = 0;  // ranks have different memory for one call

[[gnu::format(printf, 5, 6)]] void hear(int level, unsigned long, const char*, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  logPlugin("tuner", level, format, arguments);
  va_end(arguments);
}

Code initialise(const Table4& table, const Subject& s, void** context) {
  return table.init(s.nRanks, s.nNodes, hear, context);
}
Code initialise(const Table5And6& table, const Subject& s, void** context) {
  Domains domains = {static_cast<int>(s.nNodes), s.leastRanksOfNode, s.mostRanksOfNode};
  Constants constants{};
  return table.init(context, s.number, s.nRanks, s.nNodes, hear, &domains, &constants);
}

Code finish(const Table4& table, void* context) { return table.destroy(context); }
Code finish(const Table5And6& table, void* context) { return table.finalize(context); }

template <class Table>
class Adapter final : public Tuner {
 public:
  explicit Adapter(const void* table) : table_(*static_cast<const Table*>(table)) {}
  ~Adapter() override {
    if (begun_) (void)finish(table_, context_);
  }
  Status begin(const Subject& subject) {
    const Code code = initialise(table_, subject, &context_);
    if (code != kSuccess) return invalidUsage(ErrorCode::PluginLoad, table_.name, ": init gave code ", code);
    begun_ = true;
    return {};
  }
  const char* name() const override { return table_.name; }

 private:
  Code getCollInfo(Function function, size_t bytes, float** table, int* nChannels) override {
    return table_.getCollInfo(context_, function, bytes, kNumPipeOps, table, kNumAlgorithms, kNumProtocols,
                              kNotRegistered, nChannels);
  }

  const Table& table_;
  void* context_ = nullptr;
  bool begun_ = false;
};

using Opened = Result<std::unique_ptr<Tuner>>;

template <class Table>
Opened adapt(const void* table, const Subject& subject) {
  auto adapter = std::make_unique<Adapter<Table>>(table);
  TUTTI_TRY(adapter->begin(subject));
  return std::unique_ptr<Tuner>(std::move(adapter));
}

constexpr PluginVersion<Tuner, Subject> kVersions[] = {{"ncclTunerPlugin_v6", adapt<Table5And6>},
                                                       {"ncclTunerPlugin_v5", adapt<Table5And6>},
                                                       {"ncclTunerPlugin_v4", adapt<Table4>}};

}  // namespace

Opened Tuner::open(const std::string& plugin, const Subject& subject) {
  return openPlugin("tuner", "TUTTI_TUNER_PLUGIN", plugin, kVersions, subject);
}

// The interface says float**, and means the first float of the table.
Result<int> Tuner::ask(Function function, size_t bytes, CostTable* table) {
  int nChannels = 0;
  const Code code = getCollInfo(function, bytes, reinterpret_cast<float**>(&(*table)[0][0]), &nChannels);
  if (code != kSuccess) return invalidUsage(ErrorCode::PluginLoad, name(), ": getCollInfo gave code ", code);
  return std::max(nChannels, 0);
}

}  // namespace tutti::tuner
