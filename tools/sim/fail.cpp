#include "tools/sim/fail.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

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

int mostLoaded(const Outcome& outcome) {
  size_t most = 0;
  for (size_t i = 1; i < outcome.run.linkBytes.size(); ++i) {
    if (outcome.load(i) > outcome.load(most)) most = i;
  }
  return static_cast<int>(most);
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
    const int link = loss.number >= 0 ? loss.number : mostLoaded(before);
    if (link >= whole.nLinks()) return invalidArgument("--fail link:", link, ": there are ", whole.nLinks(), " links");
    damage.faults.links = {link};
    damage.name = cat("one of the ", whole.cables(link), " cables of link ", link, ", ", whole.name(link));
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
  for (const Algorithm* algorithm : asked.algorithms) {
    Task task = asked.taskFor(algorithm, asked.bytes);
    if (!algorithm->supports(shapeOf(task, placesOf(cluster, task), task.bytes))) continue;
    TUTTI_ASSIGN(const Outcome before, simulate(whole, task, options));
    TUTTI_ASSIGN(const Damage damage, damageOf(loss, whole, before));
    TUTTI_ASSIGN(const Network less, Network::make(cluster, damage.faults));
    task.lostRanks = damage.ranks;
    if (!damage.ranks.empty() && task.root > 0 && task.root >= damage.ranks.front()) --task.root;
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
