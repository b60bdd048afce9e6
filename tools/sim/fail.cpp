#include "tools/sim/fail.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "perf/common/progress.hpp"

namespace tutti::sim {
namespace {

struct Loss {
  enum Kind { Link, Nic, Rank } kind = Link;
  int number = -1;  // -1: not said
};

Result<Loss> parseLoss(const std::string& text) {
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  Loss loss;
  if (kind == "link") {
    loss.kind = Loss::Link;
  } else if (kind == "nic") {
    loss.kind = Loss::Nic;
  } else if (kind == "rank") {
    loss.kind = Loss::Rank;
  } else {
    return invalidUsage("--fail ", text, ": there are link, nic, rank, each with :NUMBER if not the default");
  }
  if (colon == std::string::npos) return loss;
  const char* end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data() + colon + 1, end, loss.number);
  if (error != std::errc() || next != end || loss.number < 0) return invalidUsage("--fail ", text, ": not a number");
  return loss;
}

/// The most loaded of the links that can lose a cable and go on with the rest; where none that is used can, of all.
int mostLoaded(const Network& network, const Outcome& outcome) {
  int most = 0, spare = -1;
  for (int i = 0; i < static_cast<int>(outcome.run.linkBytes.size()); ++i) {
    const double load = outcome.load(static_cast<size_t>(i));
    if (load > outcome.load(static_cast<size_t>(most))) most = i;
    if (load <= 0 || network.cables(i) < 2) continue;
    if (spare < 0 || load > outcome.load(static_cast<size_t>(spare))) spare = i;
  }
  return spare >= 0 ? spare : most;
}

/// The ranks that the others have to go on without, where ways are cut: one after the other who cannot reach the most.
std::vector<int> cutOff(const Network& network) {
  const int n = network.cluster().nRanks(), perNode = network.cluster().ranksPerNode;
  std::vector<std::vector<int>> lacks(static_cast<size_t>(n));
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      const Place from{a / perNode, a % perNode}, to{b / perNode, b % perNode};
      if (network.route(from, to).ok() && network.route(to, from).ok()) continue;
      lacks[static_cast<size_t>(a)].push_back(b);
      lacks[static_cast<size_t>(b)].push_back(a);
    }
  }
  std::vector<int> lost;
  for (;;) {
    const auto worst = std::ranges::max_element(lacks, {}, [](const auto& peers) { return peers.size(); });
    if (worst->empty()) break;
    const int rank = static_cast<int>(worst - lacks.begin());
    for (const int peer : *worst) std::erase(lacks[static_cast<size_t>(peer)], rank);
    worst->clear();
    lost.push_back(rank);
  }
  std::ranges::sort(lost);
  return lost;
}

std::string ranksText(const std::vector<int>& ranks) {
  constexpr size_t kMostNamed = 8;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  for (size_t i = 0; i < std::min(kMostNamed, ranks.size()); ++i) text += cat(i == 0 ? " " : ", ", ranks[i]);
  if (ranks.size() > kMostNamed) text += cat(" and ", ranks.size() - kMostNamed, " more");
  return text;
}

struct Damage {
  Faults faults;
  std::vector<int> ranks;
  std::string name;
};

Result<Damage> damageOf(const Loss& loss, const Network& whole, const Outcome& before) {
  Damage damage;
  const Cluster& c = whole.cluster();
  if (loss.kind == Loss::Rank) {
    const int rank = loss.number >= 0 ? loss.number : c.nRanks() - 1;
    if (rank >= c.nRanks()) return invalidArgument("--fail rank:", rank, ": there are ", c.nRanks(), " ranks");
    damage.ranks = {rank};
    damage.name = cat("rank ", rank);
  } else if (loss.kind == Loss::Nic) {
    const int port = loss.number >= 0 ? loss.number : whole.portOf({0, 0});
    if (port < 0 || port >= whole.nPorts()) return invalidArgument("--fail nic: a node has ", whole.nPorts(), " ports");
    damage.faults.ports = {{0, port}};
    damage.name = cat("port ", port, " of node 0, ", whole.portName(port));
  } else {
    const int link = loss.number >= 0 ? loss.number : mostLoaded(whole, before);
    if (link >= whole.nLinks()) return invalidArgument("--fail link:", link, ": there are ", whole.nLinks(), " links");
    damage.faults.links = {link};
    const int cables = whole.cables(link);
    damage.name = cat(cables == 1 ? "the only cable" : cat("one of the ", cables, " cables"), " of link ", link, ", ",
                      whole.name(link));
    if (cables > 1) return damage;
    TUTTI_ASSIGN(const Network less, Network::make(c, damage.faults));
    damage.ranks = cutOff(less);
    if (damage.ranks.empty()) return damage;  // nothing goes that way
    damage.name += cat("; cut off: ", ranksText(damage.ranks));
    if (static_cast<int>(damage.ranks.size()) + 1 >= c.nRanks()) {
      return invalidArgument(damage.name, ": that leaves nobody to exchange anything with");
    }
  }
  return damage;
}

}  // namespace

Result<std::string> fail(const Cluster& cluster, const Asked& asked, const std::string& what) {
  TUTTI_ASSIGN(const Loss loss, parseLoss(what));
  TUTTI_ASSIGN(const Network whole, Network::make(cluster));
  std::string text = cat(collectiveKey(asked.collective), ", ", formatBytes(asked.bytes), ", ", describe(cluster),
                         "\n           algorithm       before        after     cost  lost\n");
  SimOptions options = asked.options;
  options.detail = Detail::Ranks;  // what is lost makes nodes differ
  perf::Progress progress(asked.algorithms.size(), "algorithms");
  for (const Algorithm* const& algorithm : asked.algorithms) {
    progress.show(static_cast<size_t>(&algorithm - asked.algorithms.data()), std::string(algorithm->name));
    Task task = asked.taskFor(algorithm, asked.bytes);
    if (!algorithm->supports(shapeOf(task, placesOf(cluster, task), task.bytes))) continue;
    TUTTI_ASSIGN(const Outcome before, simulate(whole, task, options));
    TUTTI_ASSIGN(const Damage damage, damageOf(loss, whole, before));
    TUTTI_ASSIGN(const Network less, Network::make(cluster, damage.faults));
    task.lostRanks = damage.ranks;
    // Of the rank that was the root, or of the next one if that is lost.
    const auto lower = std::ranges::lower_bound(damage.ranks, task.root) - damage.ranks.begin();
    const int left = cluster.nRanks() - static_cast<int>(damage.ranks.size());
    task.root = std::min(task.root - static_cast<int>(lower), left - 1);
    options.channels = before.channels;
    const auto after = simulate(less, task, options);
    options.channels = asked.options.channels;
    char line[512];
    if (after.ok()) {
      std::snprintf(line, sizeof line, "%20s %12s %12s %7.1f%%  %s\n", std::string(algorithm->name).c_str(),
                    shortNumber(before.us).c_str(), shortNumber(after->us).c_str(), 100 * (after->us / before.us - 1),
                    damage.name.c_str());
    } else {
      std::snprintf(line, sizeof line, "%20s %12s %12s           %s\n", std::string(algorithm->name).c_str(),
                    shortNumber(before.us).c_str(), "-", after.status().message().c_str());
    }
    text += line;
  }
  return text;
}

}  // namespace tutti::sim
