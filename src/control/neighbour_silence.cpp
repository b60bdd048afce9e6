// Links of neighbours that have fallen silent.
#include "src/base/log.hpp"
#include "src/control/neighbours.hpp"

namespace tutti {

void Neighbours::lookForSilence() {
  silenceLookNs_ = kNoTimer;
  const int64_t now = network_.nowNs();
  for (auto& [peer, neighbour] : neighbours_) {
    const bool counts = neighbour.confirmed && !neighbour.departed && neighbour.broken.sinceNs == kNoTimer;
    if (!counts || neighbour.link.id() == 0 || !network_.silent(neighbour.link.id())) {
      neighbour.silentNs = kNoTimer;
      continue;
    }
    if (neighbour.silentNs == kNoTimer) {
      TUTTI_INFO("bootstrap", "rank ", request_.rank, "'s control connection to rank ", peer, " has fallen silent");
      neighbour.silentNs = now;
    }
    if (neighbour.dial.link == 0 && neighbour.dial.nextNs == kNoTimer) dialAgain(peer, neighbour);
  }
  tellSilence();
}

/// Tells of links that are silent, and of broken ones that find no answer.
void Neighbours::tellSilence() {
  if (host_.failed()) return;
  const int64_t now = network_.nowNs();
  Silences::Found found;
  for (const auto& [peer, neighbour] : neighbours_) {
    const bool lacks = neighbour.silentNs != kNoTimer || neighbour.broken.sinceNs != kNoTimer;
    if (lacks && now - neighbour.heardNs >= kSilenceToldNs) found[peer] = (now - neighbour.heardNs) / 1'000'000;
  }
  if (const std::optional<std::string> message = silences_.find(found, now)) flood(*message, -1);
  warnOfSilence();
}

void Neighbours::warnOfSilence() {
  for (const std::string& line : silences_.takeWarnings()) TUTTI_WARN("comm", line);
}

/// Of a link that another one replaces.
void Neighbours::breakSilent(Neighbour& neighbour) {
  if (neighbour.silentNs == kNoTimer || neighbour.broken.sinceNs != kNoTimer) return;
  const Status why = remoteError(ErrorCode::ConnectionLost, "nothing was acknowledged");
  neighbour.broken = {why, neighbour.silentNs, network_.nowNs() + brokenPatienceNs(why)};
  brokenNs_ = std::min(brokenNs_, neighbour.broken.untilNs);
  neighbour.silentNs = kNoTimer;
}

bool Neighbours::onSilence(int from, Reader& in, std::string_view message) {
  const std::optional<bool> news = silences_.onMessage(in, network_.nowNs());
  if (news && *news) flood(std::string(message), from);
  warnOfSilence();
  return news.has_value();
}

}  // namespace tutti
