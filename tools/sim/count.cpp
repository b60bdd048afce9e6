#include "tools/sim/count.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>

#include "algorithms/patterns.hpp"
#include "perf/common/progress.hpp"
#include "tools/cluster/textbook.hpp"
#include "tools/cluster/traffic.hpp"
#include "tools/json.hpp"
#include "tools/sim/report.hpp"

namespace tutti::sim {
namespace {

constexpr LinkClass kClasses[] = {LinkClass::Node, LinkClass::Leaf, LinkClass::Fabric};

std::string byteText(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", bytes);
  return text;
}

/// The formula's bytes; negative where textbooks have none for so many ranks.
double expectedBytes(const Textbook& book, const Network& network, const Traffic& traffic, size_t bytes) {
  const auto ranks = static_cast<int>(traffic.ranks.size());
  if (book.onlyPowersOfTwo && !std::has_single_bit(static_cast<unsigned>(ranks))) return -1;
  const Cluster& c = network.cluster();
  return static_cast<double>(bytes) * book.sent({.n = double(ranks),
                                                 .L = double(ceilLog2(ranks)),
                                                 .g = double(c.ranksPerNode),
                                                 .m = double(c.nodes),
                                                 .k = double(traffic.nChunks)});
}

std::string besideTextbook(const Textbook* book, double expected) {
  if (book == nullptr) return "no formula in textbooks";
  if (expected < 0) return cat("textbook, for powers of two of ranks only: ", book->formula);
  const char* most = book->says == Textbook::Says::AtMost ? "at most " : "";
  return cat("textbook: ", most, book->formula, " = ", byteText(expected));
}

bool usesClass(const Traffic& traffic, LinkClass which) {
  const auto at = static_cast<size_t>(which);
  return std::ranges::any_of(traffic.ranks, [&](const RankTraffic& r) { return r.sent[at].messages > 0; });
}

std::string cells(const Amount& sent, const Amount& received) {
  char text[96];
  std::snprintf(text, sizeof text, " %8lld %14.0f  %8lld %14.0f", static_cast<long long>(sent.messages), sent.bytes,
                static_cast<long long>(received.messages), received.bytes);
  return text;
}

/// A column for each class that is used, a line for each run of ranks that do the same: messages and bytes.
std::string rankTable(const Traffic& traffic) {
  const size_t width = cells({}, {}).size();
  std::string names = padded("", 11), text = padded("ranks", 11);
  for (const LinkClass which : kClasses) {
    if (!usesClass(traffic, which)) continue;
    names += padded(linkClassName(which), width);
    text += padded("sent", 24) + padded("received", 25);
  }
  text = names + "\n" + text + "\n";
  for (size_t first = 0; first < traffic.ranks.size();) {
    size_t end = first + 1;
    while (end < traffic.ranks.size() && traffic.ranks[end] == traffic.ranks[first]) ++end;
    const RankTraffic& r = traffic.ranks[first];
    text += padded(end - first == 1 ? cat(first) : cat(first, "-", end - 1), 11);
    for (const LinkClass which : kClasses) {
      const auto at = static_cast<size_t>(which);
      if (usesClass(traffic, which)) text += cells(r.sent[at], r.received[at]);
    }
    text += "\n";
    first = end;
  }
  return text;
}

Amount totalOf(const Traffic& traffic, LinkClass which) {
  Amount total;
  for (const RankTraffic& r : traffic.ranks) {
    total.messages += r.sent[static_cast<size_t>(which)].messages;
    total.bytes += r.sent[static_cast<size_t>(which)].bytes;
  }
  return total;
}

std::string classTable(const Traffic& traffic) {
  std::string text;
  for (const LinkClass which : kClasses) {
    if (!usesClass(traffic, which)) continue;
    double most = 0;
    for (const RankTraffic& r : traffic.ranks) most = std::max(most, r.sent[static_cast<size_t>(which)].bytes);
    const Amount total = totalOf(traffic, which);
    text += cat("  ", linkClassName(which), ": ", total.messages, " messages, ", byteText(total.bytes),
                " bytes; one rank sends at most ", byteText(most), "\n");
  }
  return text;
}

std::string jsonAmounts(const std::array<Amount, kNumLinkClasses>& amounts) {
  std::vector<std::string> all;
  for (const LinkClass which : kClasses) {
    const Amount& a = amounts[static_cast<size_t>(which)];
    all.push_back(cat("{\"messages\": ", a.messages, ", \"bytes\": ", jsonNumber(a.bytes), "}"));
  }
  return jsonList(all);
}

std::string jsonTraffic(const Algorithm& algorithm, const Traffic& traffic, double expected) {
  std::vector<std::string> ranks;
  for (const RankTraffic& r : traffic.ranks) {
    ranks.push_back(cat("{\"sent\": ", jsonAmounts(r.sent), ", \"received\": ", jsonAmounts(r.received), "}"));
  }
  return cat("{\"algorithm\": ", jsonText(algorithm.name),
             ", \"textbook_bytes\": ", expected < 0 ? "null" : jsonNumber(expected), ", \"ranks\": ", jsonList(ranks),
             "}");
}

}  // namespace

Result<std::string> countBytes(const Network& network, const Asked& asked, bool json) {
  std::string text;
  std::vector<std::string> results;
  const std::vector<const Algorithm*> all = fitting(network, asked);
  perf::Progress progress(all.size(), "algorithms");
  for (const Algorithm* const& algorithm : all) {
    progress.show(static_cast<size_t>(&algorithm - all.data()), std::string(algorithm->name));
    const Task task = asked.taskFor(algorithm, asked.bytes);
    TUTTI_ASSIGN(const Traffic traffic, trafficOf(network, task));
    const Textbook* book = findTextbook(asked.collective, algorithm->name);
    const double expected = book == nullptr ? -1 : expectedBytes(*book, network, traffic, task.bytes);
    if (json) {
      results.push_back(jsonTraffic(*algorithm, traffic, expected));
      continue;
    }
    double most = 0;
    for (const RankTraffic& r : traffic.ranks) most = std::max(most, r.allSent().bytes);
    text += cat(collectiveKey(asked.collective), " ", algorithm->name, ", ", formatBytes(asked.bytes), ", ",
                describe(network.cluster()), ": most sent by a rank ", byteText(most), " bytes; ",
                besideTextbook(book, expected), "\n", rankTable(traffic), classTable(traffic));
  }
  if (!json) return text;
  return cat(jsonHead(network, asked), ", \"bytes\": ", asked.bytes,
             ", \"classes\": [\"node\", \"leaf\", \"fabric\"], \"results\": ", jsonList(results), "}\n");
}

}  // namespace tutti::sim
