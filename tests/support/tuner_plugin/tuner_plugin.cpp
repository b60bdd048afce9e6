// A tuner plugin that does what a file says: README.md.  TUNER_VERSION is the version of the interface.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "src/plugins/tuner_abi.hpp"

using namespace tutti::tuner;

#if TUNER_VERSION > 4
/// As plugins of version 6 are compiled.
struct Table : Table5And6 {
  Code (*getChunkSize)(void* context, Function function, size_t bytes, int algorithm, int protocol, int nChannels,
                       size_t* chunkBytes);
};
#endif

namespace {

constexpr int kAny = -1;
std::atomic<int> asked{0}, alive{0};

struct Line {
  int function = 0, algorithm = 0, protocol = 0, nChannels = kAny;
  size_t least = 0, most = 0;
  int nNodes = kAny, nRanks = kAny, numPipeOps = kAny, registered = kAny;
};
struct Context {
  size_t nRanks = 0, nNodes = 0;
  std::vector<Line> lines;
};

int indexOf(const std::vector<std::string>& names, const std::string& name) {
  return static_cast<int>(std::find(names.begin(), names.end(), name) - names.begin());
}

std::vector<Line> read(const char* path) {
  const std::vector<std::string> functions = {"broadcast", "reduce", "allgather", "reducescatter", "allreduce"};
  const std::vector<std::string> algorithms = {"tree",      "ring", "collnet_direct", "collnet_chain", "nvls",
                                               "nvls_tree", "pat"};
  const std::vector<std::string> protocols = {"ll", "ll128", "simple"};
  std::vector<Line> lines;
  if (path == nullptr) return lines;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    if (text.empty() || text.front() == '#') continue;
    std::vector<std::string> fields;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) fields.push_back(part);
    if (fields.size() < 8) continue;
    Line line;
    line.function = indexOf(functions, fields[0]);
    line.least = std::stoull(fields[1]);
    line.most = std::stoull(fields[2]);
    line.algorithm = indexOf(algorithms, fields[3]);
    line.protocol = indexOf(protocols, fields[4]);
    line.nChannels = std::stoi(fields[5]);
    line.nNodes = std::stoi(fields[6]);
    line.nRanks = std::stoi(fields[7]);
    if (fields.size() > 8) line.numPipeOps = std::stoi(fields[8]);
    if (fields.size() > 9) line.registered = std::stoi(fields[9]);
    lines.push_back(line);
  }
  return lines;
}

bool fails(const char* call) {
  const char* const fault = std::getenv("TUNER_PLUGIN_FAULT");
  return fault != nullptr && std::string(fault) == call;
}

Code begin(size_t nRanks, size_t nNodes, tutti::PluginLogger logger, void** context) {
  if (fails("init")) return 2;
  logger(3, 64, __FILE__, __LINE__, "a tuner for %zu ranks on %zu nodes", nRanks, nNodes);
  *context = new Context{nRanks, nNodes, read(std::getenv("NCCL_TUNER_CONFIG_FILE"))};
  ++alive;
  return kSuccess;
}

/// Something else each time: algorithms, protocols and channels in turn.
void followWhim(float* table, int numAlgorithms, int numProtocols, int* nChannels) {
  const int cells = numAlgorithms * numProtocols;
  const int first = asked * 7;
  for (int i = 0; i < cells; ++i) {
    float& cell = table[(first + i) % cells];
    if (cell == kIgnored) continue;
    cell = 0;
    break;
  }
  *nChannels = 1 + asked % 3;
}

Code getCollInfo(void* context, Function function, size_t bytes, int numPipeOps, float** costs, int numAlgorithms,
                 int numProtocols, int registered, int* nChannels) {
  ++asked;
  if (fails("getCollInfo")) return 3;
  auto* const table = reinterpret_cast<float*>(costs);
  const auto& c = *static_cast<const Context*>(context);
  if (std::getenv("TUNER_PLUGIN_WHIM") != nullptr) followWhim(table, numAlgorithms, numProtocols, nChannels);
  const auto fits = [](int wanted, int is) { return wanted == kAny || wanted == is; };
  for (const Line& line : c.lines) {
    const bool matches = line.function == static_cast<int>(function) && bytes >= line.least && bytes <= line.most &&
                         fits(line.nNodes, static_cast<int>(c.nNodes)) &&
                         fits(line.nRanks, static_cast<int>(c.nRanks)) && fits(line.numPipeOps, numPipeOps) &&
                         fits(line.registered, registered);
    if (!matches || line.algorithm >= numAlgorithms || line.protocol >= numProtocols) continue;
    float& cell = table[line.algorithm * numProtocols + line.protocol];
    if (cell == kIgnored) continue;
    cell = 0;
    if (line.nChannels != kAny) *nChannels = line.nChannels;
    return kSuccess;
  }
  return kSuccess;
}

Code finish(void* context) {
  delete static_cast<Context*>(context);
  --alive;
  return kSuccess;
}

#if TUNER_VERSION == 4
using Table = Table4;
Code init(size_t nRanks, size_t nNodes, tutti::PluginLogger logger, void** context) {
  return begin(nRanks, nNodes, logger, context);
}
#else
Code init(void** context, uint64_t communicator, size_t nRanks, size_t nNodes, tutti::PluginLogger logger,
          Domains* domains, Constants* constants) {
  constants->bandwidths[4][3][2] = 15;  // there is memory for all of it
  const bool right = communicator != 0 && static_cast<size_t>(domains->n) == nNodes && domains->leastRanks >= 1 &&
                     static_cast<size_t>(domains->mostRanks) <= nRanks;
  return right ? begin(nRanks, nNodes, logger, context) : 4;
}
#endif

}  // namespace

extern "C" {
#define NAME_(version) ncclTunerPlugin_v##version
#define NAME(version) NAME_(version)
[[gnu::visibility("default")]] extern const Table NAME(TUNER_VERSION);
#if TUNER_VERSION == 4
const Table NAME(TUNER_VERSION) = {"Lines for tests", init, getCollInfo, finish};
#else
const Table NAME(TUNER_VERSION) = {{"Lines for tests", init, getCollInfo, finish}, nullptr};
#endif
[[gnu::visibility("default")]] int tunerPluginAsked() { return asked; }
[[gnu::visibility("default")]] int tunerPluginAlive() { return alive; }
}
