// The planner's table as text.
#include <algorithm>
#include <cstdio>

#include "src/plan/device_prices.hpp"

namespace tutti {
namespace {

/// Three digits that count, in a unit that keeps them readable.
std::string time(double us) {
  char text[32];
  const bool ms = us >= 10000;
  const double value = ms ? us / 1000 : us;
  std::snprintf(text, sizeof(text), "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, ms ? "ms" : "us");
  return text;
}

std::string padded(std::string text, size_t width, bool right = false) {
  if (text.size() < width) text.insert(right ? 0 : text.size(), width - text.size(), ' ');
  return text;
}

std::string describeLinks(const PlanRequest& r) {
  if (onDevices(r)) return r.device->describe();
  std::string out;
  if (r.links.intra) out += r.links.intra->key;
  if (r.links.inter) out += cat(out.empty() ? "" : " + ", r.links.inter->key);
  if (r.links.ranksPerCore > 1) {
    char text[64];
    std::snprintf(text, sizeof(text), ", %.3g ranks per core%s", r.links.ranksPerCore,
                  r.links.nodesShareCores ? " of the machine of all nodes" : "");
    out += text;
  }
  if (r.device != nullptr) out = cat(r.device->describe(), out.empty() ? "" : " over ", out);
  return out.empty() ? "no links" : out;
}

/// Compared ones by cost (stable: ties keep the registry's order), then the excluded.
std::vector<const Candidate*> inOrder(const Choice& choice) {
  std::vector<const Candidate*> rows;
  for (const Candidate& c : choice.table) rows.push_back(&c);
  std::stable_sort(rows.begin(), rows.end(), [](const Candidate* a, const Candidate* b) {
    if (a->excluded.empty() != b->excluded.empty()) return a->excluded.empty();
    return a->excluded.empty() && a->comparedUs() < b->comparedUs();
  });
  return rows;
}

/// "; across doubling, inside direct, tree": the steps of a hierarchical algorithm, the outermost first.
std::string describeParts(const std::vector<LevelPart>& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    out += cat(i == 0 ? "  across " : i == 1 ? ", inside " : ", ", levelPartName(parts[i]));
  }
  return out;
}

std::string howCosted(const Candidate& row) {
  if (row.tuned) return "  measured to be the fastest";
  if (!row.estimated) return "  by its formula";
  return row.estimatedRanks > 0 ? cat("  by ", row.estimatedRanks, " ranks and its formula") : "";
}

/// What a row spends its time on.  worker: where its work is done.
std::string spent(const Candidate& row, const char* worker) {
  const std::string name = cat(row.name(), row.joined ? ", chunks joined," : "", " over ", protocolName(row.protocol));
  if (row.tuned) return cat(name, " took ", time(row.costUs), ", less than all others (tutti-tune, or calls before)");
  if (!row.estimated) return cat(name, " takes ", time(row.costUs), " by its formula");
  const double rest = std::max(0.0, row.costUs - std::max(row.workUs, row.wireUs));
  std::string out = cat(name, ": ", time(row.workUs), " of work on the busiest ", worker);
  if (row.wireUs > 0) out += cat(", ", time(row.wireUs), " on the busiest wire");
  return out + cat(", ", time(rest), " of waiting");
}

/// Why the cheapest is cheaper than the next best algorithm.
std::string reason(const Choice& choice, const char* worker) {
  const std::vector<const Candidate*> rows = inOrder(choice);
  if (rows.empty() || !rows[0]->excluded.empty()) return "";
  std::string out = cat("    reason: ", spent(*rows[0], worker), "\n");
  for (const Candidate* row : rows) {
    if (!row->excluded.empty() || row->atLeast || row->name() == rows[0]->name()) continue;
    return out + cat("    next:   ", spent(*row, worker), "\n");
  }
  return out;
}

}  // namespace

std::string describe(const Choice& choice) {
  std::string out = cat(choice.name(), ", ", protocolName(choice.protocol), choice.joined ? ", chunks joined" : "");
  if (choice.interProtocol != choice.protocol) out += cat(" (between nodes ", protocolName(choice.interProtocol), ")");
  out += cat(", ", choice.nChannels, choice.nChannels == 1 ? " channel" : " channels");
  return choice.wire == WireFormat::Full ? out : cat(out, ", ", wireFormatName(choice.wire), " between hosts");
}

std::string explain(const PlanRequest& r, const Choice& choice) {
  const Shape& s = r.shape;
  std::string out =
      cat("plan ", collectiveKey(s.collective), " ", formatBytes(s.bytes), " on ", s.nRanks,
          s.nRanks == 1 ? " rank" : " ranks", " (", describeLinks(r), ")", s.inPlace ? ", in place" : "",
          s.commutative ? "" : ", operands in rank order", ": ", describe(choice), ", ", time(choice.costUs), "\n");
  for (const Unmet& unmet : choice.unmet) out += cat("    without ", unmet.asked, ": ", unmet.reason, "\n");

  const char* worker = onDevices(r) ? "device" : "core";
  size_t width = 9;
  for (const Candidate& row : choice.table) width = std::max(width, row.name().size());
  out += cat("    ", padded("algorithm", width), "  protocol        cost  vs best",
             padded(cat("busy ", worker), 13, true), "         wire\n");
  for (const Candidate* row : inOrder(choice)) {
    const std::string name = padded(std::string(row->name()), width);
    if (!row->excluded.empty()) {
      out += cat("    ", name, "  ", padded("any", 8), padded("-", 12, true), "  ", row->excluded, "\n");
      continue;
    }
    const bool winner = row->algorithm == choice.algorithm && row->origin() == choice.origin() &&
                        row->protocol == choice.protocol && row->joined == choice.joined;
    char ratio[32];
    std::snprintf(ratio, sizeof(ratio), "%6.2fx", choice.costUs > 0 ? row->costUs / choice.costUs : 1.0);
    out += cat(winner ? "  * " : "    ", name, "  ", padded(protocolName(row->protocol), 8),
               padded(cat(row->atLeast ? ">= " : "", time(row->costUs)), 12, true), "  ", ratio,
               padded(row->estimated ? time(row->workUs) : "-", 13, true),
               padded(row->wireUs > 0 ? time(row->wireUs) : "-", 13, true), row->joined ? "  chunks joined" : "",
               howCosted(*row), describeParts(row->parts), row->ready ? cat("  plan of ", row->origin()) : "", "\n");
  }
  for (size_t p = 0; p < kNumProtocols; ++p) {
    if (choice.protocolExcluded[p].empty()) continue;
    const char* protocol = protocolName(static_cast<Protocol>(p));
    out += cat("    ", padded("any", width), "  ", padded(protocol, 8), padded("-", 12, true), "  ",
               choice.protocolExcluded[p], "\n");
  }
  return out + reason(choice, worker);
}

}  // namespace tutti
