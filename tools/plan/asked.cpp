#include "tools/plan/asked.hpp"

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>

namespace {

double numberOf(const std::string& flag, const std::string& text) {
  char* end = nullptr;
  const double x = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(x) || x < 0) {
    throw std::invalid_argument(flag + " " + text + ": that is no number of 0 or more");
  }
  return x;
}

std::vector<std::string> partsOf(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream list(text);
  for (std::string one; std::getline(list, one, ',');) parts.push_back(one);
  return parts;
}

/// "tp8" into a name and a number; the number is -1 where there is none.
std::pair<std::string, int> wordOf(const std::string& word) {
  const size_t digits = word.find_first_of("0123456789");
  if (digits == std::string::npos) return {word, -1};
  const std::string number = word.substr(digits);
  if (number.find_first_not_of("0123456789") != std::string::npos || number.size() > 6) {
    throw std::invalid_argument("--layout " + word + ": a name and a number, as tp8");
  }
  return {word.substr(0, digits), std::atoi(number.c_str())};
}

/// Options with a number, and where it goes.
struct Numbers {
  double ranks = 0, perNode = 8, batch = 0, elementBytes = 2, adapters = 0, gathers = 0, tensors = 0, memoryCopies = 0,
         zeroPlus = 0;
};

std::map<std::string, double*> numbersOf(AskedPlan& a, Numbers& n) {
  return {{"--layers", &a.model.layers},
          {"--hidden", &a.model.hidden},
          {"--heads", &a.model.heads},
          {"--kv-heads", &a.model.kvHeads},
          {"--key-block", &a.model.keyBlock},
          {"--visible", &a.model.visible},
          {"--attention-width", &a.model.attentionWidth},
          {"--sequence", &a.model.sequence},
          {"--vocabulary", &a.model.vocabulary},
          {"--parameters", &a.model.parameters},
          {"--experts", &a.model.experts},
          {"--choices", &a.model.choices},
          {"--expert-width", &a.model.expertWidth},
          {"--batch", &n.batch},
          {"--ranks", &n.ranks},
          {"--per-node", &n.perNode},
          {"--adapters", &n.adapters},
          {"--flops", &a.machine.flops},
          {"--element-bytes", &n.elementBytes},
          {"--watts", &a.machine.watts},
          {"--sustained", &a.machine.sustained},
          {"--cast-bytes", &a.machine.castBytes},
          {"--gathers", &n.gathers},
          {"--tensors", &n.tensors},
          {"--memory-copies", &n.memoryCopies},
          {"--zero-plus", &n.zeroPlus},
          {"--part-us", &a.machine.partUs},
          {"--attention-flops", &a.machine.attentionFlops},
          {"--memory-bandwidth", &a.machine.memoryBandwidth},
          {"--memory", &a.machine.memory},
          {"--node-bandwidth", &a.machine.nodeBandwidth},
          {"--node-latency-us", &a.machine.nodeLatencyUs},
          {"--bandwidth", &a.machine.bandwidth},
          {"--latency-us", &a.machine.latencyUs},
          {"--overlap", &a.machine.overlap}};
}

/// Counts from their numbers; without --ranks a layout says how many there are.
void finish(AskedPlan& a, const Numbers& n) {
  if (n.batch > 1e9) throw std::invalid_argument("too many sequences");
  for (const double count : {n.ranks, n.perNode, n.adapters, n.gathers, n.tensors, n.memoryCopies}) {
    if (count > 1e6) throw std::invalid_argument("there are at most a million ranks, adapters, gathers and tensors");
  }
  a.batch = static_cast<int>(n.batch);
  a.machine.ranks = n.ranks > 0 ? static_cast<int>(n.ranks) : 1;
  if (a.layout && n.ranks == 0) {
    const tuttiLayout_t& l = *a.layout;
    const double ranks = 1.0 * l.tp * l.cp * l.ep * l.pp * l.dp;
    if (ranks > 1e6) throw std::invalid_argument("--layout: more than a million ranks");
    a.machine.ranks = static_cast<int>(ranks);
  }
  a.machine.perNode = static_cast<int>(n.perNode);
  a.machine.zeroPlus = n.zeroPlus > 0 ? 1 : 0;
  a.machine.tensors = static_cast<int>(n.tensors);
  a.machine.gathers = static_cast<int>(n.gathers), a.machine.memoryCopies = static_cast<int>(n.memoryCopies);
  a.machine.adapters = static_cast<int>(n.adapters);
  a.machine.elementBytes = static_cast<int>(n.elementBytes);
  if (!a.speeds.empty() && a.speeds.size() != static_cast<size_t>(a.machine.ranks)) {
    throw std::invalid_argument("--speeds has " + std::to_string(a.speeds.size()) + " numbers for " +
                                std::to_string(a.machine.ranks) + " ranks");
  }
}

}  // namespace

int gpuOf(const std::string& name) {
  const std::map<std::string, int> gpus = {
      {"a100", tuttiGpuA100}, {"h100", tuttiGpuH100}, {"h200", tuttiGpuH200}, {"b200", tuttiGpuB200}};
  const auto found = gpus.find(name);
  if (found == gpus.end())
    throw std::invalid_argument("--gpu " + name + ": products are known of a100, h100, h200, b200");
  return found->second;
}

tuttiLayout_t parseLayout(const std::string& text) {
  tuttiLayout_t l = TUTTI_LAYOUT_INITIALIZER;
  const std::map<std::string, int*> numbers = {{"tp", &l.tp}, {"cp", &l.cp},         {"ep", &l.ep},    {"pp", &l.pp},
                                               {"dp", &l.dp}, {"chunks", &l.chunks}, {"zero", &l.zero}};
  const std::map<std::string, int> kinds = {
      {"selective", tuttiRecomputeSelective}, {"full", tuttiRecomputeFull}, {"alternate", tuttiRecomputeAlternate}};
  for (const std::string& word : partsOf(text)) {
    const auto [name, number] = wordOf(word);
    if (const auto found = numbers.find(name); found != numbers.end() && number >= 0) {
      *found->second = number;
    } else if (name == "micro" && number >= 1) {
      l.microBatch = number;
    } else if (word == "sequence") {
      l.sequenceParallel = 1;
    } else if (const auto recompute = kinds.find(word); recompute != kinds.end()) {
      l.recompute = recompute->second;
    } else {
      throw std::invalid_argument(
          "--layout " + word +
          ": there are tpN, cpN, epN, ppN, dpN, chunksN, zeroN, microN, sequence, selective, full, alternate");
    }
  }
  return l;
}

AskedPlan parsePlan(int argc, char** argv) {
  AskedPlan a;
  Numbers n;
  const std::map<std::string, double*> numbers = numbersOf(a, n);
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (i + 1 >= argc) throw std::invalid_argument(flag + " takes a value");
    const std::string value = argv[++i];
    if (flag == "--speeds") {
      for (const std::string& one : partsOf(value)) a.speeds.push_back(numberOf(flag, one));
    } else if (flag == "--layout") {
      a.layout = parseLayout(value);
    } else if (flag == "--gpu") {
      a.machine.gpu = gpuOf(value);
    } else if (const auto found = numbers.find(flag); found != numbers.end()) {
      *found->second = numberOf(flag, value);
    } else {
      throw std::invalid_argument("there is no " + flag);
    }
  }
  finish(a, n);
  return a;
}
